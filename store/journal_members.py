"""Who has the store open, as the journal remembers it: participants, locks towards Pi, single facts (J8, J9)."""

from __future__ import annotations

from collections.abc import Sequence

from . import journal_queries
from .journal_connection import Connection
from .journal_types import Participant, PiLockRecord


class SqliteMembers:
    """The real form of ``Members``. Every change is one FULL transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def participants(self) -> list[Participant]:
        """See ``Members.participants``."""
        with self._connection.single() as sqlite:
            return journal_queries.participants(sqlite)

    def set_participants(self, members: Sequence[Participant], share_with_pi: bool | None) -> None:
        """See ``Members.set_participants``."""
        with self._connection.transaction() as sqlite:
            sqlite.execute("delete from participants")
            for member in members:
                process = member.process
                values = (member.token, process.pid, process.start_time, process.boot_id)
                sqlite.execute("insert into participants values (?, ?, ?, ?)", values)
            sqlite.execute("update facts set value = ? where name = 'share_with_pi'", (share_with_pi,))

    def share_with_pi(self) -> bool | None:
        """See ``Members.share_with_pi``."""
        value = self.fact("share_with_pi")
        return None if value is None else bool(value)

    def pi_locks(self) -> list[PiLockRecord]:
        """See ``Members.pi_locks``."""
        with self._connection.single() as sqlite:
            return journal_queries.pi_locks(sqlite)

    def set_pi_locks(self, records: Sequence[PiLockRecord]) -> None:
        """See ``Members.set_pi_locks``."""
        with self._connection.transaction() as sqlite:
            sqlite.execute("delete from pi_locks")
            for record in records:
                process = record.process
                values = (record.device, record.inode, process.pid, process.start_time, process.boot_id)
                sqlite.execute("insert into pi_locks values (?, ?, ?, ?, ?)", values)

    def fact(self, name: str) -> int | None:
        """A single value by name."""
        with self._connection.single() as sqlite:
            found = sqlite.execute("select value from facts where name = ?", (name,)).fetchone()
        value: int | None = found[0] if found else None
        return value

    def set_facts(self, **facts: int | None) -> None:
        """Replace single values."""
        with self._connection.transaction() as sqlite:
            for name, value in facts.items():
                sqlite.execute("insert or replace into facts values (?, ?)", (name, value))
