"""An error as one short line (T13): what a model or a terminal is told.

A long line is made shorter where it hurts least: first long quoted values, then the folders of paths, then the
middle. The beginning says what was refused and the end says why and what to do; both survive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import StrataflowError

TEXT_CHARS_MAX = 220
_QUOTED_CHARS = (96, 64, 48, 32)
_TAIL_CHARS = 90
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|(?<!\w)\'[^\']*\'(?!\w)')
_FOLDERS = re.compile(r"(?:/[^/\s\"':;,]+){2,}(?=/[^/\s\"':;,]+)")


def error_text(error: BaseException) -> str:
    """``error`` and what caused it on one line of at most 220 characters, never empty."""
    parts: list[str] = []
    for text in _texts(error):
        # A cause that is told already adds nothing.
        if text and not any(text in known for known in parts):
            parts.append(text)
    return shortened("; ".join(parts) or "the call failed")


def shortened(line: str) -> str:
    """``line`` with its white space collapsed, at most 220 characters long."""
    line = " ".join(line.split())
    for width in _QUOTED_CHARS:
        if len(line) <= TEXT_CHARS_MAX:
            return line
        line = _QUOTED.sub(lambda found, width=width: _cut(found[0], width), line)  # type: ignore[misc]
    if len(line) > TEXT_CHARS_MAX:
        line = _FOLDERS.sub("…", line)
    return line if len(line) <= TEXT_CHARS_MAX else _cut(line, TEXT_CHARS_MAX, _TAIL_CHARS)


def _cut(text: str, width: int, tail: int = 8) -> str:
    return text if len(text) <= width else f"{text[: width - tail - 1]}…{text[-tail:]}"


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, BaseExceptionGroup):
            waiting = [*found.exceptions, *waiting]
            continue
        text = found.message if isinstance(found, StrataflowError) else str(found)
        yield " ".join(text.split()).rstrip(".")
        if found.__cause__ is not None:
            waiting.insert(0, found.__cause__)
