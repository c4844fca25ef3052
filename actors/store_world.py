"""What the store actor stands on, beyond one of its lives: the seams, the journal that is open now, what to report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from ..store import (
    CHECKPOINT_LOCK,
    OPEN_LOCK,
    QUEUE_LOCK,
    TURN_LOCK,
    Draft,
    Durability,
    Ground,
    Journal,
    KernelLock,
    Member,
    MemoryStore,
    Refusals,
    Requests,
    SharedPiLock,
    note_ground,
    recalled,
    rejoin,
    renew_shared,
    restore_folders,
)
from .bell import PollingBell
from .ports import Clock, Ids, JournalBell, Threads
from .watching import WatchHub


@final
@attrs.define(eq=False)
class StoreWorld:
    """Everything is given; only journal and locks change, when a life of the store actor opens them again.

    Attributes:
      open_journal: opens the journal anew; blocking, for a worker thread.
      report: takes an event by name with its data; must not raise.
      hub: who waits for changes of the root.
      open_bell: begins to listen for writes of other processes; quick, and never fails.
    """

    ground: Ground
    threads: Threads
    clock: Clock
    ids: Ids
    level: Durability
    member: Member
    turn: KernelLock
    checkpoint_lock: KernelLock
    open_lock: KernelLock
    queue_lock: KernelLock
    open_journal: Callable[[], Journal]
    report: Callable[..., None]
    journal: Journal
    # Only where the store is shared with Pi.
    shared_pi: SharedPiLock | None = None
    # Whether a life of the store actor has used this journal: the next one opens it anew.
    is_used: bool = False
    hub: WatchHub = attrs.field(factory=WatchHub)
    open_bell: Callable[[], JournalBell] = PollingBell
    # What this process has refused, by request id.
    refusals: Refusals = attrs.field(factory=Refusals, init=False)

    def draft(self, state: MemoryStore) -> Draft:
        """A draft on which calls are staged now."""
        requests = Requests(lambda request_id: recalled(self.journal, self.refusals, request_id))
        return Draft(state, self.level, self.clock.wall_ms(), self.ids.new_id, requests)

    async def reconnect(self) -> None:
        """Close the journal and the kernel locks as they are, open them again and join again (M4).

        What lies at their places may be other files than before (J9).
        """
        await self.threads.work(self._find_ground)
        if not self.open_lock.try_acquire():
            await self.threads.wait_lock(self.open_lock)
        try:
            await self.threads.work(self._reopen)
        finally:
            self.open_lock.release()

    def _find_ground(self) -> None:
        restore_folders(self.ground)
        self.open_lock = self._reopened(self.open_lock, OPEN_LOCK)

    def _reopen(self) -> None:
        self.journal.close()
        self.turn = self._reopened(self.turn, TURN_LOCK)
        self.checkpoint_lock = self._reopened(self.checkpoint_lock, CHECKPOINT_LOCK)
        self.queue_lock = self._reopened(self.queue_lock, QUEUE_LOCK)
        self.journal = self.open_journal()
        note_ground(self.ground, self.journal)
        rejoin(self.ground, self.journal, self.member)
        if self.shared_pi is not None:
            self.shared_pi = renew_shared(self.shared_pi, self.journal)

    def _reopened(self, lock: KernelLock, name: str) -> KernelLock:
        lock.close()
        return self.ground.locks.open(self.ground.layout.private(name))

    def statistics(self) -> dict[str, Any]:
        """Sizes of what lies on the disk, in bytes."""
        return {"journal_bytes": self.journal.size_bytes()}
