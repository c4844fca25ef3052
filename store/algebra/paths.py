"""The grammar of read paths (T39 to T43).

::

    path  = root ["[" N "]"] step*  |  plane step*
    root  = "effective" | "global" | "cwd" | "session"
    step  = "." key  |  "[" n "]"  |  "[" a ":" b "]"  |  "[" a ".." b "]"
    key   = [A-Za-z_$][A-Za-z0-9_$-]*

A bare plane means the current effective view. Only digits count as numbers; leading zeros are allowed.
"""

from __future__ import annotations

import functools
import re
from typing import Literal, NoReturn, cast

import attrs

from .errors import ReadError, shown
from .planes import PLANES

RootName = Literal["effective", "global", "cwd", "session"]
# A key, an index, or a half-open range.
Step = str | int | tuple[int, int]

KEY_GRAMMAR = "[A-Za-z_$][A-Za-z0-9_$-]*"
# Longer texts are parsed each time: the cache must not keep megabytes alive.
CACHED_CHARS_MAX = 256
CACHED_PATHS_MAX = 2048
# Larger than any length or offset; numbers with more digits mean no more than this.
NUMBER_CAP = 10**18

_HEAD = re.compile(r"(?:(effective|global|cwd|session)(?:\[([0-9]+)\])?|(" + "|".join(PLANES) + r"))(?=[.\[]|\Z)")
_STEP = re.compile(r"\.(" + KEY_GRAMMAR + r")|\[([0-9]+)(?:(?::|\.\.)([0-9]+))?\]")


@attrs.frozen
class ReadPath:
    """A parsed path. ``offset`` counts accepted boundaries back from the present."""

    text: str
    root: RootName
    is_bare: bool
    has_offset: bool
    offset: int
    steps: tuple[Step, ...]

    @property
    def record_index(self) -> int | None:
        """The k of ``<scope>.patches[k]``, if the path has exactly that form (T43)."""
        if self.root == "effective" or self.has_offset or self.steps[:1] != ("patches",):
            return None
        if len(self.steps) == 1:
            return 0
        index = self.steps[1]
        return index if len(self.steps) == 2 and type(index) is int else None


def parse_path(text: str) -> ReadPath:
    """The path written in ``text``.

    Raises:
      ReadError: E_PATH; ``data`` has the path.
    """
    return _parse_cached(text) if len(text) <= CACHED_CHARS_MAX else _parse(text)


def _parse(text: str) -> ReadPath:
    head = _HEAD.match(text)
    if head is None:
        _refuse(text, "a path begins with effective, global, cwd, session or a plane; an offset is digits in brackets")
    steps: list[Step] = []
    plane = head[3]
    if plane is not None:
        steps.append(plane)
    at = head.end()
    if plane is None and text.startswith("[", at):
        _refuse(text, "a root takes one offset and no range")
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            _refuse(text, f"at character {at} .key with key {KEY_GRAMMAR}, [n], [a:b] or [a..b] is expected")
        if step[1] is not None:
            steps.append(step[1])
        elif step[3] is None:
            steps.append(_number(step[2]))
        else:
            steps.append((_number(step[2]), _number(step[3])))
        at = step.end()
    return ReadPath(
        text=text,
        root=cast(RootName, head[1] or "effective"),
        is_bare=plane is not None,
        has_offset=head[2] is not None,
        offset=_number(head[2] or "0"),
        steps=tuple(steps),
    )


_parse_cached = functools.lru_cache(CACHED_PATHS_MAX)(_parse)


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    # int() of thousands of digits is refused by Python itself, and nothing is that long.
    return min(int(digits or "0"), NUMBER_CAP) if len(digits) <= 19 else NUMBER_CAP


def _refuse(text: str, reason: str) -> NoReturn:
    raise ReadError("E_PATH", f"{shown(text)} is not a read path: {reason}", path=text)
