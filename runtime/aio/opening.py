"""Opening a runtime on an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import final

import attrs
import trio

from ...store import Durability, StoreError, StrataflowError
from ..assembly import Runtime as TrioRuntime
from ..opening import open_runtime as open_on_trio
from .bridge import Bridge, settle
from .runtime import Runtime


@asynccontextmanager
async def open_runtime(
    agent_dir: str | None = None,
    *,
    store: str | None = None,
    durability: Durability = "power",
    history_limit: int | None = None,
    share_with_pi: bool = False,
) -> AsyncIterator[Runtime]:
    """As ``strataflow.open_runtime``, for asyncio. The store is served by a trio loop in a thread of its own.

    It is closed when the body ends, also when the body's task is cancelled, when the loop shuts down with the body
    still open, and when the loop is closed under it.

    Raises: as there. RuntimeFailed cancels the body and is raised at its end.
    """

    def open_there() -> AbstractAsyncContextManager[TrioRuntime]:
        return open_on_trio(
            agent_dir, store=store, durability=durability, history_limit=history_limit, share_with_pi=share_with_pi
        )

    opening = _Opening(open_there)
    async with opening:
        yield Runtime(opening.bridge, opening.runtime)


@final
@attrs.define(eq=False)
class _Opening:
    """One runtime, from the start of its thread to the end of it."""

    open_there: Callable[[], AbstractAsyncContextManager[TrioRuntime]]
    bridge: Bridge = attrs.field(factory=lambda: Bridge(asyncio.get_running_loop()), init=False)
    _opened: asyncio.Future[TrioRuntime] = attrs.field(
        factory=lambda: asyncio.get_running_loop().create_future(), init=False
    )
    _owner: asyncio.Task[None] | None = attrs.field(factory=asyncio.current_task, init=False)
    _failure: list[BaseException] = attrs.field(factory=list, init=False)
    _is_closing: bool = attrs.field(default=False, init=False)
    _has_cancelled: bool = attrs.field(default=False, init=False)
    _end: trio.Event = attrs.field(factory=trio.Event, init=False)
    _holding: asyncio.Task[None] | None = attrs.field(default=None, init=False)

    @property
    def runtime(self) -> TrioRuntime:
        """The runtime on the other side, once it is open."""
        return self._opened.result()

    async def __aenter__(self) -> None:
        try:
            await self.bridge.start()
            self._holding = asyncio.ensure_future(self.bridge.call(self._hold))
            self._holding.add_done_callback(self._note)
            await self._opened
        except BaseException:
            await self._close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        found = error
        try:
            await self._close()
        except asyncio.CancelledError as cancelled:
            found = found or cancelled
        # One cancellation of the body may have been ours. If there are others, they count.
        is_cancelled = self._has_cancelled and self._owner is not None and self._owner.uncancel() > 0
        if self._failure and not is_cancelled and (found is None or isinstance(found, asyncio.CancelledError)):
            raise self._failure[0] from None
        if found is not None and found is not error:
            raise found

    async def _hold(self) -> None:
        # One trio task enters and leaves: its nurseries belong to it.
        async with self.open_there() as runtime:
            self.bridge.tell(lambda: settle(self._opened, runtime, None))
            await self._end.wait()

    def _note(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._opened.done():
            self._opened.set_exception(error)
        elif error is not None:
            self._failure.append(error)
            if self._owner is not None and not self._is_closing:
                # The body must learn that nothing works any more, wherever it waits.
                self._has_cancelled = self._owner.cancel()

    async def _close(self) -> None:
        self._is_closing = True
        found: BaseException | None = None
        if self._holding is not None:
            if not self._holding.done():
                with suppress(StoreError):  # the other side is ending by itself
                    self.bridge.ask(self._end.set)
            found = await _end_of(self._holding)
        # Also when the task was cancelled once more while the store was closing. (Y2)
        await self.bridge.stop()
        if found is not None:
            raise found


async def _end_of(task: asyncio.Task[None]) -> BaseException | None:
    """Wait for the store to be closed, whoever cancels meanwhile; what is to be raised. Never raises.

    Why the store failed is raised in the body.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None or task.cancelled():
        return cancelled
    found = task.exception()
    return None if isinstance(found, StrataflowError) else found
