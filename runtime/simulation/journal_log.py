"""The log of a simulated journal: a file on a ``SimulatedDisk``, one line for each transaction.

A line of ``journal.db-wal`` holds its number, the line it follows, its own name, a checksum, and
filling of the size that its texts have. So a power cut, a full disk and a failing sync strike it as they strike any
file, and its rows and the files of the store crash together. What a line stands for, the whole state after it, is kept
beside the disk: a line that survives finds its state again, one that does not takes it along.

Invariants:
  L1  A line counts if it is whole and follows one that counts; of two that follow the same one the later counts. So
      what a cut tore off, and all that rested on it, is gone, and a line that failed is overwritten by the next.
  L2  FULL is a sync of the log after the line and before anybody can see its state. NORMAL leaves the sync out: a cut
      takes the newest lines away, never one out of the middle (J4).
  L3  Processes of one machine share the state in memory. When the last of them closes or dies the log says what holds.
  L4  A failed sync leaves the outcome open: the line may count once the log is read again (Ours-17).
  L5  The system reports a failed sync once to each process that has the file open: to the others by their next sync.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Set
from typing import final

import attrs

from ...store import Base, CheckpointList, Disk, JournalView, Json, Participant, PiLockRecord, Row, StoreError

_FACTS: Mapping[str, int | None] = {
    "pruned_through": 0,
    "checkpointed_through": 0,
    "synced_through": 0,
    "share_with_pi": None,
    "device": None,
    "inode": None,
}


@attrs.frozen(eq=False)
class State:
    """Everything a journal holds after one transaction."""

    rows: Mapping[int, Row] = attrs.field(factory=dict)
    facts: Mapping[str, int | None] = attrs.field(factory=lambda: dict(_FACTS))
    bases: Mapping[str, Base] = attrs.field(factory=dict)
    # Receipts of requests whose row was pruned, by the number of that row.
    requests: Mapping[int, tuple[str, Json]] = attrs.field(factory=dict)
    prepared: CheckpointList | None = None
    participants: tuple[Participant, ...] = ()
    pi_locks: tuple[PiLockRecord, ...] = ()

    @property
    def head(self) -> int:
        return max(self.rows, default=0)

    def fact(self, name: str) -> int:
        return self.facts[name] or 0

    def with_facts(self, **facts: int | None) -> State:
        return attrs.evolve(self, facts={**self.facts, **facts})

    def rows_after(self, seq: int) -> list[Row]:
        return [self.rows[number] for number in sorted(self.rows) if number > seq]

    def outcome_of(self, request_id: str) -> Json | None:
        rows = [row for row in self.rows.values() if row.content.request_id == request_id]
        if rows:
            return _receipt(rows[-1])
        return next((receipt for name, receipt in self.requests.values() if name == request_id), None)

    def without(self, gone: Set[int], keep_requests: int) -> State:
        """These rows pruned, the receipts of the newest requests among all that were ever pruned kept."""
        leaving = [(seq, row) for seq, row in self.rows.items() if seq in gone and row.content.request_id is not None]
        receipts = {**self.requests, **{seq: (row.content.request_id or "", _receipt(row)) for seq, row in leaving}}
        newest = sorted(receipts)[max(len(receipts) - keep_requests, 0) :]
        rows = {seq: row for seq, row in self.rows.items() if seq not in gone}
        return attrs.evolve(self, rows=rows, requests={seq: receipts[seq] for seq in newest})

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        done, newest = self.fact("checkpointed_through"), self.rows.get(self.head)
        return JournalView(
            head=self.head,
            position=newest.content.position if newest else 0,
            pruned_through=self.fact("pruned_through"),
            checkpointed_through=done,
            synced_through=self.fact("synced_through"),
            bases={scope: self.bases[scope] for scope in scopes if scope in self.bases},
            prepared=self.prepared,
            rows=tuple(self.rows_after(done if after is None else after)),
        )

    def rows_of(self, scope: str, after: int) -> list[Row]:
        return [row for row in self.rows_after(after) if scope in row.touches()]


def _receipt(row: Row) -> Json:
    receipt: Json = row.content.more.get("receipt", {})
    return receipt


@final
class Database:
    """One log and what its processes share of it."""

    def __init__(self, disk: Disk, path: str, states: dict[str, State]) -> None:
        self._disk, self._path, self._states = disk, path, states
        self.state = states[newest_line(disk.read(path) or b"", states)]
        # A log that is read goes on with a line that follows nothing (L1): what a failed sync made doubtful, though it
        # can still be read, must not carry what comes later. The real one starts its log anew for the same reason.
        self._chain = [""]
        self.users: list[str] = []
        # Who has yet to be told that a sync has failed (L5).
        self._untold: set[str] = set()
        stat = disk.stat(path)
        assert stat is not None
        self._inode = stat.inode

    def commit(self, state: State, size_bytes: int, *, full: bool, user: str) -> None:
        """Make ``state`` the present, or raise and leave it as it was."""
        name = f"{len(self._states)}"
        self._states[name] = state
        line = f"{len(self._chain)} {self._chain[-1]} {name} {'.' * size_bytes}"
        found = self._disk.stat(self._path)
        if found is not None and found.inode == self._inode:
            self._disk.append(self._path, f"\n{line} {_sum(line)}\n".encode())
            if full:  # L2
                self._sync(user)
        # Else somebody removed the file that is open here: it goes on taking lines that nobody will find (J9).
        self._chain.append(name)
        self.state = state

    def _sync(self, user: str) -> None:
        try:
            self._disk.sync_file(self._path)
        except StoreError as error:
            self._untold = set(self.users) - {user}
            text = f"{self._path}: a sync failed ({error}); what is on the disk is unknown"
            raise StoreError("E_BROKEN", text, path=self._path) from error  # L4
        if user in self._untold:  # L5
            self._untold.discard(user)
            text = f"{self._path}: an earlier sync by another process failed; what is on the disk is unknown"
            raise StoreError("E_BROKEN", text, path=self._path)


def _sum(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def newest_line(log: bytes, states: Mapping[str, State]) -> str:
    """The name of the last line that counts; the empty one if none does. (L1)"""
    chain = [""]
    for raw in log.split(b"\n")[:-1]:  # what no newline ends has not arrived whole
        line, _, checksum = raw.decode("utf-8", "replace").rpartition(" ")
        if not line or checksum != _sum(line):
            continue
        number, before, name, _ = line.split(" ")
        if int(number) <= len(chain) and chain[int(number) - 1] == before and name in states:
            chain[int(number) :] = [name]
    return chain[-1]
