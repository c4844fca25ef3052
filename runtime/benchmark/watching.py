"""How soon watchers learn of a change, in the same process and in another one, and what waiting costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import trio

from ...actors import PollingBell
from ..assembly import Runtime
from ..session import Session
from ..watching import Watch
from .children import answer_of, begin, run_children, started
from .figures import Figure, Reach, at_most
from .rates import Progress
from .scale import Scale
from .sides import open_session, opened_runtime, patch

_PATH = "cwd.working.n"
# Between two commits: long enough that each is told by itself.
_PAUSE_S = 0.02
# After this long a process that has just opened a store has nothing left to write.
_SETTLED_S = 4.0


def watching(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Latencies and idle processor time."""
    progress(f"{scale.changes} changes in one process")
    within = trio.run(_within, folder, scale.changes)
    progress(f"{scale.changes} changes by another process")
    across = _across(folder, scale.changes, polls=False)
    progress(f"{scale.changes} changes by another process, polling only")
    polled = _across(folder, scale.changes, polls=True)
    figures = [
        _latency("from publication to a watcher of the same process", within, at_most(1, "ms")),
        _latency("from the answer to a watcher in another process", across, at_most(5, "ms")),
        _latency("the same where only polling is possible, longest", polled, at_most(100, "ms"), longest=True),
    ]
    for name, polls, reach in (("", False, at_most(0.1, "%")), (" where only polling is possible", True, None)):
        progress(f"an idle watcher for {scale.idle_s:g} s{name}")
        jobs: list[dict[str, Any]] = [
            {"folder": folder, "seconds": scale.idle_s, "watches": watches, "polls": polls} for watches in (True, False)
        ]
        busy, without = (run_children("idle", [job])[0] for job in jobs)
        note = f"{without:.2g} % without a watcher"
        figures.append(Figure(f"processor time of an idle process with one watcher{name}", "%", busy, reach, note=note))
    return figures


def _latency(name: str, waits_s: Sequence[float], reach: Reach, *, longest: bool = False) -> Figure:
    waits = sorted(waits_s)
    middle, late = statistics.median(waits), waits[int(len(waits) * 0.99)]
    shown = waits[-1] if longest else middle
    note = f"median {middle * 1e3:.2g} ms, 99th percentile {late * 1e3:.2g} ms, longest {waits[-1] * 1e3:.2g} ms"
    return Figure(name, "ms", shown * 1e3, reach, note=note)


async def _within(folder: str, count: int) -> list[float]:
    published: dict[int, float] = {}
    async with opened_runtime(folder) as runtime, trio.open_nursery() as nursery:
        session = await open_session(runtime, 0)
        tell = runtime.hub.change
        turn = 0

        def noted(*change: Any) -> None:
            published.setdefault(turn, time.perf_counter())
            tell(*change)

        runtime._state.on_change = noted
        seen: dict[int, float] = {}
        nursery.start_soon(_note, session, session.watch(_PATH), seen, count, time.perf_counter)
        for turn in range(count):
            await trio.sleep(_PAUSE_S / 4)
            await patch(session, {"cwd": {"working": {"n": turn}}})
    return [seen[number] - published[number] for number in seen]


async def _note(session: Session, watch: Watch, seen: dict[int, float], count: int, now: Any) -> None:
    """When each of ``count`` values of the counter was told of."""
    while count - 1 not in seen:
        await anext(watch)
        moment = now()
        seen[(await session.read_state(_PATH)).value] = moment


def _across(folder: str, count: int, *, polls: bool) -> list[float]:
    with started("announce", [{"folder": folder, "count": count, "pause_s": _PAUSE_S}]) as (child,):
        return trio.run(_watch_child, folder, count, polls, child)


async def _watch_child(folder: str, count: int, polls: bool, child: subprocess.Popen[str]) -> list[float]:
    async with opened_runtime(folder) as runtime, trio.open_nursery() as nursery:
        _choose_bell(runtime, polls)
        session = await open_session(runtime, 0)
        seen: dict[int, float] = {}
        nursery.start_soon(_note, session, session.watch(_PATH), seen, count, time.monotonic)
        begin(child)
        answered: list[float] = await trio.to_thread.run_sync(answer_of, child)
    return [max(seen[number] - answered[number], 0.0) for number in seen]


def _choose_bell(runtime: Runtime, polls: bool) -> None:
    if polls:
        runtime._world.open_bell = PollingBell


async def announce(folder: str, count: int, pause_s: float) -> list[float]:
    """The job of the other process: count up in directory memory; when each count was answered."""
    answered = []
    async with opened_runtime(folder) as runtime:
        session = await open_session(runtime, 1)
        await patch(session, {"cwd": {"working": {"n": -1}}})
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.readline)
        for number in range(count):
            await trio.sleep(pause_s)
            await patch(session, {"cwd": {"working": {"n": number}}})
            answered.append(time.monotonic())
    return answered


async def idle(folder: str, seconds: float, watches: bool, polls: bool) -> float:
    """The job of a process that does nothing, perhaps beside a watcher: its processor time, in percent."""
    async with opened_runtime(folder) as runtime, trio.open_nursery() as nursery:
        _choose_bell(runtime, polls)
        session = await open_session(runtime, 0)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        if watches:
            nursery.start_soon(session.wait_for, _PATH, lambda value: value == "never")
        await trio.sleep(min(_SETTLED_S, seconds))
        before = time.process_time(), time.perf_counter()
        await trio.sleep(seconds)
        used, took = time.process_time() - before[0], time.perf_counter() - before[1]
        nursery.cancel_scope.cancel()
    return 100 * used / took
