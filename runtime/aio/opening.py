"""Opening a runtime on an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ...store import Durability, StrataflowError
from ..assembly import Runtime as TrioRuntime
from ..opening import open_runtime as open_on_trio
from .bridge import Bridge, settle
from .handles import Runtime


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
    bridge = Bridge(asyncio.get_running_loop())
    owner = asyncio.current_task()
    opened: asyncio.Future[TrioRuntime] = asyncio.get_running_loop().create_future()
    failure: list[BaseException] = []
    end = trio.Event()

    async def hold() -> None:
        # One trio task enters and leaves: its nurseries belong to it.
        async with open_on_trio(
            agent_dir, store=store, durability=durability, history_limit=history_limit, share_with_pi=share_with_pi
        ) as runtime:
            bridge.tell(lambda: settle(opened, runtime, None))
            await end.wait()

    def note(task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not opened.done():
            opened.set_exception(error)
        elif error is not None:
            failure.append(error)
            if owner is not None:
                owner.cancel()

    try:
        await bridge.start()
        holding = asyncio.ensure_future(bridge.call(hold))
        holding.add_done_callback(note)
        try:
            yield Runtime(bridge, await opened)
        except asyncio.CancelledError:
            if not failure:
                raise
            if owner is not None:
                owner.uncancel()
            raise failure[0] from None
        finally:
            if not holding.done():
                bridge.ask(end.set)
            await _ended(holding)
    finally:
        await bridge.stop()


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for the store to be closed, whoever cancels meanwhile. Why it failed was raised in the body."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    if not task.cancelled():
        found = task.exception()
        if found is not None and not isinstance(found, StrataflowError):
            raise found
