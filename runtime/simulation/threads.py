"""Threads of a simulated process: no threads at all. Blocking calls run on the spot, between two checkpoints.

So a run has one order of events, that of trio's scheduler, and virtual time passes only in waits. A call is still what
it is in reality: nobody of this process runs in the middle of it, others may run before it and after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, final

import attrs
import trio

from ...store import KernelLock

T = TypeVar("T")

# How often a lock is asked for, in virtual seconds. First come first served is the business of the real locks.
_POLL_S = 0.001


class ProcessKilled(BaseException):
    """A simulated process was killed. No handler for errors may catch it: what it would still do does not happen."""


@final
@attrs.define(eq=False)
class SimulatedThreads:
    """The simulated form of ``Threads``. Set ``is_killed`` and every later call raises ProcessKilled."""

    is_killed: bool = False

    async def commit(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        await trio.lowlevel.cancel_shielded_checkpoint()
        value = self.call(call)
        if settle is not None:
            settle(value)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return value

    async def work(self, call: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        value = self.call(call)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return value

    async def work_abandonable(self, call: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        value = self.call(call)
        await trio.lowlevel.checkpoint()
        return value

    def give_up(self) -> int:
        return 0  # nothing here outlasts its call

    async def wait_lock(self, lock: KernelLock) -> None:
        await trio.lowlevel.checkpoint()
        while True:
            if self.call(lock.try_acquire):
                return
            await trio.sleep(_POLL_S)

    def call(self, call: Callable[[], T]) -> T:
        """Run it on the spot, unless the process is dead."""
        if self.is_killed:
            raise ProcessKilled
        return call()
