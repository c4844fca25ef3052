"""The decision whether a set of calls can all be true, held against one that tries everything.

Histories of three or four calls, most of them impossible, and all sets of their calls.
"""

from __future__ import annotations

import random

from kit.naive_explaining import naive_explainable, subsets
from strataflow.runtime.simulation.checker import check
from strataflow.runtime.simulation.checker.facts import facts_of
from strataflow.runtime.simulation.checker.focus import Focus
from strataflow.runtime.simulation.checker.judge import judge
from strataflow.runtime.simulation.checker.possible import Possibilities
from strataflow.runtime.simulation.checker.rows import row_faults
from strataflow.runtime.simulation.checker.writers import Writers
from strataflow.runtime.simulation.history import Call, FinalScope, History, Read

SEEDS = 80
# Values and flags, as the naive decision knows them; not revisions.
KNOWN = Focus(None, None, frozenset())


def tiny_history(seed: int) -> History:
    """Three or four calls that overlap as they like; what is read, and found in the end, is made up."""
    chance, history, rows = random.Random(f"tiny {seed}"), History(), 0
    begun_s = 0.0

    def made_up() -> dict[str, str]:
        return {key: f"v{chance.randrange(1, 4)}" for key in "ab" if chance.random() < 0.6}

    for number in range(1, chance.choice((4, 5))):
        process = f"p{chance.randrange(2)}"
        call = Call(number, process, "/a", f"s{number}", "read" if chance.random() < 0.4 else "patch", begun_s)
        call.ended_s, call.ending = begun_s + chance.choice((0.5, 1.5, 2.5, 4.5)), "ok"
        begun_s += chance.choice((1.0, 2.0))
        history.calls.append(call)
        if call.kind == "read":
            found = made_up()
            call.steps = [Read("global.working", found or None, not found)]
            continue
        keys = chance.sample("ab", chance.choice((1, 2)))
        call.patches = {"global": {"working": {key: chance.choice((f"v{number}", f"v{number}", None)) for key in keys}}}
        call.request_id = f"r{number}"
        fate = chance.random()
        if fate < 0.2:
            call.ending, call.ended_s = "unknown", None
            rows += fate < 0.1
            history.outcomes[call.request_id] = rows if fate < 0.1 else None
        elif fate < 0.3:
            call.ending, call.code = "refused", "E_INDEX"
        else:
            rows += 1
            call.seq, call.changed, call.transition_id = rows, True, f"t{number}"
    left = made_up()
    history.final = [FinalScope("", {"working": left} if left else {}, 0)]
    return history


def test_what_is_possible_is_what_trying_everything_finds() -> None:
    decided = impossible = 0
    for seed in range(SEEDS):
        history = tiny_history(seed)
        facts = facts_of(history)
        writers = Writers(facts, judge(facts).gone)
        possibilities = Possibilities(facts, writers)
        faults = [set(fault.calls) for fault in row_faults(facts, writers)]
        for numbers in subsets([call.number for call in history.calls]):
            if any(fault <= numbers for fault in faults):
                continue
            is_possible = naive_explainable(history, numbers)
            assert (possibilities.explained(numbers, KNOWN) is not None) == is_possible, (seed, numbers)
            decided += 1
            impossible += not is_possible
    assert decided > 500
    assert decided - impossible > 50


def test_a_violation_is_found_exactly_where_all_calls_together_are_impossible() -> None:
    for seed in range(SEEDS):
        history = tiny_history(seed)
        rules = {violation.rule for violation in check(history)} - {"wrong-revision"}
        numbers = {call.number for call in history.calls}
        facts = facts_of(history)
        has_fault = bool(row_faults(facts, Writers(facts, {})))
        assert bool(rules) == (has_fault or not naive_explainable(history, numbers)), (seed, rules)
