"""What ``doctor``, ``unlock`` and a rebuild ask a journal, also a damaged one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from .algebra import StoreError
from .journal_connection import is_busy
from .journal_queries import ROW_COLUMNS, bases, participants, pi_locks, prepared_list
from .journal_types import Base, CheckpointList, Participant, PiLockRecord
from .rows import Row, row_from

T = TypeVar("T")

# What reading a text of ours raises if the text is not what we wrote.
NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError)
_LOOKUPS_MAX = 1_000_000


@attrs.frozen
class JournalFacts:
    """A journal as a whole, at one moment.

    Attributes:
      problems: what SQLite finds wrong, and what could not be read.
      facts: single values by name, as the schema lists them.
      rows: every readable row, in order. ``unreadable`` counts the others, as far as they can be told.
      bases: what is known of each scope's files.
    """

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
    """Everything that can be read, also from a damaged database: what can not is left out and is a problem."""
    problems: list[str] = []

    def part(ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise
            problems.append(str(error))
        except NOT_UNDERSTOOD as error:
            problems.append(f"a text in it can not be understood: {error!r}")
        return otherwise

    checked = part(lambda: [str(line) for (line,) in sqlite.execute("pragma quick_check")], ["ok"])
    problems += [] if checked == ["ok"] else checked
    found, unreadable = readable_rows(sqlite)
    return JournalFacts(
        facts=part(lambda: dict(sqlite.execute("select name, value from facts")), {}),
        rows=tuple(found),
        unreadable=unreadable,
        bases=part(lambda: bases(sqlite, [scope for (scope,) in sqlite.execute("select scope from bases")]), {}),
        prepared=part(lambda: prepared_list(sqlite), None),
        participants=tuple(part(lambda: participants(sqlite), [])),
        pi_locks=tuple(part(lambda: pi_locks(sqlite), [])),
        # Evaluated last: the parts above add to it.
        problems=tuple(problems),
    )


def readable_rows(sqlite: sqlite3.Connection) -> tuple[list[Row], int]:
    """Every row that can still be read, in order, and how many numbers can not.

    A damaged page stops a walk through the table, so it is walked from both ends; what lies between is asked for
    number by number.
    """
    found: dict[int, Row] = {}
    broken: set[int] = set()
    ends: list[int] = []
    for order in ("asc", "desc"):
        last = 0
        try:
            for columns in sqlite.execute(f"select {ROW_COLUMNS} from rows order by seq {order}"):
                last = columns[0]
                _keep(found, broken, columns)
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise
            ends.append(last)
            continue
        return [found[seq] for seq in sorted(found)], len(broken)
    first, last = ends
    for seq in range(first + 1, min(last, first + _LOOKUPS_MAX)):
        try:
            columns = sqlite.execute(f"select {ROW_COLUMNS} from rows where seq = ?", (seq,)).fetchone()
        except sqlite3.DatabaseError:
            broken.add(seq)
            continue
        if columns is not None:
            _keep(found, broken, columns)
    return [found[seq] for seq in sorted(found)], max(len(broken), 1)


def _keep(found: dict[int, Row], broken: set[int], columns: tuple[Any, ...]) -> None:
    try:
        row = row_from(columns)
        assert row.content  # decoded now: whether it can be is the question
        found[row.seq] = row
    except (*NOT_UNDERSTOOD, StoreError):
        broken.add(columns[0])
