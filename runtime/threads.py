"""Threads for blocking calls: one kept for appends, a few for files, and as many as wait for locks.

The append thread is handed its work and gives back its result without a pool's bookkeeping, since its round trip is
the greater part of a small commit. A loop that other tasks keep busy would starve it, since it needs the GIL after
every system call: whenever such a loop comes round, ``_GilGiver`` lets go of the GIL until the append is through or two
milliseconds are over, so that it costs loop passes and not seconds. What lost: lowering the interpreter's switch
interval, which would change the whole host program; a single short sleep a pass, which is one system call a pass; and
appending on the loop itself, which a slow disk would then stop.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, final

import attrs
import trio

from ..store import FlockLocks, KernelLock, StoreError

T = TypeVar("T")

# A pass of the loop that is longer than this, with work for it left, is a loop that other tasks saturate.
_LONG_PASS_S = 0.000_5
_LET_GO_S = 0.000_05
_LET_GO_S_MAX = 0.002
# Lock waiters keep their thread until the kernel answers, also when abandoned.
_LOCK_WAITERS_MAX = 64
_FILE_THREADS_MAX = 4


def _hanging(what: str) -> StoreError:
    return StoreError("E_BROKEN", f"{what} hangs in a system call and was given up; its outcome is unknown")


@final
@attrs.define(eq=False)
class _Job:
    """One call on its way through the append thread."""

    call: Callable[[], Any]
    settle: Callable[[Any], None] | None
    task: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken
    value: Any = None
    error: BaseException | None = None
    # Whether the call has ended, as the thread says.
    is_done: bool = False
    # Whether the waiting task has been woken, by the thread, the loop or by giving up: never twice.
    is_settled: bool = False

    def run(self) -> None:
        try:
            self.value = self.call()
        except BaseException as error:
            # Whatever it is, it is raised again in the task that waits.
            self.error = error
        self.is_done = True

    # A KeyboardInterrupt between taking note of it and waking the task would leave that waiting for ever.
    @trio.lowlevel.enable_ki_protection
    def deliver(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            if self.settle is not None and self.error is None:
                try:
                    self.settle(self.value)
                except BaseException as error:
                    # Raised again in the task that waits, whose business it is.
                    self.error = error
            trio.lowlevel.reschedule(self.task)

    def give_up(self) -> bool:
        if self.is_settled:
            return False
        self.error = _hanging("an append")
        self.deliver()
        return True


@final
class _GilGiver(trio.abc.Instrument):
    """Lets the append thread have the GIL in each pass of a saturated loop, while an append is under way."""

    def __init__(self) -> None:
        self.jobs: set[_Job] = set()
        self._last_s = 0.0

    def before_io_wait(self, timeout: float) -> None:
        if not self.jobs:
            return
        now = time.perf_counter()
        if timeout <= 0 and now - self._last_s > _LONG_PASS_S:
            end = now + _LET_GO_S_MAX
            while now < end and not all(job.is_done for job in self.jobs):
                time.sleep(_LET_GO_S)
                now = time.perf_counter()
            for job in self.jobs:
                if job.is_done:
                    job.deliver()  # its wake-up through the loop would take one more pass
        self._last_s = now


@final
class AppendThread:
    """A thread of our own. It ends with the context that opened it."""

    def __init__(self, giver: _GilGiver) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._giver = giver
        self._thread = threading.Thread(target=self._work, name="strataflow append", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            try:
                job.token.run_sync_soon(job.deliver)
            except trio.RunFinishedError:
                return  # nobody is left to wait

    # A KeyboardInterrupt between handing over and waiting would leave a job that wakes a task which does not wait.
    @trio.lowlevel.enable_ki_protection
    async def run(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        """See ``Threads.commit``."""
        job = _Job(call, settle, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token())
        self._giver.jobs.add(job)
        self._jobs.put(job)
        try:
            # Not abortable: a shield, in effect. It ends when the call ends, which is one write of bounded size, or
            # when a runtime that closes gives up on it.
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        finally:
            self._giver.jobs.discard(job)
        if job.error is not None:
            raise job.error
        result: T = job.value
        return result

    def give_up(self) -> int:
        """Let the callers go with E_BROKEN, the thread to itself. Returns how many."""
        return sum(job.give_up() for job in [*self._giver.jobs])

    def close(self) -> None:
        """End the thread once its work is done. Does not wait: it may hang in a system call."""
        self._jobs.put(None)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is still there."""
        return self._thread.is_alive()


@final
class SystemThreads:
    """The real form of ``Threads``. Made by ``open_threads``."""

    def __init__(self, locks: FlockLocks) -> None:
        self._giver = _GilGiver()
        self._append = AppendThread(self._giver)
        self._locks = locks
        self._working: set[trio.CancelScope] = set()
        self._files = trio.CapacityLimiter(_FILE_THREADS_MAX)
        self._waiters = trio.CapacityLimiter(_LOCK_WAITERS_MAX)

    async def commit(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        """See ``Threads.commit``."""
        return await self._append.run(call, settle)

    async def work(self, call: Callable[[], T]) -> T:
        """See ``Threads.work``."""
        # Shielded: half-done work on files must not go on behind the back of whoever comes next. It ends when the
        # call ends, or when a runtime that closes gives up on it.
        with trio.CancelScope(shield=True) as scope:
            self._working.add(scope)
            try:
                return await trio.to_thread.run_sync(call, limiter=self._files, abandon_on_cancel=True)
            finally:
                self._working.discard(scope)
        raise _hanging("work on files")

    def give_up(self) -> int:
        """See ``Threads.give_up``."""
        scopes = [*self._working]
        for scope in scopes:
            scope.cancel()
        return len(scopes) + self._append.give_up()

    async def work_abandonable(self, call: Callable[[], T]) -> T:
        """See ``Threads.work_abandonable``."""
        return await trio.to_thread.run_sync(call, limiter=self._files, abandon_on_cancel=True)

    async def wait_lock(self, lock: KernelLock) -> None:
        """See ``Threads.wait_lock``."""
        attempt = self._locks.attempt()
        try:
            await trio.to_thread.run_sync(lock.acquire_blocking, attempt, limiter=self._waiters, abandon_on_cancel=True)
        except trio.Cancelled:
            if not attempt.abandon():
                lock.release()
            raise


@asynccontextmanager
async def open_threads(locks: FlockLocks) -> AsyncIterator[SystemThreads]:
    """Threads that live as long as the ``async with`` body."""
    threads = SystemThreads(locks)
    trio.lowlevel.add_instrument(threads._giver)
    try:
        yield threads
    finally:
        trio.lowlevel.remove_instrument(threads._giver)
        threads._append.close()
