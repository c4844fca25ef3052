"""Where a path is cut: what comes before is summed up, what comes after is kept word for word (host 3.4.3-3.4.6). Pure.

::

    start ............. turn start ........ cut ......... end
    | history, summed up | prefix, summed up | kept          |      a turn is split
    | history, summed up ................... | kept          |      the cut is where a turn begins

Invariants:
  X1  A tool result is never the first thing kept: its call would be missing.
  X2  Settings and notes right before the cut stay with what follows them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .entries import Entry, role_of
from .tokens import estimate_tokens


@attrs.frozen
class Cut:
    """``first_kept`` is the index of the first entry kept. ``turn_start`` is the index where its turn began, if that
    turn is split (equal to ``first_kept`` where a turn begins that no user message opens); else None."""

    first_kept: int
    turn_start: int | None = None

    @property
    def is_split(self) -> bool:
        """Whether the turn needs a summary of its own."""
        return self.turn_start is not None


def find_cut(path: Sequence[Entry], start: int, end: int, keep_recent_tokens: int) -> Cut:
    """Cut ``path[start:end]`` so that about ``keep_recent_tokens`` of messages are kept at its end."""
    candidates = [index for index in range(start, end) if _may_be_first(path[index])]
    if not candidates:
        return Cut(start)
    reached = _reached(path, start, end, keep_recent_tokens)
    chosen = next((index for index in candidates if reached is not None and index >= reached), candidates[0])
    cut = chosen
    while cut > start and path[cut - 1]["type"] not in ("message", "compaction"):  # X2
        cut -= 1
    # What the kept part opens with, once settings in front of it are passed over.
    first = next(index for index in candidates if index >= cut)
    if role_of(path[first]) == "user":
        return Cut(cut)
    opening = next((index for index in range(first, start - 1, -1) if _opens_turn(path[index])), None)
    return Cut(cut, None if opening is None else min(opening, cut))


def _may_be_first(entry: Entry) -> bool:
    """Whether the kept part may begin with this entry. (X1)"""
    if entry["type"] == "message":
        return role_of(entry) != "toolResult"
    return entry["type"] in ("branch_summary", "custom_message")


def _opens_turn(entry: Entry) -> bool:
    return entry["type"] in ("branch_summary", "custom_message") or role_of(entry) in ("user", "bashExecution")


def _reached(path: Sequence[Entry], start: int, end: int, keep_recent_tokens: int) -> int | None:
    """The newest entry from which on the messages are at least this large; None: all together they are smaller."""
    tokens = 0
    for index in range(end - 1, start - 1, -1):
        if path[index]["type"] == "message":
            tokens += estimate_tokens(path[index].get("message") or {})
            if tokens >= keep_recent_tokens:
                return index
    return None
