"""The turn: the right to append, fair among processes, and towards Pi where the store is shared with it (Ours-3, J7).

    exclusive   turn lock                                    released by the call that appends
    shared      turn lock, then Pi's lock by its own rule    released when every row is in the canonical files

Lock order: open, turn, Pi's, checkpoint, SQLite (J7).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, final

import attrs
import trio

from ..store import CheckpointReport, SharedPiLock, StoreError, WaitForPi
from .limits import PI_PENDING_S, PI_POLL_S
from .store_world import StoreWorld

T = TypeVar("T")
U = TypeVar("U")


@final
@attrs.define(eq=False)
class Turn:
    """One per store actor. ``write`` checkpoints in the calling thread; ``note`` learns how that ended."""

    _world: StoreWorld
    _write: Callable[[], CheckpointReport]
    _note: Callable[[CheckpointReport | StoreError], None]
    # Tasks of this process take turns here, since a kernel lock knows only processes.
    _gate: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _outcome: CheckpointReport | StoreError | None = attrs.field(default=None, init=False)
    _waiting: tuple[trio.CancelScope, Callable[[], bool]] | None = attrs.field(default=None, init=False)

    async def acquire(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait for the turn. False if nobody wants it any more. If it raises Cancelled, nothing is held."""
        await take(self._gate)
        try:
            if (self._world.turn.try_acquire() or await self._wait_while(is_wanted)) and (
                self._world.shared_pi is None or await self._take_pi(self._world.shared_pi, is_wanted)
            ):
                return True
        except BaseException:
            self._let_go()
            raise
        self._let_go()
        return False

    async def _wait_while(self, is_wanted: Callable[[], bool]) -> bool:
        with trio.CancelScope() as scope:
            self._waiting = (scope, is_wanted)
            try:
                await self._world.threads.wait_lock(self._world.turn)
            finally:
                self._waiting = None
        return not scope.cancelled_caught

    def look_again(self) -> None:
        """Somebody who wanted the turn has left: nobody waits for another process on behalf of no one."""
        if self._waiting is not None:
            scope, is_wanted = self._waiting
            if not is_wanted():
                scope.cancel()

    async def _take_pi(self, lock: SharedPiLock, is_wanted: Callable[[], bool]) -> bool:
        pending_since: float | None = None
        while True:
            found = await self._world.threads.work(lambda: lock.take(self._world.journal))
            if found is None:
                return True
            pending_since = check_pending(found, pending_since, self._world.ground.layout.pi_lock)
            await trio.sleep(PI_POLL_S)
            if not is_wanted():
                return False

    async def run(
        self, append: Callable[[], T], check: Callable[[], U], settle: Callable[[tuple[T, U]], None]
    ) -> tuple[T, U]:
        """Run ``append`` on the append thread, which gives the turn back before the loop hears of it (M5); then, when
        others may go on already, ``check``. What they return goes to ``settle`` (see ``Threads.commit``).

        Can not be cancelled. Afterwards the turn is not held, whatever ``append`` raised.
        """
        try:
            return await self._world.threads.commit(lambda: self._append_and_release(append, check), settle)
        finally:
            self._gate.release()
            self._tell()

    def _append_and_release(self, append: Callable[[], T], check: Callable[[], U]) -> tuple[T, U]:
        try:
            result = append()
            self._give_pi_back()
        finally:
            self._world.turn.release()
        return result, check()

    def _give_pi_back(self) -> None:
        """Write what is not in the files, then make way for Pi; after a failure the lock stays (J7)."""
        lock = self._world.shared_pi
        if lock is None:
            return
        try:
            self._outcome = self._write()
            if not self._outcome.blocked:
                lock.give_back()
        except StoreError as error:
            # Not the caller's trouble: what it asked for is in the journal by now.
            self._outcome = error

    async def release(self) -> None:
        """Give the turn back without having appended. To be called shielded: Pi would be kept out for good."""
        try:
            if self._world.shared_pi is not None:
                await self._world.threads.work(self._give_pi_back)
        finally:
            self._let_go()
            self._tell()

    def _tell(self) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            self._note(outcome)

    def _let_go(self) -> None:
        if self._world.turn.is_held:
            self._world.turn.release()
        self._gate.release()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """The turn for the body, also towards Pi, so that files can be read while nobody changes them."""
        await self.acquire(lambda: True)
        try:
            yield
        finally:
            # Short: one checkpoint at most. Without the shield a cancellation would keep Pi out for good.
            with trio.CancelScope(shield=True):
                await self.release()


async def take(lock: trio.Lock) -> None:
    """Acquire ``lock``; if it is free, without a pass of the loop, which takes milliseconds where others are busy."""
    try:
        lock.acquire_nowait()
    except trio.WouldBlock:
        await lock.acquire()


def check_pending(found: WaitForPi, since: float | None, path: str) -> float | None:
    """Since when the lock has been empty, None if it is not; an empty one is tolerated for 2 s (store 2.1.5).

    Raises:
      StoreError: E_LOCK when it has been empty too long.
    """
    if found.pid is not None:
        return None
    since = trio.current_time() if since is None else since
    if trio.current_time() - since > PI_PENDING_S:
        raise StoreError("E_LOCK", f"{path}: stays empty; see `strataflow unlock`", path=path)
    return since
