"""Threads of a process in a world: blocking calls may take long, and waits for locks end when a lock is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, final

import attrs
import trio

from ...store import KernelLock
from .injector import Injector
from .threads import SimulatedThreads

T = TypeVar("T")


@final
@attrs.define(eq=False)
class LockBell:
    """Wakes everybody who waits for any lock of a machine, in virtual time zero."""

    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    def ring(self) -> None:
        """A lock was given back."""
        self._lot.unpark_all()

    async def wait(self) -> None:
        """Until the next one is."""
        await self._lot.park()


@final
@attrs.define(eq=False)
class WorldThreads:
    """The ``Threads`` of one life of a process."""

    _inner: SimulatedThreads
    _injector: Injector
    _bell: LockBell

    async def commit(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        """See ``Threads.commit``."""
        await self._wait_shielded()
        return await self._inner.commit(call, settle)

    async def work(self, call: Callable[[], T]) -> T:
        """See ``Threads.work``."""
        await self._wait_shielded()
        return await self._inner.work(call)

    async def work_abandonable(self, call: Callable[[], T]) -> T:
        """See ``Threads.work_abandonable``."""
        delay_s = self._delay_s()
        if delay_s:
            await trio.sleep(delay_s)
        return await self._inner.work_abandonable(call)

    def give_up(self) -> int:
        """See ``Threads.give_up``."""
        return self._inner.give_up()

    async def wait_lock(self, lock: KernelLock) -> None:
        """See ``Threads.wait_lock``."""
        await trio.lowlevel.checkpoint()
        while not self._inner.call(lock.try_acquire):
            await self._bell.wait()

    async def _wait_shielded(self) -> None:
        delay_s = self._delay_s()
        if delay_s:
            # As a thread in a system call: nobody can cancel it, and it ends by itself.
            with trio.CancelScope(shield=True):
                await trio.sleep(delay_s)

    def _delay_s(self) -> float:
        fault = self._injector.take("thread")
        return float(fault.detail) if fault is not None else 0.0
