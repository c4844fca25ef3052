"""What looking at the sources of cards costs: a bare loop, the look alone, what a session does for each request, and
what commits of others feel of it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Awaitable, Callable

import trio

from ...store.artifacts import Fingerprint
from ..session import Session
from ..sources import FileSources
from .figures import Figure, at_most
from .rates import Progress
from .scale import Scale
from .sides import open_session, opened_runtime, patch


def sources(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Files in folders of a hundred, each with a card; all sides take turns."""
    paths = _files(os.path.join(folder, "files"), scale.sources)
    times: dict[str, list[float]] = {name: [] for name in ("bare", "look", "request")}
    waits: dict[str, list[float]] = {"alone": [], "beside": []}

    async def run() -> None:
        look = FileSources()
        async with opened_runtime(folder) as runtime:
            reader, writer = await open_session(runtime, 0), await open_session(runtime, 1)
            cards = {path: {"description": f"about {os.path.basename(path)}"} for path in paths}
            await patch(reader, {"cwd": {"artifacts": cards}})
            for round_number in range(scale.rounds):
                progress(f"round {round_number + 1} of {scale.rounds}, {len(paths):,} sources")
                times["bare"].append(_bare(paths))
                times["look"].append(await _timed(lambda: _all_seen(look, paths)))
                times["request"].append(await _timed(reader.invalidations))
                waits["alone"] += await _commits(writer, scale.round_s, round_number * 2_000_000)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_again_and_again, reader)
                    waits["beside"] += await _commits(writer, scale.round_s, round_number * 2_000_000 + 1_000_000)
                    nursery.cancel_scope.cancel()

    trio.run(run)
    bare, look, request = (statistics.median(times[name]) for name in ("bare", "look", "request"))
    alone, beside = statistics.median(waits["alone"]), statistics.median(waits["beside"])
    name = f"{len(paths):,} registered sources"
    return [
        Figure(
            f"look at {name} against a bare loop of os.lstat",
            "x time",
            look / bare,
            at_most(2.0, "x time"),
            note=f"{look * 1e3:.3g} ms against {bare * 1e3:.3g} ms",
        ),
        Figure(
            f"all that a request does about {name} against that loop",
            "x time",
            request / bare,
            at_most(4.0, "x time"),
            note=f"{request * 1e3:.3g} ms",
        ),
        Figure(
            f"a commit while another session looks at {name} all the time, against one alone",
            "x time",
            beside / alone,
            note=f"median {beside * 1e6:.4g} µs against {alone * 1e6:.4g} µs",
        ),
    ]


def _files(root: str, count: int) -> list[str]:
    paths = []
    for number in range(count):
        place = os.path.join(root, f"d{number // 100:03}")
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, f"f{number:05}")
        with open(path, "wb") as file:
            file.write(b"x" * (number % 50))
        paths.append(path)
    return paths


def _bare(paths: list[str]) -> float:
    before = time.perf_counter()
    for path in paths:
        os.lstat(path)
    return time.perf_counter() - before


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await work()
    return time.perf_counter() - before


async def _all_seen(look: FileSources, paths: list[str]) -> None:
    seen = await look.inspect(paths)
    if len(seen) != len(paths) or any(type(found) is not Fingerprint for found in seen.values()):
        raise RuntimeError("a look did not see every file")


async def _again_and_again(session: Session) -> None:
    while True:
        await session.invalidations()


async def _commits(session: Session, seconds: float, turn: int) -> list[float]:
    found, deadline = [], time.perf_counter() + seconds
    while (before := time.perf_counter()) < deadline:
        turn += 1
        await patch(session, {"session": {"working": {"turn": turn}}})
        found.append(time.perf_counter() - before)
    return found
