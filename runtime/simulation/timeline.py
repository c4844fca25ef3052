"""A run as a person reads it: calls, answers, faults and lives in order, without the thousands of disk operations.

::

    0.500002 p0.1  #6 ben asks patch {'cwd': {'working': {'answers': {'pat-1': 'yes'}}}}
    0.500002 world fault power@417:torn:909875, before append /agent/state-flow/.strataflow/journal.db of p0.1
    0.550003 p0.2  open
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .fault_plan import KINDS
from .history import Call, Read
from .report import Report

_CALL = re.compile(r"(call|answer) \{'number': (\d+)\b")
_OPERATION = re.compile(r"\w+ /")
_SHOWN_MAX = 180
_FOUND_MAX = 40


def timeline(report: Report, lines_max: int | None = None) -> str:
    """What happened in a run; of a long one the last ``lines_max`` lines, and how many are missing."""
    lines = list(_lines(report))
    missing = 0 if lines_max is None else max(0, len(lines) - lines_max)
    told = [f"… {missing} lines before"] if missing else []
    return "\n".join([*told, *lines[missing:]])


def _lines(report: Report) -> Iterator[str]:
    calls = {call.number: call for call in report.history.calls}
    operation = ""
    for line in report.trace.splitlines():
        time, who, text = line.split(" ", 2)
        if _OPERATION.match(text):
            operation = f"{text} of {who}"
            continue
        if match := _CALL.match(text):
            call = calls[int(match[2])]
            text = _asked(call) if match[1] == "call" else _answered(call)
        elif text.startswith("fault "):
            kind = text.removeprefix("fault ").partition("@")[0]
            text += f", before {operation}" if KINDS.get(kind) == "operation" else ""
        yield f"{time} {who:5} {_cut(text)}"


def _asked(call: Call) -> str:
    # What a transaction has read is known in the end only.
    return f"#{call.number} {call.session} asks {call.kind} {call.patches or ''}".rstrip()


def _answered(call: Call) -> str:
    seen = [f"{step.path}: {_found(step)}" if isinstance(step, Read) else f"patch {step}" for step in call.steps]
    return f"#{call.number} {call.ending} {call.code or ''} {'; '.join(seen)}".replace("  ", " ").rstrip()


def _found(step: Read) -> str:
    # Short, so that there is room for what was changed.
    return "nothing" if step.is_absent else _cut(repr(step.found), _FOUND_MAX)


def _cut(text: str, length: int = _SHOWN_MAX) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
