"""The bridge: calls from an asyncio loop into a trio loop that runs in a thread of its own.

::

    asyncio task --begin--> trio task --value or error--> asyncio task
         |  cancelled: the trio task is cancelled too, and its end is waited for

What lost: guest mode, where both loops share a thread and each is late by what the other does; a trio loop for each
call, which could not share a store; a portal library, at half the throughput.

Invariants:
  Y1  A call has ended on the trio side when it returns or raises here: nothing goes on behind a cancelled caller.
  Y2  The thread ends: when it is asked to, when the asyncio loop is closed, or when the main thread has ended.
  Y3  Calls begin in the order in which they were made, each before the next: what is promised of an order there, such
      as that of entries in a tree, holds here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, final

import attrs
import trio

from ...store import StoreError

T = TypeVar("T")

# How often the thread looks whether anybody is left. (Y2)
_LOOK_S: Final = 0.5
_Begin = Callable[[], Awaitable[None]]


async def _begin_all(nursery: trio.Nursery, calls: trio.MemoryReceiveChannel[_Begin]) -> None:
    # Trio runs the tasks of one tick in any order. Each receive takes a tick, so that each call has one to itself. (Y3)
    async for call in calls:
        nursery.start_soon(call)


@final
@attrs.define(eq=False)
class Bridge:
    """One trio loop. Made and used on one asyncio loop."""

    _loop: asyncio.AbstractEventLoop
    _token: trio.lowlevel.TrioToken | None = attrs.field(default=None, init=False)
    _begin: trio.MemorySendChannel[_Begin] | None = attrs.field(default=None, init=False)
    _stop: trio.Event = attrs.field(factory=trio.Event, init=False)
    _is_stopping: bool = attrs.field(default=False, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _ended: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _answers: set[asyncio.Future[Any]] = attrs.field(factory=set, init=False)
    is_over: bool = attrs.field(default=False, init=False)

    async def start(self) -> None:
        """Start the thread. If it raises Cancelled, the thread is ended by ``stop``."""
        started: asyncio.Future[None] = self._loop.create_future()
        self._answers.add(started)

        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            if self._is_stopping:  # somebody was in a hurry, and found no token to say so
                return
            async with trio.open_nursery() as nursery:
                self._begin, begun = trio.open_memory_channel[_Begin](math.inf)
                nursery.start_soon(self._watch)
                nursery.start_soon(_begin_all, nursery, begun)
                self.tell(lambda: settle(started, None, None))
                await self._stop.wait()
                nursery.cancel_scope.cancel()

        def work() -> None:
            try:
                trio.run(main)
            finally:
                self.is_over = True
                self.tell(self._note_end)

        thread = threading.Thread(target=work, name="strataflow")
        thread.start()
        self._thread = thread
        try:
            await started
        finally:
            self._answers.discard(started)

    async def _watch(self) -> None:
        # Neither a loop that is closed nor the end of the main thread can be waited for.
        while not self._loop.is_closed() and threading.main_thread().is_alive():  # noqa: ASYNC110
            await trio.sleep(_LOOK_S)
        self._stop.set()

    def _note_end(self) -> None:
        self._ended.set()
        for answer in [*self._answers]:
            settle(answer, None, _over())

    def tell(self, call: Callable[[], Any]) -> None:
        """Have the asyncio loop call something, from any thread. A loop that is closed calls nothing any more."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def ask(self, call: Callable[[], Any]) -> None:
        """Have the trio loop call something, from any thread. A loop that has ended calls nothing any more.

        Raises:
          StoreError: E_CLOSED.
        """
        try:
            assert self._token is not None
            self._token.run_sync_soon(call)
        except trio.RunFinishedError:
            raise _over() from None

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function on the trio loop and return what it returns, or raise what it raises. (Y1)

        Raises:
          StoreError: E_UNSUPPORTED on another asyncio loop, which nobody would wake; E_CLOSED.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise StoreError("E_UNSUPPORTED", "this runtime belongs to another asyncio loop; open one on this loop")
        answer: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()

        def begin() -> None:
            assert self._begin is not None
            self._begin.send_nowait(lambda: self._carry_out(function, scope, answer))

        self.ask(begin)
        cancelled: asyncio.CancelledError | None = None
        self._answers.add(answer)
        try:
            while not answer.done():
                try:
                    await asyncio.wait((answer,))
                except asyncio.CancelledError as error:
                    cancelled = error
                    with contextlib.suppress(StoreError):  # it is ending by itself
                        self.ask(scope.cancel)
        finally:
            self._answers.discard(answer)
        if cancelled is not None:
            answer.exception()  # nobody asks for it any more
            raise cancelled
        return answer.result()

    async def _carry_out(
        self, function: Callable[[], Awaitable[Any]], scope: trio.CancelScope, answer: asyncio.Future[Any]
    ) -> None:
        value: Any = None
        error: BaseException | None = StoreError("E_ABORTED", "the call was cancelled")
        try:
            with scope:
                value = await function()
                error = None
        except trio.Cancelled:
            error = _over()
            raise
        except BaseException as caught:  # of whatever kind: it is raised again where the call was made
            error = caught
        finally:
            self.tell(lambda: settle(answer, value, error))

    async def stop(self) -> None:
        """End the trio loop and its thread. Also while its task is cancelled: it waits, and raises then."""
        cancelled: asyncio.CancelledError | None = None
        self._is_stopping = True
        if self._token is not None and not self.is_over:
            with contextlib.suppress(StoreError):  # it is ending by itself
                self.ask(self._stop.set)
        while self._thread is not None and not self._ended.is_set():
            try:
                await self._ended.wait()
            except asyncio.CancelledError as error:
                cancelled = error
        if self._thread is not None:
            self._thread.join()
        if cancelled is not None:
            raise cancelled

    async def call_back(self, function: Callable[[], Awaitable[T]]) -> T:
        """For a trio task: run an async function on the asyncio loop. Cancelling the task cancels it there.

        Raises: what it raises; Cancelled, also when the asyncio loop was closed under it.
        """
        done = trio.Event()
        found: list[asyncio.Future[T]] = []
        token = trio.lowlevel.current_trio_token()

        def begin() -> None:
            task = asyncio.ensure_future(function())
            found.append(task)
            task.add_done_callback(lambda _: token.run_sync_soon(done.set))

        self.tell(begin)
        try:
            await done.wait()
        except trio.Cancelled:
            self.tell(lambda: found[0].cancel())
            # It ends: a task that is cancelled does, unless its loop is closed, where nothing goes on any more.
            # Without the shield it would go on behind the caller. (Y1)
            while not done.is_set() and not self._loop.is_closed():
                with trio.CancelScope(shield=True), trio.move_on_after(_LOOK_S):
                    await done.wait()
            raise
        return found[0].result()


def settle(answer: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    """Give a future its outcome, unless it has one: its caller may have left, or the loop may be closing."""
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)


def _over() -> StoreError:
    return StoreError("E_CLOSED", "this runtime is closed, or the loop that served it; open another one")
