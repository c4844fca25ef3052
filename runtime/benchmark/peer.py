"""The peer: what a careful program would write that keeps JSON memory in SQLite itself.

One database in WAL mode with ``synchronous=FULL``, one JSON text per scope. A call is one transaction, ``BEGIN
IMMEDIATE`` first, in which ``json_patch`` changes each scope it names. It keeps no history, no ownership and no
revisions. A program has one connection, statements are cached, and SQLite's own wait is used where processes compete.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, final

import attrs

PEER_VERSION = sqlite3.sqlite_version
_WAIT_S = 60.0


@final
@attrs.define(eq=False)
class Peer:
    """One open database."""

    _sqlite: sqlite3.Connection

    @staticmethod
    def open(path: str) -> Peer:
        """Open or create the database at ``path``."""
        connection = sqlite3.connect(path, isolation_level=None, timeout=_WAIT_S, check_same_thread=False)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("create table if not exists scopes (scope text primary key, value text not null)")
        return Peer(connection)

    def put(self, scope: str, value: Any) -> None:
        """Give a scope its first value, unless it has one."""
        self._sqlite.execute("insert or ignore into scopes values (?, ?)", (scope, json.dumps(value)))

    def commit(self, patches: Mapping[str, Any]) -> None:
        """Apply one patch to each scope named, durably, all or none."""
        execute = self._sqlite.execute
        execute("begin immediate")
        try:
            for scope, patch in patches.items():
                execute("update scopes set value = json_patch(value, ?) where scope = ?", (json.dumps(patch), scope))
            execute("commit")
        finally:
            if self._sqlite.in_transaction:
                execute("rollback")

    def value(self, scope: str) -> Any:
        """What a scope holds."""
        (text,) = self._sqlite.execute("select value from scopes where scope = ?", (scope,)).fetchone()
        return json.loads(text)

    def close(self) -> None:
        """Close the database."""
        self._sqlite.close()
