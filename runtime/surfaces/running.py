"""Running a command that opens the store: signals end it cleanly, waiting is told, hanging threads do not keep it."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from .. import CLOSE_DEADLINE_S, Mode, Runtime

# From a signal to the end, whatever hangs.
STOP_S = 5.0
_LAST_RESORT_S = 4.7
# Of that, for closing the store.
_CLOSE_S = 4.0
_NOTICE_AFTER_S = 1.0

assert _CLOSE_S < _LAST_RESORT_S < STOP_S


def end_at_last(code: int) -> None:
    """End the process a little before ``STOP_S`` is over.

    A thread that waits for a hanging disk cannot be ended, only the process can, and that needs no event loop.
    """
    timer = threading.Timer(_LAST_RESORT_S, os._exit, (code,))
    timer.daemon = True
    timer.start()


def run_command(who: str, work: Callable[[], Awaitable[int]], *, notice: bool = True) -> int:
    """Run ``work`` on an event loop and return its exit code, or 130 or 143 if a signal ended it.

    ``notice``: say that it waits for the store when it takes long. Raises what ``work`` raises.
    """
    return trio.run(_interruptible, who if notice else None, work)


def selected_mode(given: Mode | None, runtime: Runtime) -> Mode | None:
    """The mode to select for a session of ``tools`` and ``patch``; None: it keeps its own, or takes the configured one.

    An explicit mode holds for existing sessions too, and so does the default of these commands, but not what the
    operator configured for new ones (Ours-11).
    """
    return given or (None if runtime.settings.mode else "active")


@asynccontextmanager
async def closing(who: str, runtime: Runtime) -> AsyncIterator[None]:
    """Close the store after the body, in time if a signal ended it, and tell what had to be left behind."""
    try:
        yield
    finally:
        is_ended = trio.current_effective_deadline() == -math.inf
        # Shielded, so that others find the store left properly. It ends at its deadline.
        with trio.CancelScope(shield=True):
            report = await runtime.aclose(deadline=_CLOSE_S if is_ended else CLOSE_DEADLINE_S)
        for text in report.left_behind:
            print(f"{who}: {text}", file=sys.stderr)


async def _interruptible(who: str | None, work: Callable[[], Awaitable[int]]) -> int:
    code = 0
    failure: Exception | None = None

    async def watch(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        nonlocal code
        async for number in signals:
            code = 128 + number
            end_at_last(code)
            scope.cancel()
            return

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, signals, nursery.cancel_scope)
            if who is not None:
                nursery.start_soon(_notice, who)
            try:
                code = await work()
            except Exception as error:
                failure = error  # raised below, where no nursery wraps it
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


async def _notice(who: str) -> None:
    """Whoever waits for another process should know it."""
    await trio.sleep(_NOTICE_AFTER_S)
    print(f"{who}: waiting for the store; another process may be at work in it", file=sys.stderr, flush=True)
