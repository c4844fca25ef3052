"""What the store actor stands on, beyond one of its lives: the seams, the journal that is open now, what to report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from ..store import TURN_LOCK, Durability, Ground, Journal, KernelLock, Member, SharedPiLock
from .ports import Clock, Ids, Threads


@final
@attrs.define(eq=False)
class StoreWorld:
    """Everything is given; only ``journal`` changes, when a life of the store actor opens it again.

    Attributes:
      open_journal: opens the journal anew; blocking, for a worker thread.
      report: takes an event by name with its data; must not raise.
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
    open_journal: Callable[[], Journal]
    report: Callable[..., None]
    journal: Journal
    # Only where the store is shared with Pi.
    shared_pi: SharedPiLock | None = None
    # Whether a life of the store actor has used this journal: the next one opens it anew.
    is_used: bool = False

    async def reconnect(self) -> None:
        """Close the journal and the turn lock as they are and open them again (M4)."""

        def reopen() -> tuple[KernelLock, Journal]:
            self.turn.close()
            self.journal.close()
            turn = self.ground.locks.open(self.ground.layout.private(TURN_LOCK))
            return turn, self.open_journal()

        self.turn, self.journal = await self.threads.work(reopen)

    def statistics(self) -> dict[str, Any]:
        """Sizes of what lies on the disk, in bytes."""
        return {"journal_bytes": self.journal.size_bytes()}
