"""Waiting for what others do, in the scripted workload, and judging what one was told.

Whoever watches must learn of a change soon, by whomever it was made. That can not be read from answers, so it is
asserted here: what the journal has known for a while, and what still shows, must have been told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ...store import ReadError, StrataflowError
from .recorder import RecordedSession

# How long a client waits for a change, in virtual seconds.
WAIT_S = 2.0
# Once there was one: far longer than a process can stand still or a thread can hang.
_TELLING_S = 60.0
_REST_S = 10.0


async def wait_for_others(session: RecordedSession, path: str, beside: str) -> None:
    """Wait until something changes at a path, or for a while if nothing does; watch another path with it.

    Raises:
      AssertionError: something has changed for long, and the watch has not told of it.
    """
    before = await _value(session, path, fresh=False)
    async with session.watch(path, beside) as watch:  # no checkpoint lies between the look and this
        known = await _newest(session, path)

        async def is_told(within_s: float) -> bool:
            with trio.move_on_after(within_s):
                async for change in watch:
                    if path in change.paths:
                        break
                return True  # also if the session has ended
            return False

        if await is_told(WAIT_S) or await _newest(session, path) == known or await is_told(_TELLING_S):
            return
        newest = await _newest(session, path)
        if await is_told(_REST_S) or await _newest(session, path) != newest:
            return
        now = await _value(session, path, fresh=True)
        assert now == before, f"{path} has changed, and whoever watches it was not told for {_TELLING_S:g} s"


async def take_in_time(session: RecordedSession, path: str, take: Callable[[], Awaitable[object]]) -> None:
    """Run a transaction that waits until there is something at a path; give it up if nothing comes for a while.

    Raises:
      AssertionError: something has been there for long, and the transaction goes on waiting.
    """
    error: StrataflowError | None = None
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        async def run() -> None:
            nonlocal error
            try:
                await take()
            except StrataflowError as caught:
                error = caught  # raised below: a nursery would wrap it
            done.set()

        nursery.start_soon(run)
        begun_s = trio.current_time()
        while not done.is_set():
            with trio.move_on_after(WAIT_S):
                await done.wait()
                break
            try:
                there = await _value(session, path, fresh=True)
            except StrataflowError:
                there = None
            if there is None:
                nursery.cancel_scope.cancel()
                break
            waited_s = trio.current_time() - begun_s
            assert waited_s < _TELLING_S, f"{path} is there, and whoever waits for it goes on waiting"
    if error is not None:
        raise error


async def _newest(session: RecordedSession, path: str) -> str | None:
    """The newest transition that touched the path, as the journal knows it, whether it was followed or not."""
    entries = await session.log(path, limit=1)
    return entries[-1].transition_id if entries else None


async def _value(session: RecordedSession, path: str, *, fresh: bool) -> object:
    try:
        return (await session.read_state(path, fresh=fresh)).value
    except ReadError:
        return None
