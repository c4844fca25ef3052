"""Headers and entries of a session file as plain dicts, their times, names and places (host 1.2 to 1.6). Pure.

Members stand in the order in which they are written. An optional one that is ``ABSENT`` is left out; None is written.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..algebra import CallError, shown
from .lines import Entry

VERSION: Final = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class _Absent:
    """The one value that no JSON has: the member is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def iso_time(ms: int) -> str:
    """Milliseconds since 1970 as ``2025-01-15T00:00:13.000Z``.

    Raises:
      CallError: E_SHAPE for what is no number, and for a time outside the years 1 to 9999.
    """
    try:
        moment = _EPOCH + ms * _MS
    except (OverflowError, TypeError):
        text = f"{shown(ms)} is no time: give milliseconds since 1970, of years with four digits"
        raise CallError("E_SHAPE", text) from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_ms(text: object) -> int | None:
    """What ``iso_time`` wrote, or another ISO 8601 time (without a zone: UTC), in milliseconds; None for all else."""
    if type(text) is not str:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MS


def header(session_id: str, timestamp: str, cwd: str, parent_session: str | None = None) -> Entry:
    """The first line of a session file."""
    found: Entry = {"type": "session", "version": VERSION, "id": session_id, "timestamp": timestamp, "cwd": cwd}
    if parent_session is not None:
        found["parentSession"] = parent_session
    return found


def is_header(value: Entry | None) -> bool:
    """Whether a line's object opens a session (1.8.2)."""
    return value is not None and value["type"] == "session" and type(value.get("id")) is str


def version_of(head: Entry) -> int | float:
    """The version of a header; where none is told it is 1. What is no number is none that must be migrated."""
    version = head.get("version")
    if version is None:
        return 1
    return version if type(version) in (int, float) else VERSION


def as_current(head: Entry) -> Entry:
    """The header of the same session in the present version; of a later one it stays."""
    return {**head, "version": max(VERSION, version_of(head))}


def needs_ids(head: Entry) -> bool:
    """Whether a file with this header is so old that its entries have no ids."""
    return version_of(head) < 2


def entry(kind: str, entry_id: str, parent_id: str | None, timestamp: str, **own: Any) -> Entry:
    """An entry: its base members, then ``own``; the two custom types have theirs in front (1.4)."""
    known = {name: value for name, value in own.items() if value is not ABSENT}
    base = {"id": entry_id, "parentId": parent_id, "timestamp": timestamp}
    return {"type": kind, **known, **base} if kind.startswith("custom") else {"type": kind, **base, **known}


def parent_of(found: Entry) -> str | None:
    """The parent that an entry names; None for a root, also where the member is missing."""
    parent = found.get("parentId")
    return parent if type(parent) is str else None


def kind_of(found: Entry) -> str:
    """What the tree must know of an entry without its text: its type, for messages with the role: ``message:user``."""
    kind: str = found["type"]
    if kind != "message":
        return kind
    message = found.get("message")
    role = message.get("role") if type(message) is dict else None
    return f"message:{role}" if type(role) is str else "message:"


def session_uuid(ms: int, random_uuid: str) -> str:
    """A time-ordered UUID (version 7) from a time and the chance of a random one (1.2.2)."""
    digits = f"{ms & (1 << 48) - 1:012x}"
    return f"{digits[:8]}-{digits[8:]}-7{random_uuid[15:]}"


def folder_name(cwd: str) -> str:
    """The name of the folder for sessions of a working directory (1.6.2). Not reversible."""
    inner = cwd[1:] if cwd[:1] in ("/", "\\") else cwd
    return f"--{inner.translate(_SEPARATORS)}--"


_SEPARATORS = str.maketrans("/\\:", "---")


def file_name(timestamp: str, session_id: str) -> str:
    """The name of a session's file (1.6.3)."""
    return f"{timestamp.translate(_STOPS)}_{session_id}.jsonl"


_STOPS = str.maketrans(":.", "--")


def text_of(message: object) -> str:
    """The words of a message: its string, or its text blocks joined by a blank (2.2.4)."""
    content = message.get("content") if type(message) is dict else None
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    texts = [block.get("text") for block in content if type(block) is dict and block.get("type") == "text"]
    return " ".join(text for text in texts if type(text) is str)
