"""What ``doctor``, ``unlock`` and a rebuild ask a journal, also a damaged one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

import attrs

from .journal_documents import list_from
from .journal_queries import ROW_COLUMNS, bases
from .journal_types import Base, CheckpointList, Participant, PiLockRecord
from .ports import ProcessIdentity
from .rows import Row, row_from

_LOOKUPS_MAX = 1_000_000


@attrs.frozen
class JournalFacts:
    """A journal as a whole, at one moment.

    Attributes:
      problems: what SQLite finds wrong.
      facts: single values by name, as the schema lists them.
      rows: every readable row, in order. ``unreadable`` counts the others, as far as that can be told.
      bases: what is known of each scope's files.
    """

    version: int
    problems: tuple[str, ...]
    facts: Mapping[str, int | None]
    rows: tuple[Row, ...]
    unreadable: int
    bases: Mapping[str, Base]
    prepared: CheckpointList | None
    participants: tuple[Participant, ...]
    pi_locks: tuple[PiLockRecord, ...]

    def fact(self, name: str) -> int:
        """A value that counts rows; 0 if it is missing."""
        return self.facts.get(name) or 0

    @property
    def head(self) -> int:
        """The newest row that can be read."""
        return self.rows[-1].seq if self.rows else 0


def facts_of(sqlite: sqlite3.Connection) -> JournalFacts:
    """Everything, from a sound database."""
    (version,) = sqlite.execute("pragma user_version").fetchone()
    problems = [str(line) for (line,) in sqlite.execute("pragma quick_check")]
    found, unreadable = readable_rows(sqlite)
    return JournalFacts(
        version=int(version),
        problems=() if problems == ["ok"] else tuple(problems),
        facts=dict(sqlite.execute("select name, value from facts")),
        rows=tuple(found),
        unreadable=unreadable,
        bases=bases(sqlite, [scope for (scope,) in sqlite.execute("select scope from bases order by scope")]),
        prepared=prepared_list(sqlite),
        participants=tuple(
            Participant(token, ProcessIdentity(*process))
            for token, *process in sqlite.execute("select token, pid, start_time, boot_id from participants")
        ),
        pi_locks=tuple(
            PiLockRecord(device, inode, ProcessIdentity(*process))
            for device, inode, *process in sqlite.execute("select device, inode, pid, start_time, boot_id from pi_locks")
        ),
    )


def prepared_list(sqlite: sqlite3.Connection) -> CheckpointList | None:
    """The checkpoint that must be finished."""
    found = sqlite.execute("select list from prepared").fetchone()
    return list_from(found[0]) if found else None


def readable_rows(sqlite: sqlite3.Connection) -> tuple[list[Row], int]:
    """Every row that can still be read, in order, and how many numbers in between can not.

    A damaged page stops a walk through the table, so it is walked from both ends; what lies between is asked for
    number by number.
    """
    found: dict[int, Row] = {}
    broken = 0
    ends: list[int] = []
    for order in ("asc", "desc"):
        last = None
        try:
            for columns in sqlite.execute(f"select {ROW_COLUMNS} from rows order by seq {order}"):
                last = columns[0]
                broken += _keep(found, columns)
        except sqlite3.DatabaseError:
            if last is not None:
                ends.append(last)
            continue
        return [found[seq] for seq in sorted(found)], broken
    for seq in _between(ends):
        try:
            columns = sqlite.execute(f"select {ROW_COLUMNS} from rows where seq = ?", (seq,)).fetchone()
        except sqlite3.DatabaseError:
            broken += 1
            continue
        if columns is not None:
            broken += _keep(found, columns)
    return [found[seq] for seq in sorted(found)], max(broken, 1)


def _keep(found: dict[int, Row], columns: tuple[object, ...]) -> int:
    """Note one row; 1 if what it says can not be understood."""
    seq = columns[0]
    assert isinstance(seq, int)
    if seq in found:
        return 0
    try:
        found[seq] = row_from(columns)
    except (ValueError, LookupError, TypeError, AttributeError):
        return 1
    return 0


def _between(ends: list[int]) -> Iterator[int]:
    if len(ends) == 2 and ends[0] < ends[1]:
        yield from range(ends[0] + 1, min(ends[1], ends[0] + _LOOKUPS_MAX))
