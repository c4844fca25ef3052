"""How reading and opening grow: a small subtree of scopes of two sizes, a session among few and among many."""

from __future__ import annotations

import os
import random
import statistics
import time

import trio

from . import documents
from .children import run_children
from .figures import Figure, at_most
from .rates import Progress
from .scale import KIB, MIB, Scale
from .sides import begin_with, open_session, opened_runtime, patch

_OPENED = 5
_AT_ONCE = 50


def reads(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """A string of 1 KB at a random place of a large scope, and of a small one."""
    large, small = scale.huge, 10 * KIB
    times: dict[int, list[float]] = {large: [], small: []}

    async def run() -> None:
        async with opened_runtime(folder) as runtime:
            handles, paths = {}, {}
            for number, size in enumerate(times):
                value = documents.strings(size)
                handles[size] = await open_session(runtime, number)
                await begin_with(runtime, handles[size], {"session": value})
                paths[size] = [f"session.lazy.{group}.{key}" for group, keys in value["lazy"].items() for key in keys]
            chosen = random.Random(7)
            for round_number in range(scale.rounds):
                progress(f"round {round_number + 1} of {scale.rounds}, reads")
                for size in times:
                    asked = [chosen.choice(paths[size]) for _ in range(scale.reads)]
                    before = time.perf_counter()
                    for path in asked:
                        await handles[size].read_state(path)
                    times[size].append((time.perf_counter() - before) / scale.reads)

    trio.run(run)
    at_large, at_small = statistics.median(times[large]), statistics.median(times[small])
    return [
        Figure(
            f"read_state of 1 KB at random paths, {large / MIB:g} MiB against {small // KIB} KiB",
            "x time",
            at_large / at_small,
            at_most(1.5, "x time"),
            note=f"{at_large * 1e6:.3g} µs against {at_small * 1e6:.3g} µs",
        )
    ]


def opening(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Opening a session of a store with few and with many, and one of a store that was left by a crash."""
    times: dict[int, list[float]] = {scale.few: [], scale.many: []}
    for count in times:
        progress(f"making a store of {count} sessions")
        trio.run(_make, os.path.join(folder, str(count)), count)
    for round_number in range(scale.rounds):
        for count, found in times.items():
            progress(f"round {round_number + 1} of {scale.rounds}, {count} sessions")
            found += trio.run(_open, os.path.join(folder, str(count)), count)
    many, few = statistics.median(times[scale.many]), statistics.median(times[scale.few])
    replayed = []
    for round_number in range(min(3, scale.rounds)):
        progress(f"opening with {scale.rows / MIB:g} MiB of rows, {round_number + 1}")
        place = os.path.join(folder, f"rows{round_number}")
        run_children("leave_rows", [{"folder": place, "size_bytes": scale.rows}])
        replayed.append(trio.run(_open_all, place))
    return [
        Figure(
            f"open a session in a store of {scale.many:,} sessions against {scale.few}",
            "x time",
            many / few,
            at_most(1.2, "x time"),
            note=f"{many * 1e3:.3g} ms against {few * 1e3:.3g} ms",
        ),
        Figure(
            f"open the store and a session after a crash with {scale.rows / MIB:g} MiB of journal rows",
            "ms",
            statistics.median(replayed) * 1e3,
            at_most(200, "ms"),
        ),
    ]


async def _make(folder: str, count: int) -> None:
    async with opened_runtime(folder) as runtime:
        limit = trio.CapacityLimiter(_AT_ONCE)

        async def one(number: int) -> None:
            async with limit:
                session = await open_session(runtime, number)
                await patch(session, {"session": documents.small_patch(number)})
                await session.aclose()

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(one, number)


async def _open(folder: str, count: int) -> list[float]:
    found = []
    async with opened_runtime(folder) as runtime:
        for turn in range(_OPENED):
            before = time.perf_counter()
            await open_session(runtime, turn * (count - 1) // _OPENED)
            found.append(time.perf_counter() - before)
    return found


async def _open_all(folder: str) -> float:
    before = time.perf_counter()
    async with opened_runtime(folder) as runtime:
        await open_session(runtime, 0)
        return time.perf_counter() - before
