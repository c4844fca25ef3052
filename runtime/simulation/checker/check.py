"""The history checker: did a store keep its promises to the clients whose calls a history tells of?

An independent model goes through all accepted calls in the order of their rows, and every answer must fit it. What
does not fit is a violation: one of ``RULES``, and the smallest set of calls that can not all be true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from ..history import History, Violation
from .blame import Blame
from .facts import facts_of
from .judge import Verdict, judge
from .model import own_planes
from .possible import Possibilities
from .rows import row_faults
from .smallest import smallest
from .values import differences
from .writers import Writers

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lost-write": "an acknowledged change is not there",
        "phantom-write": "something is there that nobody wrote, or that was refused",
        "double-write": "one call, or one request id, was stored twice",
        "torn-write": "a call is there in part",
        "wrong-order": "a call that ended before another began has the later row",
        "not-serializable": "a transaction was committed upon what was not so any more",
        "false-conflict": "a transaction was refused for what had not changed, or was never so",
        "stale-read": "a read shows what its process had left behind, or what was there at no moment",
        "future-read": "a read shows what somebody began to write afterwards",
        "wrong-past": "a read at an offset shows what was not there then",
        "leaked": "a read, or the end, shows what is private elsewhere",
        "wrong-revision": "a revision does not count the changes",
        "wrong-receipt": "a receipt says something else than what was done",
        "wrong-final": "the end is not what follows from the calls",
        "bad-file": "the canonical files differ from the store, or can not be read",
        "lost-tail": "a power cut took what had been promised to stay",
        "outcome-lies": "what the store says of an unanswered call is not so",
        "forgotten-request": "the store does not know a request that it accepted",
    }
)
# As many of one rule are told, and as many doubts are followed; one fault has many consequences.
OF_ONE_RULE_MAX: Final = 5
TRIED_MAX: Final = 10


def check(history: History) -> list[Violation]:
    """Every broken promise that the history shows, in the order of ``RULES``; empty if all of it can be true.

    At most five of one rule are told, since one fault has many consequences.
    """
    return _Check(history).violations()


def is_explainable(history: History, numbers: Iterable[int]) -> bool:
    """Whether some calls can all be true with nothing known of the others but what they asked for, and when.

    The calls that a violation names are not explainable; with any one of them left out they are.
    """
    facts = facts_of(history)
    writers = Writers(facts, judge(facts).gone)
    chosen = set(numbers)
    if any(chosen.issuperset(fault.calls) for fault in row_faults(facts, writers)):
        return False
    return Possibilities(facts, writers).explained(chosen) is not None


class _Check:
    """One check, and how many violations of each rule it has found."""

    def __init__(self, history: History) -> None:
        self._facts = facts_of(history)
        self._told: Counter[str] = Counter()

    def violations(self) -> list[Violation]:
        verdict = judge(self._facts)
        writers = Writers(self._facts, verdict.gone)
        found = [*row_faults(self._facts, writers), *file_faults(self._facts.history)]
        if verdict.doubts:
            blamed = self._blamed(verdict, writers)
            found = [*_without_consequences(found, blamed, of_one_rule=True), *_without_consequences(blamed, found)]
        order = {rule: place for place, rule in enumerate(RULES)}
        found = [attrs.evolve(violation, calls=tuple(sorted(violation.calls))) for violation in found]
        found.sort(key=lambda violation: (order[violation.rule], violation.calls))
        return [violation for violation in found if self._is_wanted(violation.rule)]

    def _blamed(self, verdict: Verdict, writers: Writers) -> list[Violation]:
        possibilities = Possibilities(self._facts, writers)
        tried: Counter[str] = Counter()
        proven: list[Violation] = []
        unproven: list[Violation] = []
        for suspicion in Blame.of(self._facts, writers).suspicions(verdict.doubts):
            tried[suspicion.rule] += 1
            if tried[suspicion.rule] > TRIED_MAX:
                continue
            found = smallest(possibilities, suspicion)
            if found is not None:
                violation = Violation(suspicion.rule, suspicion.message, found.calls)
                (proven if found.is_proven else unproven).append(violation)
        # A doubt that could not be proven by few calls follows from another fault, unless there is no other.
        return proven or unproven

    def _is_wanted(self, rule: str) -> bool:
        self._told[rule] += 1
        return self._told[rule] <= OF_ONE_RULE_MAX


def _without_consequences(
    found: list[Violation], others: list[Violation], of_one_rule: bool = False
) -> list[Violation]:
    """What is left without violations whose calls contradict each other only because some of them do already."""
    parts = [(set(violation.calls), violation.rule) for violation in (*found, *others) if violation.calls]
    return [
        violation
        for violation in found
        if not any(part < set(violation.calls) and (rule == violation.rule or not of_one_rule) for part, rule in parts)
    ]


def file_faults(history: History) -> Iterator[Violation]:
    """Canonical files that can not be read, or say something else than the store."""
    for scope in history.final:
        name = scope.scope or "global"
        if scope.file_problem is not None:
            yield Violation("bad-file", f"the files of {name} can not be read: {scope.file_problem}", ())
        elif scope.file_value is not None:
            wrong = next(differences(own_planes(scope.file_value), own_planes(scope.value)), None)
            if wrong is not None:
                where = ".".join(wrong[0]) or "the whole"
                yield Violation("bad-file", f"the files of {name} differ from the store at {where}", ())
