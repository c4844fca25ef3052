"""Threads of a process in a world: blocking calls may take long, and waits for locks end when a lock is given back.

A slow call waits before it begins, or halts in the middle (see ``halting``): then others see a checkpoint that is
half-way, a folder without its files, a lock that is held for seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, final

import attrs
import trio

from ...store import KernelLock
from .halting import HaltingCall, on_the_loop
from .injector import Injector
from .threads import SimulatedThreads

T = TypeVar("T")

# A call that is slow by no time at all lets others take so many steps.
_PASSES = 6


class Mortal(Protocol):
    """A process, as far as its threads must know it."""

    @property
    def gone(self) -> trio.Event:
        """Set when it has been killed."""


@final
@attrs.define(eq=False)
class LockBell:
    """Wakes everybody who waits for any lock of a machine, in virtual time zero."""

    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    def ring(self) -> None:
        """A lock was given back."""
        on_the_loop(self._lot.unpark_all)

    async def wait(self) -> None:
        """Until the next one is."""
        await self._lot.park()


@final
@attrs.define(eq=False)
class WorldThreads:
    """The ``Threads`` of one life of a process."""

    _inner: SimulatedThreads
    _process: Mortal
    _injector: Injector
    _bell: LockBell

    async def commit(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        """See ``Threads.commit``."""
        return await self._slowly(call, lambda call: self._inner.commit(call, settle), settle)

    async def work(self, call: Callable[[], T]) -> T:
        """See ``Threads.work``."""
        return await self._slowly(call, self._inner.work)

    async def work_abandonable(self, call: Callable[[], T]) -> T:
        """See ``Threads.work_abandonable``."""
        return await self._slowly(call, self._inner.work_abandonable)

    def give_up(self) -> int:
        """See ``Threads.give_up``."""
        return self._inner.give_up()

    async def wait_lock(self, lock: KernelLock) -> None:
        """See ``Threads.wait_lock``."""
        await trio.lowlevel.checkpoint()
        while not self._inner.call(lock.try_acquire):
            await self._bell.wait()

    async def _slowly(
        self,
        call: Callable[[], T],
        run: Callable[[Callable[[], T]], Awaitable[T]],
        settle: Callable[[T], None] | None = None,
    ) -> T:
        fault = self._injector.take("thread")
        if fault is None:
            return await run(call)
        seconds, _, before = fault.detail.partition(":")
        if not int(before or 0):
            await self._pause(float(seconds))
            return await run(call)
        # Nobody can cancel it, and it ends by itself: as a thread that hangs in system calls.
        await trio.lowlevel.cancel_shielded_checkpoint()
        halting = HaltingCall(lambda: self._inner.call(call), int(before))
        halting.go_on()
        while not halting.is_done:
            await self._pause(float(seconds))
            halting.go_on()
        value: T = halting.result()
        if settle is not None:
            settle(value)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return value

    async def _pause(self, seconds: float) -> None:
        # Shielded, as a thread is; it ends with the time, or with the process.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds):
            if seconds:
                await self._process.gone.wait()
        for _ in range(0 if seconds else _PASSES):
            await trio.lowlevel.cancel_shielded_checkpoint()
