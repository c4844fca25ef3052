"""The journals of a simulated machine: the calls of the real one, over the log that ``journal_log`` describes.

Busy moments of SQLite are drawn by whoever sets ``is_busy``; all else that can go wrong goes wrong on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import final

import attrs

from ...store import (
    REQUESTS_KEPT,
    SCOPES,
    TURN_LOCK,
    Appended,
    Base,
    CheckpointList,
    Disk,
    Durability,
    JournalView,
    Json,
    Layout,
    NewRow,
    Participant,
    PiLockRecord,
    Row,
    StoreError,
)
from .journal_log import Database, State, newest_line
from .mutex import Mutex


@final
class SimulatedJournals:
    """All journals of one simulated machine. After a power cut take ``on`` the disk that was found.

    Attributes:
      is_busy: asked before each append: whether somebody else holds the write lock at this moment.
      on_superseding: called with a scope and the row that is about to say that foreign bytes won there.
      keep_newest: prune to so few rows, whatever a store asks for: what only large stores meet, small ones meet too.
      on_pruning: called with the rows that are about to go.
    """

    def __init__(self, disk: Disk, states: dict[str, State] | None = None) -> None:
        self.is_busy: Callable[[], bool] = lambda: False
        self.on_superseding: Callable[[str, NewRow], None] = lambda scope, row: None
        self.keep_newest: int | None = None
        self.on_pruning: Callable[[Mapping[int, Row]], None] = lambda rows: None
        self.mutex = Mutex()
        self._disk = disk
        self._states = {"": State()} if states is None else states
        self._databases: dict[tuple[int, int], Database] = {}

    def on(self, disk: Disk) -> SimulatedJournals:
        """The journals as the machine finds them when it is on again with this disk."""
        return SimulatedJournals(disk, dict(self._states))

    def open(self, process: str, layout: Layout, level: Durability) -> SimulatedJournal:
        """Open or create the journal of a store for a process."""
        path = layout.private("journal.db")
        with self.mutex:
            for file in (path, path + "-wal"):
                if self._disk.stat(file) is None:
                    self._disk.write_new(file, b"")
            stat = self._disk.stat(path + "-wal")
            assert stat is not None
            database = self._databases.get((stat.device, stat.inode))
            if database is None:
                database = self._databases[stat.device, stat.inode] = Database(self._disk, path + "-wal", self._states)
            journal = SimulatedJournal(self, self._disk, layout, level, database)
            database.commit(database.state, 0, full=True, user="")  # as the real one: the log is there and durable
            # SQLite syncs the folder with the first sync of each connection: who made the files may have died since.
            self._disk.sync_folder(layout.private())
            database.users.append(process)
            journal.process = process
            return journal

    def rows_on(self, path: str) -> Mapping[int, Row]:
        """The rows that the log of a closed journal holds."""
        return self.rows_in(self._disk.read(path + "-wal") or b"")

    def rows_in(self, log: bytes) -> Mapping[int, Row]:
        """The rows that a log holds."""
        return self.state_in(log).rows

    def state_in(self, log: bytes) -> State:
        """Everything that a log holds."""
        return self._states[newest_line(log, self._states)]

    def has_prepared(self) -> bool:
        """Whether a checkpoint is half-way through its renames, or was when its process died."""
        return any(database.state.prepared is not None for database in self._databases.values())

    def close(self, database: Database, process: str) -> None:
        """A process does not need its journal any more. (L3)"""
        with self.mutex:
            if process in database.users:
                database.users.remove(process)
            self._databases = {key: kept for key, kept in self._databases.items() if kept.users}

    def kill(self, process: str) -> None:
        """A process died with its journals open. (L3)"""
        for database in list(self._databases.values()):
            while process in database.users:
                self.close(database, process)


@final
class SimulatedJournal:
    """A ``Journal`` of one simulated process, and its own ``Members``."""

    def __init__(
        self, journals: SimulatedJournals, disk: Disk, layout: Layout, level: Durability, database: Database
    ) -> None:
        self._journals, self._disk, self._level, self._database = journals, disk, level, database
        self.process, self.is_closed = "", False
        self.path = layout.private("journal.db")
        self._watched = (self.path, self.path + "-wal", layout.private(TURN_LOCK))
        self.appended_bytes = 0
        self._ground = self._look()

    @property
    def members(self) -> SimulatedJournal:
        return self

    @property
    def _state(self) -> State:
        if self.is_closed:
            raise StoreError("E_DISK", f"{self.path}: it is closed; nothing was written", path=self.path)
        return self._database.state

    def _commit(self, state: State, size_bytes: int = 64) -> None:
        self._database.commit(state, size_bytes, full=True, user=self.process)

    # -- rows ---------------------------------------------------------------------------------------------------

    def append(self, rows: Sequence[NewRow], *, head: int) -> Appended:
        with self._journals.mutex:
            if self._journals.is_busy():
                return "busy"
            if self._state.head != head:
                return "moved"
            texts = [text for n, row in enumerate(rows) for text in row.columns(head + 1 + n) if type(text) is str]
            size_bytes = sum(map(len, texts))
            added = {head + 1 + n: row.at(head + 1 + n) for n, row in enumerate(rows)}
            state = attrs.evolve(self._state, rows={**self._state.rows, **added})
            self._database.commit(state, size_bytes, full=self._level == "power", user=self.process)
            self.appended_bytes += size_bytes
            return "appended"

    def rows_since(self, seq: int, limit: int) -> list[Row]:
        return self._state.rows_after(seq)[:limit]

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        return self._state.view(after, scopes)

    def log(self, limit: int) -> list[Row]:
        return [row for row in self._state.rows_after(0) if row.content.kind == "transition"][-limit:]

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        rows = self._state.rows_after(0)[::-1]
        wanted = set(scopes)
        return [
            row
            for row in rows
            if row.content.kind == "transition"
            and (before is None or row.seq < before)
            and not wanted.isdisjoint(row.content.touches())
        ][:limit]

    def rows_of(self, scope: str, after: int) -> list[Row]:
        return self._state.rows_of(scope, after)

    def outcome_of(self, request_id: str) -> Json | None:
        return self._state.outcome_of(request_id)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def sync(self) -> int:
        with self._journals.mutex:
            self._commit(self._state.with_facts(synced_through=self._state.head))
            return self._state.head

    def prepare(self, prepared: CheckpointList) -> None:
        with self._journals.mutex:
            assert self._state.prepared is None, "a list is prepared already"
            self._commit(attrs.evolve(self._state, prepared=prepared), 200 * len(prepared.moves))

    def finish(self, prepared: CheckpointList) -> None:
        with self._journals.mutex:
            done = max(self._state.fact("checkpointed_through"), prepared.through)
            bases = {**self._state.bases, **prepared.after}
            self._commit(attrs.evolve(self._state.with_facts(checkpointed_through=done), bases=bases, prepared=None))

    def changed_since(self, through: int) -> Mapping[str, int]:
        return {scope: base.through for scope, base in self._state.bases.items() if base.through > through}

    def note_bases(self, bases: Mapping[str, Base]) -> None:
        with self._journals.mutex:
            self._commit(attrs.evolve(self._state, bases={**bases, **self._state.bases}))

    def supersede(self, scope: str, base: Base, row: NewRow, *, head: int) -> bool:
        with self._journals.mutex:
            state = self._state
            if state.head != head:
                return False
            self._journals.on_superseding(scope, row)
            known = state.bases.get(scope)
            rows = dict(state.rows)
            for old in state.rows_of(scope, known.through if known else 0):
                address = old.content.address
                assert address is not None
                names = {name for name in SCOPES if address.scope(name) == scope}
                rows[old.seq] = old.content.at(old.seq, old.superseded | names)
            rows[head + 1] = row.at(head + 1)
            bases = {**state.bases, scope: attrs.evolve(base, through=head + 1)}
            self._commit(attrs.evolve(state, rows=rows, bases=bases))
            return True

    def prune(self, keep_newest: int, keep_requests: int = REQUESTS_KEPT) -> int:
        with self._journals.mutex:
            state, counts, gone = self._state, dict[str, int](), set[int]()
            if self._journals.keep_newest is not None:
                keep_newest = min(keep_newest, self._journals.keep_newest)
            for row in state.rows_after(0)[-2::-1]:
                names = row.content.touches() or {"/"}
                for name in names:
                    counts[name] = counts.get(name, 0) + 1
                is_written = row.seq <= state.fact("checkpointed_through")
                if is_written and all(counts[name] > keep_newest for name in names):
                    gone.add(row.seq)
            if gone:
                self._journals.on_pruning({seq: state.rows[seq] for seq in gone})
                through = max(state.fact("pruned_through"), *gone)
                self._commit(state.without(gone, keep_requests).with_facts(pruned_through=through))
            return len(gone)

    # -- members ------------------------------------------------------------------------------------------------

    def participants(self) -> list[Participant]:
        return list(self._state.participants)

    def set_participants(self, members: Sequence[Participant], share_with_pi: bool | None) -> None:
        with self._journals.mutex:
            shared = None if share_with_pi is None else int(share_with_pi)
            self._commit(attrs.evolve(self._state.with_facts(share_with_pi=shared), participants=tuple(members)))

    def share_with_pi(self) -> bool | None:
        shared = self._state.facts["share_with_pi"]
        return None if shared is None else bool(shared)

    def pi_locks(self) -> list[PiLockRecord]:
        return list(self._state.pi_locks)

    def set_pi_locks(self, records: Sequence[PiLockRecord]) -> None:
        with self._journals.mutex:
            self._commit(attrs.evolve(self._state, pi_locks=tuple(records)))

    def fact(self, name: str) -> int | None:
        return self._state.facts.get(name)

    def set_facts(self, **facts: int | None) -> None:
        with self._journals.mutex:
            self._commit(self._state.with_facts(**facts))

    # -- health -------------------------------------------------------------------------------------------------

    def quick_check(self) -> list[str]:
        return []

    def size_bytes(self) -> int:
        return sum(stat.size_bytes for stat in map(self._disk.stat, self._watched[:2]) if stat)

    def is_on_its_ground(self) -> bool:
        try:
            return self._look() == self._ground
        except StoreError:
            return False

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        found = map(self._disk.stat, self._watched)
        return tuple((stat.device, stat.inode) if stat else None for stat in found)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._journals.close(self._database, self.process)
