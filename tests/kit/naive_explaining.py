"""Can a set of calls all be true? Decided by trying everything, for histories so small that this ends.

They know one object, ``global.working``, whose keys hold strings: patches of it, reads of it, and the end. Outside of
the set each key of each patch may be written or deleted once, at any time after the call began.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, permutations
from typing import Any

from strataflow.runtime.simulation.history import Call, History, Read

# Something that happens: a call of the set, or a key and what an outsider leaves there.
Step = Call | tuple[float, str, str | None]


def naive_explainable(history: History, numbers: set[int]) -> bool:
    """Whether any order of anything explains the set."""
    members = [call for call in history.calls if call.number in numbers and _happens(history, call)]
    parts: list[Step] = [
        (call.begun_s, key, value)
        for call in history.calls
        if call.number not in numbers and call.kind == "patch"
        for key, value in call.patches["global"]["working"].items()
    ]
    for chosen in chain.from_iterable(combinations(parts, count) for count in range(len(parts) + 1)):
        for order in permutations([*members, *chosen]):
            if _is_in_order(history, order) and _fits(history, order):
                return True
    return False


def _happens(history: History, call: Call) -> bool:
    return call.kind == "read" or row_of(history, call) is not None


def row_of(history: History, call: Call) -> int | None:
    """The row of a call, by its answer or by what the store says of it."""
    return call.seq if call.ending == "ok" else history.outcomes.get(call.request_id or "")


def _is_in_order(history: History, order: tuple[Step, ...]) -> bool:
    for place, later in enumerate(order):
        for earlier in order[:place]:
            if not isinstance(later, Call):
                continue
            if not isinstance(earlier, Call):
                if earlier[0] > _end(later):
                    return False
            elif not _may_precede(history, earlier, later):
                return False
    return True


def _may_precede(history: History, earlier: Call, later: Call) -> bool:
    if earlier.kind == "patch" and later.kind == "patch":
        return (row_of(history, earlier) or 0) < (row_of(history, later) or 0)
    if earlier.kind == "patch":
        return earlier.begun_s <= _end(later)  # nobody reads what has not begun
    if later.kind == "patch" and later.ending != "ok":
        return True
    return not (earlier.process == later.process and _end(later) < earlier.begun_s)


def _end(call: Call) -> float:
    is_open = call.ended_s is None or (call.kind == "patch" and call.ending != "ok")
    return float("inf") if is_open or call.ended_s is None else call.ended_s


def _fits(history: History, order: tuple[Step, ...]) -> bool:
    state: dict[str, Any] = {}
    for step in order:
        if not isinstance(step, Call):
            state = _after(state, {step[1]: step[2]})
        elif step.kind == "read":
            (read,) = step.steps
            assert isinstance(read, Read)
            if (read.found or {}) != state:
                return False
        else:
            after = _after(state, step.patches["global"]["working"])
            if step.ending == "ok" and step.changed != (after != state):
                return False
            state = after
    return all(scope.value.get("working", {}) == state for scope in history.final)


def _after(state: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**state, **patch}.items() if value is not None}


def subsets(numbers: list[int]) -> Iterator[set[int]]:
    """All of them."""
    return map(set, chain.from_iterable(combinations(numbers, count) for count in range(len(numbers) + 1)))
