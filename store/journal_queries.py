"""What is asked of a journal database, by whoever has it open: the writer's journal and the lock-free readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

from .algebra import Json
from .codec import compact
from .journal_documents import base_from, list_from, receipt_from_body, receipt_from_text
from .journal_types import Base, CheckpointList, JournalView, Participant, PiLockRecord
from .ports import ProcessIdentity
from .rows import Row, row_from

# Above every sequence.
MAX_SEQ = 2**63 - 1
ROW_COLUMNS = (
    "seq, writer, kind, time_ms, level, cwd, session_id, session_key, transition_id, request_id, position, "
    "superseded, body, scopes"
)


def head(sqlite: sqlite3.Connection) -> int:
    """The newest sequence, 0 for none (J1)."""
    (newest,) = sqlite.execute("select coalesce(max(seq), 0) from rows").fetchone()
    return int(newest)


def rows(sqlite: sqlite3.Connection, where: str, *values: Any) -> list[Row]:
    """The rows that a condition selects."""
    return [row_from(columns) for columns in sqlite.execute(f"select {ROW_COLUMNS} from rows {where}", values)]


def rows_of(sqlite: sqlite3.Connection, scope: str, after: int) -> list[Row]:
    """See ``Journal.rows_of``."""
    found = rows(sqlite, "where seq > ? and instr(scopes, ?) order by seq", after, compact(scope))
    return [row for row in found if scope in row.touches()]


def outcome_of(sqlite: sqlite3.Connection, request_id: str) -> Json | None:
    """See ``Journal.outcome_of``. In this order a row that is pruned in between is still found."""
    newest = "select body from rows where request_id = ? order by seq desc limit 1"
    found = sqlite.execute(newest, (request_id,)).fetchone()
    if found:
        return receipt_from_body(found[0])
    found = sqlite.execute("select receipt from requests where request_id = ?", (request_id,)).fetchone()
    return receipt_from_text(found[0]) if found else None


def bases(sqlite: sqlite3.Connection, scopes: Collection[str]) -> dict[str, Base]:
    """What is known of the files of some scopes."""
    found = {}
    select = "select identity, through, floor, lineage, last_writer, last_seq from bases where scope = ?"
    for scope in scopes:
        columns = sqlite.execute(select, (scope,)).fetchone()
        if columns:
            found[scope] = base_from(columns)
    return found


def prepared_list(sqlite: sqlite3.Connection) -> CheckpointList | None:
    """The checkpoint that must be finished (J5)."""
    found = sqlite.execute("select list from prepared").fetchone()
    return list_from(found[0]) if found else None


def participants(sqlite: sqlite3.Connection) -> list[Participant]:
    """See ``Members.participants``."""
    found = sqlite.execute("select token, pid, start_time, boot_id from participants")
    return [Participant(token, ProcessIdentity(*process)) for token, *process in found]


def pi_locks(sqlite: sqlite3.Connection) -> list[PiLockRecord]:
    """See ``Members.pi_locks``."""
    found = sqlite.execute("select device, inode, pid, start_time, boot_id from pi_locks")
    return [PiLockRecord(device, inode, ProcessIdentity(*process)) for device, inode, *process in found]


def view(sqlite: sqlite3.Connection, after: int | None, scopes: Collection[str]) -> JournalView:
    """See ``Journal.view``. The caller has begun a read transaction. (J1)"""
    facts = dict(sqlite.execute("select name, value from facts"))
    newest = sqlite.execute("select seq, position from rows order by seq desc limit 1").fetchone()
    start = facts["checkpointed_through"] if after is None else after
    return JournalView(
        head=newest[0] if newest else 0,
        position=newest[1] if newest else 0,
        pruned_through=facts["pruned_through"],
        checkpointed_through=facts["checkpointed_through"],
        synced_through=facts["synced_through"],
        bases=bases(sqlite, scopes),
        prepared=prepared_list(sqlite),
        rows=tuple(rows(sqlite, "where seq > ? order by seq", start)),
    )


def log_of(sqlite: sqlite3.Connection, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
    """See ``ScopeLog.log_of``."""
    within = " or ".join(["instr(scopes, ?)"] * len(scopes))
    newest = MAX_SEQ if before is None else before
    where = f"where kind = 'transition' and seq < ? and ({within}) order by seq desc limit ?"
    return rows(sqlite, where, newest, *map(compact, scopes), limit)


def log(sqlite: sqlite3.Connection, limit: int, cwd: str | None = None, session_id: str | None = None) -> list[Row]:
    """The newest accepted transitions, oldest first; only those made in a directory, or by a session of that id."""
    where, values = "where kind = 'transition'", []
    for column, value in (("cwd", cwd), ("session_id", session_id)):
        if value is not None:
            where += f" and {column} = ?"
            values.append(value)
    return rows(sqlite, f"{where} order by seq desc limit ?", *values, limit)[::-1]
