"""The journal on SQLite: the truth among our processes (Ours-1, J1 to J5).

An append is a single statement in autocommit that is conditional on the head its rows were staged on: SQLite takes
its write lock, appends, syncs and releases inside one C call, without the GIL, so no other thread of this process can
keep other processes waiting. ``BEGIN … COMMIT`` around two statements lost: between them the thread needs the GIL
back, and a busy program can hold the lock for seconds.

Invariants:
  R1  head == coalesce(max(seq), 0); the newest row is never deleted, no number is used twice. (J1)
  R2  A row is in the journal whole or not at all. (M2)
  R3  Rows are deleted only after the transaction that recorded them in the files is durable. (J5)
  R4  A receipt is in the row of its call, or in ``requests`` from the transaction on that deletes the row. (I2)
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs

from . import journal_queries
from .algebra import Json, StoreError
from .codec import compact, decode
from .journal_connection import Connection, is_busy
from .journal_documents import base_columns, list_text, receipt_from_body
from .journal_members import SqliteMembers
from .journal_queries import ROW_COLUMNS
from .journal_types import REQUESTS_KEPT, Appended, Base, CheckpointList, JournalView
from .layout import TURN_LOCK, Layout, scope_kind
from .ports import Disk
from .rows import Durability, NewRow, Row

# A row that concerns no scope's files, as that of a superseded scope, counts among its like.
_NO_SCOPE = "/"
_PLACES = "(" + ", ".join("?" * 14) + ")"


@functools.lru_cache(512)
def _insert(count: int) -> str:
    """The statement that appends ``count`` rows, conditional on the head, its last value."""
    return (
        f"insert into rows ({ROW_COLUMNS}) select * from (values {', '.join([_PLACES] * count)}) "
        "where (select coalesce(max(seq), 0) from rows) = ?"
    )


class SqliteJournal:
    """The real form of ``Journal``. Open it with ``open.lock`` held when the file may not exist yet."""

    def __init__(self, disk: Disk, layout: Layout, level: Durability, pause: Callable[[], None]) -> None:
        """Open or create the database. The turn lock must exist: its identity is watched too (J9).

        Raises:
          StoreError: E_CORRUPT, E_UNSUPPORTED, or E_DISK naming the path and SQLite's reason.
        """
        self.path = layout.private("journal.db")
        self._disk = disk
        self._watched = (self.path, self.path + "-wal", layout.private(TURN_LOCK))
        if disk.stat(self.path) is None:
            # SQLite would create it readable for others; its -wal and -shm take the mode of the database.
            disk.write_new(self.path, b"")
        # Two connections: what a checkpoint does to the journal must not make a commit, or the event loop that reads
        # other processes' rows, wait for a mutex of this process.
        self._commits = Connection(self.path, level, pause)
        self._upkeep = Connection(self.path, level, pause)
        self.members = SqliteMembers(self._upkeep)
        self.appended_bytes = 0
        self._ground = self._look()

    # -- rows ---------------------------------------------------------------------------------------------------

    def append(self, rows: Sequence[NewRow], *, head: int) -> Appended:
        """See ``Journal.append``. (R1, R2)"""
        values: list[Any] = []
        for seq, row in enumerate(rows, head + 1):
            values += row.columns(seq)
        size_bytes = sum(len(value) for value in values if type(value) is str)
        values.append(head)
        with self._commits.single() as sqlite:
            try:
                count = sqlite.execute(_insert(len(rows)), values).rowcount
            except sqlite3.OperationalError as error:
                if is_busy(error):
                    return "busy"
                raise
        if count != len(rows):
            return "moved"
        self.appended_bytes += size_bytes
        return "appended"

    def rows_since(self, seq: int, limit: int) -> list[Row]:
        """See ``Journal.rows_since``."""
        with self._commits.single() as sqlite:
            return journal_queries.rows(sqlite, "where seq > ? order by seq limit ?", seq, limit)

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        """See ``Journal.view``. (J1: one read transaction, ended before it returns.)"""
        with self._upkeep.reading() as sqlite:
            return journal_queries.view(sqlite, after, scopes)

    def log(self, limit: int) -> list[Row]:
        """See ``Journal.log``."""
        with self._upkeep.single() as sqlite:
            return journal_queries.log(sqlite, limit)

    def outcome_of(self, request_id: str) -> Json | None:
        """See ``Journal.outcome_of``."""
        with self._commits.single() as sqlite:
            return journal_queries.outcome_of(sqlite, request_id)

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        """See ``ScopeLog.log_of``."""
        with self._upkeep.single() as sqlite:
            return journal_queries.log_of(sqlite, scopes, limit, before)

    # -- durability ---------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """See ``Journal.sync``."""
        with self._upkeep.transaction() as sqlite:
            head = journal_queries.head(sqlite)
            sqlite.execute("update facts set value = ? where name = 'synced_through'", (head,))
        return head

    def prepare(self, prepared: CheckpointList) -> None:
        """See ``Journal.prepare``."""
        with self._upkeep.transaction() as sqlite:
            sqlite.execute("insert into prepared values (1, ?)", (list_text(prepared),))

    def finish(self, prepared: CheckpointList) -> None:
        """See ``Journal.finish``."""
        with self._upkeep.transaction() as sqlite:
            for scope, base in prepared.after.items():
                _put_base(sqlite, scope, base)
            done = "update facts set value = max(value, ?) where name = 'checkpointed_through'"
            sqlite.execute(done, (prepared.through,))
            sqlite.execute("delete from prepared")

    def changed_since(self, through: int) -> Mapping[str, int]:
        """See ``Journal.changed_since``."""
        with self._upkeep.single() as sqlite:
            return dict(sqlite.execute("select scope, through from bases where through > ?", (through,)).fetchall())

    def note_bases(self, bases: Mapping[str, Base]) -> None:
        """See ``Journal.note_bases``."""
        with self._upkeep.transaction() as sqlite:
            for scope, base in bases.items():
                values = (scope, *base_columns(base))
                sqlite.execute("insert or ignore into bases values (?, ?, ?, ?, ?, ?, ?)", values)

    def rows_of(self, scope: str, after: int) -> list[Row]:
        """See ``Journal.rows_of``."""
        with self._upkeep.single() as sqlite:
            return journal_queries.rows_of(sqlite, scope, after)

    def supersede(self, scope: str, base: Base, row: NewRow, *, head: int) -> bool:
        """See ``Journal.supersede``."""
        with self._upkeep.transaction() as sqlite:
            if journal_queries.head(sqlite) != head:
                return False
            start = journal_queries.bases(sqlite, [scope]).get(scope)
            name = scope_kind(scope)
            for old in journal_queries.rows_of(sqlite, scope, start.through if start else 0):
                marked = compact(sorted({*old.superseded, name}))
                sqlite.execute("update rows set superseded = ? where seq = ?", (marked, old.seq))
            sqlite.execute(f"insert into rows ({ROW_COLUMNS}) values {_PLACES}", row.columns(head + 1))
            _put_base(sqlite, scope, attrs.evolve(base, through=head + 1))
        return True

    def prune(self, keep_newest: int, keep_requests: int = REQUESTS_KEPT) -> int:
        """See ``Journal.prune``. (R3: called after ``finish``, in a transaction of its own.)"""
        with self._upkeep.reading() as sqlite:
            (done,) = sqlite.execute("select value from facts where name = 'checkpointed_through'").fetchone()
            newest_first = sqlite.execute(
                "select seq, scopes from rows where seq < (select max(seq) from rows) order by seq desc"
            ).fetchall()
        counts: dict[str, int] = {}
        gone = []
        for seq, scopes in newest_first:
            names = decode(scopes) or [_NO_SCOPE]
            for name in names:
                counts[name] = counts.get(name, 0) + 1
            if seq <= done and all(counts[name] > keep_newest for name in names):
                gone.append(seq)
        if gone:
            with self._upkeep.transaction() as sqlite:
                _keep_receipts(sqlite, gone, keep_requests)  # R4
                _delete(sqlite, gone)
                sqlite.execute("update facts set value = max(value, ?) where name = 'pruned_through'", (gone[0],))
        return len(gone)

    # -- health -------------------------------------------------------------------------------------------------

    def quick_check(self) -> list[str]:
        """See ``Journal.quick_check``."""
        with self._upkeep.single() as sqlite:
            found = [str(line) for (line,) in sqlite.execute("pragma quick_check")]
        return [] if found == ["ok"] else found

    def size_bytes(self) -> int:
        """See ``Journal.size_bytes``."""
        stats = [self._disk.stat(path) for path in self._watched[:2]]
        return sum(stat.size_bytes for stat in stats if stat)

    def is_on_its_ground(self) -> bool:
        """See ``Journal.is_on_its_ground``."""
        try:
            return self._look() == self._ground
        except StoreError:
            return False

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple([self._disk.identity(path) for path in self._watched])

    def close(self) -> None:
        """See ``Journal.close``."""
        self._commits.close()
        self._upkeep.close()


def _keep_receipts(sqlite: sqlite3.Connection, gone: Sequence[int], keep: int) -> None:
    """Move the receipts of rows that will be deleted to where they outlive them, in the caller's transaction."""
    leaving = set(gone)
    select = "select seq, request_id, body from rows where request_id is not null and seq <= ? order by seq"
    for seq, request_id, body in sqlite.execute(select, (max(leaving),)).fetchall():
        if seq in leaving:
            receipt = compact(receipt_from_body(body))
            sqlite.execute("insert or replace into requests values (?, ?, ?)", (seq, request_id, receipt))
    oldest = "select seq from requests order by seq desc limit 1 offset ?"
    sqlite.execute(f"delete from requests where seq <= ({oldest})", (keep,))


def _delete(sqlite: sqlite3.Connection, gone: Sequence[int]) -> None:
    """Delete rows, in the caller's transaction.

    A page that loses its rows one by one is written once more before it is free, so that pruning would write as much
    as appending did; emptying a whole table only notes its pages as free. Where little stays, the table is emptied and
    what stays is put back.
    """
    left = {seq for (seq,) in sqlite.execute("select seq from rows")}.difference(gone)
    if len(left) * 2 > len(gone):
        sqlite.executemany("delete from rows where seq = ?", [(seq,) for seq in gone])
        return
    select = f"select {ROW_COLUMNS} from rows where seq = ?"
    kept = [sqlite.execute(select, (seq,)).fetchone() for seq in sorted(left)]
    sqlite.execute("delete from rows")
    sqlite.executemany(f"insert into rows ({ROW_COLUMNS}) values {_PLACES}", kept)


def _put_base(sqlite: sqlite3.Connection, scope: str, base: Base) -> None:
    sqlite.execute("insert or replace into bases values (?, ?, ?, ?, ?, ?, ?)", (scope, *base_columns(base)))
