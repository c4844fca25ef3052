"""Correct histories, damaged in one place: each damage breaks one promise, and its name is the rule that must find it.

A damage takes a chronicle (see ``perfect_histories``), changes its history and says whether it found a place to do so.
It knows what was true at every row, and changes nothing that could still be explained.
"""

from __future__ import annotations

import copy
import random

import attrs

from kit import damaged_reads
from kit.damages import (
    DAMAGES,
    Damage,
    address_of,
    at,
    breaks,
    end_with,
    has_intents,
    in_the_end,
    is_shared,
    patches_of,
    pick,
    reads,
    stored,
    with_leaf,
    written,
)
from kit.perfect_histories import ABSENT, Chronicle
from strataflow.runtime.simulation.history import Call, PowerCut, Read

__all__ = ["DAMAGES", "Damage", "damaged", "damaged_reads"]


# -- rows and the end ---------------------------------------------------------------------------------------------


@breaks("lost-write")
def an_acknowledged_write_is_not_there(chronicle: Chronicle, chance: random.Random) -> bool:
    found = [
        (place, *shown[0])
        for place, _, call in stored(chronicle)
        for shown in [in_the_end(chronicle, call)]
        if len(shown) == 1 and not has_intents(call)
    ]
    if not found:
        return False
    place, scope, keys, value = pick(chance, found)
    before = at(chronicle.states[place - 1].scopes.get(scope, ABSENT).value, keys)
    if isinstance(before, dict) or before == value:
        return False
    end_with(chronicle, scope, keys, before)
    return True


@breaks("torn-write")
def one_part_of_a_write_is_not_there(chronicle: Chronicle, chance: random.Random) -> bool:
    found = [(place, shown) for place, _, call in stored(chronicle) if len(shown := in_the_end(chronicle, call)) > 1]
    if not found:
        return False
    place, shown = pick(chance, found)
    scope, keys, value = pick(chance, shown)
    before = at(chronicle.states[place - 1].scopes.get(scope, ABSENT).value, keys)
    if isinstance(before, dict) or before == value:
        return False
    end_with(chronicle, scope, keys, before)
    return True


@breaks("phantom-write")
def the_end_shows_what_nobody_wrote(chronicle: Chronicle, chance: random.Random) -> bool:
    scope = pick(chance, chronicle.history.final)
    if scope is not None:
        end_with(chronicle, scope.scope, ("working", "ghost"), "ghost")
    return scope is not None


@breaks("phantom-write")
def the_end_shows_a_call_that_was_refused(chronicle: Chronicle, chance: random.Random) -> bool:
    calls = [call for call in chronicle.history.calls if call.ending == "refused"]
    found = [item for call in calls for item in written(call)]
    if found:
        end_with(chronicle, *pick(chance, found))
    return bool(found)


@breaks("phantom-write")
def a_read_shows_what_nobody_wrote(chronicle: Chronicle, chance: random.Random) -> bool:
    call = pick(chance, reads(chronicle))
    if call is not None:
        call.steps = [Read("cwd.working.k", {"y": "ghost"})]
    return call is not None


