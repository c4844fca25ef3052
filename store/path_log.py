"""What the journal still tells of who changed what: one entry for each accepted transition.

A log that is asked for on behalf of a session holds what that session may read and nothing else: of a transition that
changed several scopes, the records of those scopes that are the session's too. Private records of others never appear.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import attrs

from .algebra import SCOPES, Json, ReadError, ReadPath, ScopeName, parse_path, shown, touches
from .layout import SessionAddress
from .rows import NewRow, Row

# How many rows are looked at in one go while those that touch a path are searched.
_PAGE = 256


class ScopeLog(Protocol):
    """A journal, or a look at one."""

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        """The newest accepted transitions that changed one of ``scopes``, below row ``before``; the newest first."""


@attrs.frozen
class LogEntry:
    """One accepted transition.

    Attributes:
      seq: its row in the journal.
      time_ms: when it was accepted, epoch milliseconds.
      cwd, session_id: who made it.
      patches: the net record of each scope it changed.
      superseded: scopes whose part gave way to files that somebody else wrote (J6).
    """

    seq: int
    time_ms: int
    cwd: str
    session_id: str
    transition_id: str
    patches: Mapping[ScopeName, Json]
    superseded: tuple[ScopeName, ...] = ()
    request_id: str | None = None

    def to_json(self) -> Json:
        """The entry as one object; shares the patches."""
        return {
            "seq": self.seq,
            "time_ms": self.time_ms,
            "cwd": self.cwd,
            "session": self.session_id,
            "transition": self.transition_id,
            "request": self.request_id,
            "scopes": list(self.patches),
            "patches": dict(self.patches),
            "superseded": list(self.superseded),
        }


def entry_of(row: Row, scopes: Collection[ScopeName] = SCOPES) -> LogEntry:
    """The entry of a transition, with no other scopes than these."""
    content = row.content
    assert content.address is not None
    assert content.transition_id is not None
    return LogEntry(
        seq=row.seq,
        time_ms=content.time_ms,
        cwd=content.address.cwd,
        session_id=content.address.session_id,
        transition_id=content.transition_id,
        patches={name: part.record for name, part in content.parts.items() if part.record and name in scopes},
        superseded=tuple(name for name in SCOPES if name in row.superseded and name in scopes),
        request_id=content.request_id,
    )


def log_of_session(journal: ScopeLog, address: SessionAddress, path: str | None, limit: int) -> list[LogEntry]:
    """The newest retained transitions that a session can see and that touched ``path``, the newest last.

    Args:
      path: None: whatever they changed. A bare plane or ``effective`` means a change in any of the three scopes.

    Raises:
      ReadError: E_PATH; E_READ_SHAPE for a path that names a moment or a stored record.
      StoreError: the journal can not be read.
    """
    place = None if path is None else _place(path)
    folders = [scope for name, scope in address.scopes() if place is None or place.root in ("effective", name)]
    found: list[LogEntry] = []
    before: int | None = None
    while len(found) < limit:
        rows = journal.log_of(folders, _PAGE, before)
        for row in rows:
            entry = entry_of(row, _shared(row.content, address))
            if any(place is None or touches(place, name, record) for name, record in entry.patches.items()):
                found.append(entry)
        if len(rows) < _PAGE:
            break
        before = rows[-1].seq
    return found[limit - 1 :: -1] if len(found) > limit else found[::-1]


def _place(text: str) -> ReadPath:
    path = parse_path(text)
    if path.offset or path.record_index is not None:
        why = f"{shown(text)} names a moment or a record; a log is of a place: leave the offset or the record out"
        raise ReadError("E_READ_SHAPE", why, path=text)
    return path


def _shared(content: NewRow, mine: SessionAddress) -> list[ScopeName]:
    """The scopes in which somebody's transition is a change of this session's memory too."""
    other = content.address
    if other is None:
        return []
    # Two directories may have one folder name; what is kept there belongs to one of them.
    names: list[ScopeName] = ["global"]
    if other.cwd == mine.cwd:
        names.append("cwd")
        if other.scope("session") == mine.scope("session"):
            names.append("session")
    return names
