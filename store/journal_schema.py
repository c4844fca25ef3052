"""The journal's file format: ``.strataflow/journal.db``, a SQLite database in WAL mode.

    application_id  0x53465731 ("SFW1")       user_version  SCHEMA_VERSION

    rows            the changes, one row each (rows.py); ``seq`` never names two (AUTOINCREMENT), the newest row is
                    never deleted; ``position`` is the store's boundary counter after the row; ``superseded`` is
                    null or a JSON list of scope names (J6); ``scopes`` is a JSON list of the scope folders whose
                    files the row changes
    facts           single values by name: pruned_through, checkpointed_through, synced_through, share_with_pi,
                    device, inode (of journal.db itself: differing ones mean a copied store, J9)
    bases           per scope folder: what its canonical files are and contain (J5, J12); never pruned
    requests        request id and receipt of accepted calls whose row was pruned; ``seq`` is that of the row (I2)
    prepared        at most one row: the checkpoint list that must be finished (J5)
    participants    who has the store open (J8)
    pi_locks        our own locks towards Pi: device, inode, process (J8)

Versions. A newer one is refused (E_UNSUPPORTED): it may hold what this program would lose. An older one is brought
forward step by step in one transaction by ``MIGRATIONS``; each step has a golden database in the tests. Readers, which
change nothing, ask every version only for what version 1 has.

    1   the first
    2   ``requests``, and an index of the rows that have a request id
"""

from __future__ import annotations

import sqlite3

from .algebra import StoreError

APPLICATION_ID = 0x53465731
SCHEMA_VERSION = 2

# The index leaves out rows without an id, so that they cost what they did without it.
_REQUESTS = """
create table requests (seq integer primary key, request_id text not null unique, receipt text not null) strict;
create index rows_by_request on rows (request_id) where request_id is not null;
"""

SCHEMA = f"""
create table rows (
    seq integer primary key autoincrement, writer text not null, kind text not null, time_ms integer not null,
    level text not null, cwd text, session_id text, session_key text, transition_id text, request_id text,
    position integer not null, superseded text, body text not null, scopes text not null
) strict;
create table facts (name text primary key, value integer) strict, without rowid;
create table bases (
    scope text primary key, identity text not null, through integer not null, floor integer not null,
    lineage text, last_writer text, last_seq integer not null
) strict, without rowid;
create table prepared (id integer primary key check (id = 1), list text not null) strict;
create table participants (
    token text primary key, pid integer not null, start_time integer not null, boot_id text not null
) strict;
create table pi_locks (
    device integer not null, inode integer not null, pid integer not null, start_time integer not null,
    boot_id text not null
) strict;
insert into facts values ('pruned_through', 0), ('checkpointed_through', 0), ('synced_through', 0),
    ('share_with_pi', null), ('device', null), ('inode', null);
{_REQUESTS}"""

# From version n to n + 1: MIGRATIONS[n].
MIGRATIONS: dict[int, str] = {1: _REQUESTS}


def ensure_schema(connection: sqlite3.Connection, path: str) -> None:
    """Create the tables of a new database or bring an older one forward. Call it with ``open.lock`` held.

    Raises:
      StoreError: E_UNSUPPORTED for a newer version, E_CORRUPT for a database of another program.
    """
    version = check_version(connection, path)
    if version == SCHEMA_VERSION:
        return
    connection.execute("begin immediate")
    try:
        if version == 0:
            for statement in SCHEMA.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"pragma application_id = {APPLICATION_ID}")
        else:
            for step in range(version, SCHEMA_VERSION):
                for statement in MIGRATIONS[step].split(";"):
                    connection.execute(statement)
        connection.execute(f"pragma user_version = {SCHEMA_VERSION}")
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def check_version(connection: sqlite3.Connection, path: str) -> int:
    """The schema version of an open database; 0 for an empty one.

    Raises:
      StoreError: as ``ensure_schema``.
    """
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_schema").fetchone()
    if not tables and not version:
        return 0
    if application != APPLICATION_ID:
        raise StoreError("E_CORRUPT", f"{path}: is a database of another program; move it away", path=path)
    if version > SCHEMA_VERSION or (version < SCHEMA_VERSION and version not in MIGRATIONS):
        raise StoreError(
            "E_UNSUPPORTED",
            f"{path}: journal version {version}; this program knows up to {SCHEMA_VERSION}: use a newer one",
            path=path,
            version=version,
        )
    return int(version)