@breaks("double-write")
def a_request_has_two_rows(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is None:
        return False
    call = found[2]
    calls, head = chronicle.history.calls, chronicle.states[-1].seq
    again = copy.deepcopy(call)
    again.number, again.begun_s, again.ended_s = len(calls) + 1, chronicle.now + 1, chronicle.now + 2
    again.seq, again.transition_id = head + 1, "again"
    calls.append(again)
    return True


@breaks("double-write")
def an_overwritten_write_is_back_with_one_revision_more(chronicle: Chronicle, chance: random.Random) -> bool:
    final = {scope.scope: scope.value for scope in chronicle.history.final}
    found = [
        item
        for _, state, call in stored(chronicle)
        for item in written(call)
        for there in [at(final.get(item[0], {}), item[1])]
        if isinstance(there, str) and there != item[2]
        if at(state.scopes.get(item[0], ABSENT).value, item[1]) == item[2]
    ]
    if found:
        end_with(chronicle, *pick(chance, found), revisions=1)
    return bool(found)


@breaks("wrong-order")
def two_calls_have_each_other_s_rows(chronicle: Chronicle, chance: random.Random) -> bool:
    rows = stored(chronicle)
    found = [
        (first, second)
        for _, _, first in rows
        for _, _, second in rows
        if first.ended_s is not None and first.ended_s < second.begun_s and not is_shared(chronicle, first, second)
    ]
    if not found:
        return False
    first, second = pick(chance, found)
    first.seq, second.seq = second.seq, first.seq
    return True


@breaks("wrong-final")
def the_end_shows_an_empty_object(chronicle: Chronicle, chance: random.Random) -> bool:
    for place, item in enumerate(chronicle.history.final):
        if "working" in item.value:
            value = {**item.value, "working": {**item.value["working"], "hollow": {}}}
            chronicle.history.final[place] = attrs.evolve(item, value=value, file_value=value)
            return True
    return False


@breaks("bad-file")
def a_file_says_something_else(chronicle: Chronicle, chance: random.Random) -> bool:
    place = pick(chance, [*range(len(chronicle.history.final))])
    if place is not None:
        item = chronicle.history.final[place]
        value = with_leaf(item.value, ("working", "other"), "other")
        chronicle.history.final[place] = attrs.evolve(item, file_value=value)
    return place is not None


@breaks("bad-file")
def a_file_can_not_be_read(chronicle: Chronicle, chance: random.Random) -> bool:
    place = pick(chance, [*range(len(chronicle.history.final))])
    if place is not None:
        item = chronicle.history.final[place]
        chronicle.history.final[place] = attrs.evolve(item, file_value=None, file_problem="no JSON")
    return place is not None


@breaks("lost-tail")
def a_power_cut_takes_what_was_acknowledged(chronicle: Chronicle, chance: random.Random) -> bool:
    history = chronicle.history
    _, _, call = pick(chance, stored(chronicle)) or (0, 0, None)
    if call is None or history.may_lose_tail or history.cuts:
        return False
    assert call.ended_s is not None
    assert call.seq is not None
    history.cuts.append(PowerCut(call.ended_s + 0.1, call.seq - 1))
    return True


# -- receipts and outcomes ----------------------------------------------------------------------------------------


@breaks("wrong-revision")
def a_revision_is_one_too_many_or_too_few(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is None:
        return False
    call = found[2]
    address, name = address_of(call), chance.choice(("global", "cwd", "session"))
    number = found[1].scopes.get(address.scope(name), ABSENT).revision  # type: ignore[arg-type]
    wrong = number + chance.choice((1, -1) if number else (1,))
    before = f"{name[0]}{number}"
    assert call.revision is not None
    place = call.revision.index(before)
    call.revision = f"{call.revision[:place]}{name[0]}{wrong}{call.revision[place + len(before) :]}"
    return True


@breaks("wrong-receipt")
def a_change_is_told_as_none(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is not None:
        found[2].changed, found[2].transition_id = False, None
    return found is not None


@breaks("wrong-receipt")
def what_changed_nothing_is_told_as_a_change(chronicle: Chronicle, chance: random.Random) -> bool:
    calls = [call for call in chronicle.history.calls if call.ending == "ok" and call.changed is False]
    calls = [call for call in calls if any(patches_of(call)) and not is_shared(chronicle, call)]
    call = pick(chance, calls)
    if call is not None:
        call.changed, call.transition_id = True, "none"
    return call is not None


@breaks("wrong-receipt")
def two_calls_are_told_one_row(chronicle: Chronicle, chance: random.Random) -> bool:
    rows = stored(chronicle)
    pairs = [(one, two) for _, _, one in rows for _, _, two in rows if one is not two]
    pair = pick(chance, [pair for pair in pairs if not is_shared(chronicle, *pair)])
    if pair is not None:
        pair[0].seq = pair[1].seq
    return pair is not None


@breaks("outcome-lies")
def a_call_that_is_there_is_said_to_be_unseen(chronicle: Chronicle, chance: random.Random) -> bool:
    names = [
        state.call.request_id
        for state in chronicle.states
        if state.call is not None and state.call.ending == "unknown" and in_the_end(chronicle, state.call)
    ]
    answered = {call.request_id for call in chronicle.history.calls if call.ending == "ok"}
    name = pick(chance, [name for name in names if name not in answered])
    if name is not None:
        chronicle.history.outcomes[name] = None
    return name is not None


@breaks("outcome-lies")
def a_call_that_is_not_there_is_said_to_be_stored(chronicle: Chronicle, chance: random.Random) -> bool:
    history = chronicle.history
    calls = [
        call
        for call in history.calls
        if call.ending == "unknown" and call.request_id and history.outcomes.get(call.request_id, 0) is None
    ]
    calls = [call for call in calls if written(call) and not is_shared(chronicle, call) and _is_last(call)]
    call = pick(chance, calls)
    if call is not None:
        history.outcomes[call.request_id] = chronicle.states[-1].seq + 1
    return call is not None


def _is_last(call: Call) -> bool:
    """Whether everything that a call writes would still be there after it."""
    return all(patch.get("intents") is None for patches in patches_of(call) for patch in patches.values())


@breaks("forgotten-request")
def an_acknowledged_request_is_said_to_be_unseen(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is not None:
        chronicle.history.outcomes[found[2].request_id] = None
    return found is not None


def damaged(seed: int, damage: Damage, calls: int = 40) -> Chronicle | None:
    """A damaged history, or None if there is no place for the damage in it."""
    chance = random.Random(f"damage {seed}")
    chronicle = Chronicle(random.Random(f"history {seed}"), has_lives=chance.random() < 0.5)
    chronicle.write(calls)
    return chronicle if damage(chronicle, chance) else None
