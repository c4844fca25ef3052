"""How late the timers of an asyncio program are while the trio loop beside it commits."""

from __future__ import annotations

import asyncio
import functools
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from .. import aio
from . import documents
from .figures import Figure, at_most
from .rates import Progress
from .scale import MIB, Scale
from .sides import CWD

_TICK_S = 0.001
_TASKS = 16
# A burst of small patches is as long as a few large ones, so that both are looked at equally often.
_BURST = 50


def asyncio_hosts(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Timers of both loops at the same time: the asyncio program's, and those that it would have on the loop that
    commits."""
    jobs: list[tuple[str, Callable[[aio.Session, int], Awaitable[Any]]]] = [
        (f"{_TASKS} tasks patch", _small),
        (f"runs begin and end over {scale.large / MIB:g} MiB of 1 KB strings", _run_over(scale.large)),
        # Here the host's own loop copies the patch before it leaves.
        (f"{scale.large / MIB:g} MiB patches of small objects are committed", _large(scale.large)),
    ]
    figures = []
    for number, (name, job) in enumerate(jobs):
        progress(f"timers while {name}")
        ours, theirs = asyncio.run(_late(os.path.join(folder, f"asyncio {number}"), job, 4 * scale.rounds))
        note = f"median of each round's longest; the longest of all {ours[-1] * 1e3:.3g} ms"
        middle, shared = statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3
        figures += [
            Figure(f"asyncio timers late while {name}", "ms", middle, at_most(5, "ms"), note=note),
            Figure("the same over timers of the loop that commits", "ms", middle, at_most(1, "x"), peer=shared),
        ]
    return figures


async def _small(session: aio.Session, turn: int) -> None:
    async def patch(task: int) -> None:
        for step in range(_BURST // _TASKS + 1):
            await session.patch_state(session={"working": {f"task{task}": [turn, step]}})

    async with asyncio.TaskGroup() as group:
        for task in range(_TASKS):
            group.create_task(patch(task))


def _run_over(size: int) -> Callable[[aio.Session, int], Awaitable[Any]]:
    memory = [documents.strings(size)]

    async def run(session: aio.Session, turn: int) -> None:
        while memory:
            await session.patch_state(cwd=memory.pop())
        async with session.run(f"request {turn}") as run:
            await run.project([{"role": "user", "content": f"request {turn}", "timestamp": turn}])
            await session.patch_state(session=documents.small_patch(turn))
            await run.finish(f"answer {turn}")

    return run


def _large(size: int) -> Callable[[aio.Session, int], Awaitable[Any]]:
    values = [documents.objects(size), documents.objects(size + 4096)]

    async def patch(session: aio.Session, turn: int) -> None:
        await session.patch_state(session=values[turn % 2])

    return patch


async def _late(
    store: str, job: Callable[[aio.Session, int], Awaitable[Any]], rounds: int
) -> tuple[list[float], list[float]]:
    """Of each round, how late the latest timer of the asyncio loop and of the trio loop was, in order of size."""
    here: list[float] = []
    there: list[float] = []
    latest: list[tuple[float, float]] = []
    async with aio.open_runtime(store=store) as runtime:
        session = await runtime.open_session(CWD, "s0000", "active")
        await job(session, rounds)
        ticking = asyncio.ensure_future(runtime._bridge.call(lambda: _tick(trio.sleep, there)))
        ticks = asyncio.ensure_future(_tick(asyncio.sleep, here))
        for turn in range(rounds):
            here.clear()
            there.clear()
            await job(session, turn)
            # Until the timers that were due meanwhile have come.
            await runtime._bridge.call(functools.partial(trio.sleep, 2 * _TICK_S))
            await asyncio.sleep(2 * _TICK_S)
            latest.append((max(here), max(there)))
        for task in (ticks, ticking):
            task.cancel()
        await asyncio.wait({ticks, ticking})
    return sorted(ours for ours, _ in latest), sorted(theirs for _, theirs in latest)


async def _tick(sleep: Callable[[float], Awaitable[None]], late: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await sleep(_TICK_S)
        late.append(time.perf_counter() - before - _TICK_S)
