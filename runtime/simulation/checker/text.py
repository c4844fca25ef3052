"""A violation for people: the rule, what contradicts what, and the calls that can not all be true."""

from __future__ import annotations

from typing import Any, Final

from ....store import Json, compact
from ..history import Call, History, Read, Violation
from .model import steps_of

# Characters of a value that a line shows.
SHOWN_MAX: Final = 160


def told(violation: Violation, history: History) -> str:
    """A violation as text: rule and sentence, then one line for each call of the set: who, when, what, answer."""
    calls = {call.number: call for call in history.calls}
    lines = [f"{violation.rule}: {violation.message}"]
    lines += [f"  {told_call(calls[number])}" for number in violation.calls if number in calls]
    return "\n".join(lines)


def told_call(call: Call) -> str:
    """One call in a line."""
    ended = "" if call.ended_s is None else f"{call.ended_s:.6f}"
    asked = [_told_step(step) for step in steps_of(call)]
    return (
        f"#{call.number} {call.process} {call.cwd} {call.session} {call.begun_s:.6f}..{ended} "
        f"{call.kind} {' '.join(asked)} -> {_told_answer(call)}"
    )


def _told_step(step: Read | Json) -> str:
    if not isinstance(step, Read):
        return _short(step)
    found = "nothing" if step.is_absent or step.found is None else _short(step.found)
    return f"{step.path}{' keys' if step.projection == 'keys' else ''}={found}"


def _told_answer(call: Call) -> str:
    if call.ending == "refused":
        return call.code or "refused"
    if call.ending == "unknown":
        return "no answer"
    if call.seq is None:
        return "ok"
    return f"row {call.seq}{'' if call.changed else ', nothing changed'} {call.revision or ''}".rstrip()


def _short(value: Any) -> str:
    text = compact(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
