"""What the transactions of one runtime share: their queue, how old the published root may be, who caused a conflict."""

from __future__ import annotations

import math
from typing import Final, final

import attrs
import trio

from ..actors import ActorRef, Refresh, StoreWorld
from ..store import Attempt, ConflictError, StoreError, detach, explained
from .transactions_queue import CourtesyQueue

# How long ago this process may have looked at what other processes did when a transaction begins. An old snapshot is
# correct too, but it may be in vain before the function has begun.
FRESH_S: Final = 0.1


@final
@attrs.define(eq=False)
class TransactionDesk:
    """One per runtime."""

    world: StoreWorld
    queue: CourtesyQueue = attrs.field(
        init=False, default=attrs.Factory(lambda self: CourtesyQueue(self.world), takes_self=True)
    )
    _looked_s: float = attrs.field(default=-math.inf, init=False)

    def note_look(self) -> None:
        """The root has everything that was committed up to a moment ago, by whomever."""
        self._looked_s = trio.current_time()

    async def freshen(self, store: ActorRef) -> None:
        """Follow other processes if nobody has for a while. Waits as long as that while at most: a store whose turn is
        not to be had is no reason not to begin."""
        if trio.current_time() - self._looked_s > FRESH_S:
            with trio.move_on_after(FRESH_S):
                await store.ask(Refresh())
            self.note_look()

    async def explained(self, error: ConflictError, attempt: Attempt) -> ConflictError:
        """The error as its author gets it: with values of its own, and with who did it."""
        journal, moment = self.world.journal, attempt.moment
        try:
            return await self.world.threads.work(lambda: explained(error, journal, moment.address, moment.head))
        except StoreError:
            return ConflictError(error.code, error.message, **detach(error.data))  # what is certain counts more
