"""The courtesy queue: transactions that have met conflicts let each other go first, instead of all at once.

::

    in line, in this process --first--> waiting for queue.lock --held, or patience is at an end--> in turn --> gone
                                                                             the function awaits for long ---> gone

Nothing rests on it but fairness. Commits never look at it, whoever does not know it may write all the same, and no wait
for it is longer than a patience. So it is none of the locks that are held only by work that is under way (M5): the
function of a transaction is other people's code, and it runs in turn. What lost: random pauses, which are fair only on
average and far too long or too short for a disk they do not know; and a queue that commits respect, which would be a
lock held while other people's code runs.

Invariants:
  Q1  A turn ends with its attempt, or earlier: when its function has awaited for as long as it was given.
  Q2  Between processes nobody waits longer than a patience, and after a wait that was in vain nobody waits at all until
      the lock was free once: a stopped process costs one patience, and one thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final, TypeVar, final
from weakref import WeakKeyDictionary

import attrs
import trio

from ..actors import SessionCell, StoreWorld
from ..store import KernelLock, StoreError

T = TypeVar("T")

# What a function in turn may await: many short ones pass meanwhile, and nobody notices the wait. After each conflict
# it gets twice as much, so that a slow one has its turn too, up to a bound that all others can bear.
COURTESY_S: Final = 0.05
COURTESY_S_MAX: Final = 0.8
# Longer than any turn: who has waited for so long waits for a process that is stopped or does not come round.
QUEUE_PATIENCE_S: Final = 1.0
# How long a session that has met a conflict queues up at once: contention comes in bursts.
HOT_S: Final = 1.0

assert COURTESY_S <= COURTESY_S_MAX < QUEUE_PATIENCE_S


@final
@attrs.define(eq=False)
class Turn:
    """A turn of one attempt, from ``CourtesyQueue.turn``."""

    _line: trio.Semaphore | None
    _lock: KernelLock | None
    _length_s: float

    async def awaited(self, work: Awaitable[T]) -> T:
        """Await other people's work; when it lasts longer than the turn may, the turn is over and the work goes on."""
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_later)
            try:
                value = await work
            except BaseException as error:
                # Raised below, outside of the nursery, which would wrap it.
                failure = error
            # Only a sleeping timer is left, and it ends at once. Without the shield a cancellation from outside would
            # take the place of the work's own exception.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.cancel()
        if failure is None:
            return value
        try:
            raise failure
        finally:
            del failure  # breaks the cycle with the traceback

    async def _end_later(self) -> None:
        await trio.sleep(self._length_s)
        self.end()

    def end(self) -> None:
        """Let the next one go. Idempotent. (Q1)"""
        line, lock = self._line, self._lock
        if line is None:
            return
        self._line = self._lock = None
        try:
            if lock is not None:
                lock.release()
        finally:
            line.release()


@final
@attrs.define(eq=False)
class CourtesyQueue:
    """One per runtime."""

    world: StoreWorld
    # A kernel lock knows only processes. A trio.Lock can not be released by a timer.
    _line: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(1, max_value=1), init=False)
    _is_in_vain: bool = attrs.field(default=False, init=False)
    _hot_until: WeakKeyDictionary[SessionCell, float] = attrs.field(factory=WeakKeyDictionary, init=False)

    def is_hot(self, cell: SessionCell) -> bool:
        """Whether transactions of this session have lately met conflicts."""
        return trio.current_time() < self._hot_until.get(cell, 0.0)

    def note_conflict(self, cell: SessionCell) -> None:
        """A transaction of this session has just met a conflict."""
        self._hot_until[cell] = trio.current_time() + HOT_S

    @asynccontextmanager
    async def turn(self, conflicts: int) -> AsyncIterator[Turn]:
        """Queue up; the body is one attempt, after so many that met conflicts. Waiting can be cancelled."""
        await self._line.acquire()
        turn = Turn(self._line, None, min(COURTESY_S * 2 ** min(conflicts, 10), COURTESY_S_MAX))
        try:
            turn._lock = await self._locked()
            yield turn
        finally:
            turn.end()

    async def _locked(self) -> KernelLock | None:
        """Wait for the other processes; None if that was in vain. (Q2)"""
        lock = self.world.queue_lock
        try:
            if lock.try_acquire():
                self._is_in_vain = False
            elif self._is_in_vain:
                return None
            else:
                self._is_in_vain = True  # as long as nobody knows better, also if somebody cancels this wait
                with trio.move_on_after(QUEUE_PATIENCE_S):
                    await self.world.threads.wait_lock(lock)
                    self._is_in_vain = False
        except StoreError:
            self._is_in_vain = True  # its file was replaced, or the runtime is closing: both are others' business
        return lock if lock.is_held else None
