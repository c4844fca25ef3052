"""Backups with Git: what one costs where little has changed, and what writers notice of them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import final

import attrs
import trio

from ...actors import Command, Ended
from ...store import FlockLocks
from ..assembly import Runtime
from ..backup_setup import init_backups
from ..opening import open_runtime_in, real_seams
from ..processes import SystemProcesses
from ..threads import open_threads
from . import documents
from .figures import Figure, at_most
from .rates import Progress, run_for
from .scale import Scale
from .sides import open_session, opened_runtime, patch

_CHANGED = 10
_WRITERS = 8
_EVERY_S = 1.0
# So long is a round of writers, in rounds of the scale: several backups must fall into it.
_ROUND = 5.0
_ANSWERS = 20
_AT_ONCE = 50
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "bench"), ("EMAIL", "bench@example.invalid"))
}


@final
@attrs.define
class _Counted:
    """Real processes, counted; who commits is said here, since a machine may know nobody."""

    _inner: SystemProcesses = attrs.field(factory=SystemProcesses)
    started: int = 0

    @property
    def environment(self) -> Mapping[str, str]:
        return {**self._inner.environment, **_IDENTITY}

    async def run(self, command: Command) -> Ended:
        self.started += 1
        return await self._inner.run(command)


@asynccontextmanager
async def _opened(folder: str) -> AsyncIterator[tuple[Runtime, _Counted]]:
    root, counted = os.path.join(folder, "ours"), _Counted()
    locks = FlockLocks(folder)
    async with open_threads(locks) as threads:
        seams = attrs.evolve(real_seams(folder, root, locks, threads), processes=counted)
        async with open_runtime_in(seams, "power", None, False) as runtime:
            yield runtime, counted


def backups(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """A backup of many sessions of which a few have changed; commits beside backups; answers with and without one."""
    folder = os.path.realpath(folder)
    return [
        *_few_changed(os.path.join(folder, "many"), scale, progress),
        _beside_writers(os.path.join(folder, "writers"), scale, progress),
        _added_to_runs(os.path.join(folder, "runs"), scale, progress),
    ]


def _few_changed(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    times: list[float] = []
    counts: list[int] = []
    changed = min(_CHANGED, scale.many)

    async def prepare() -> None:
        await _repository(folder)
        limit = trio.CapacityLimiter(_AT_ONCE)
        async with _opened(folder) as (runtime, _):

            async def one(number: int) -> None:
                async with limit:
                    session = await open_session(runtime, number)
                    await patch(session, {"session": documents.small_patch(number)})
                    await session.aclose()

            async with trio.open_nursery() as nursery:
                for number in range(scale.many):
                    nursery.start_soon(one, number)
            await runtime.backups.now(push=False)

    async def once(turn: int) -> None:
        async with _opened(folder) as (runtime, counted):
            for number in range(changed):
                await patch(await open_session(runtime, number), {"session": documents.small_patch(turn)})
            await runtime.checkpoint()  # which is no part of Git's work
            before = time.perf_counter()
            await runtime.backups.now(push=False)
            times.append(time.perf_counter() - before)
            counts.append(counted.started)

    progress(f"making a store of {scale.many} sessions")
    trio.run(prepare)
    for turn in range(scale.rounds):
        progress(f"round {turn + 1} of {scale.rounds}, {changed} of {scale.many} sessions changed")
        trio.run(once, turn + 1)
    name = f"backup of {scale.many:,} sessions, {changed} of them changed, by a process that has just begun"
    return [
        Figure(name, "ms", statistics.median(times) * 1e3, note=f"longest {max(times) * 1e3:.3g} ms"),
        Figure("processes that it starts", "processes", max(counts), at_most(6, "processes")),
    ]


def _beside_writers(folder: str, scale: Scale, progress: Progress) -> Figure:
    waits: dict[bool, list[float]] = {False: [], True: []}
    made: list[float] = []

    async def back_up(runtime: Runtime) -> None:
        while True:
            before = time.perf_counter()
            await runtime.backups.now(push=False)
            made.append(time.perf_counter() - before)
            await trio.sleep(max(0.0, _EVERY_S - made[-1]))

    async def once(with_backups: bool, turn: int) -> None:
        async with _opened(folder) as (runtime, _):
            sessions = [await open_session(runtime, number) for number in range(_WRITERS)]

            async def commit(number: int, patches: Mapping[str, object]) -> None:
                await patch(sessions[number], patches)

            async with trio.open_nursery() as nursery:
                if with_backups:
                    nursery.start_soon(back_up, runtime)
                _, took = await run_for(commit, range(_WRITERS), _note, scale.round_s * _ROUND, turn * 1_000_000)
                nursery.cancel_scope.cancel()
            waits[with_backups] += took

    trio.run(_repository, folder)
    for turn in range(scale.rounds):
        for with_backups in (False, True):
            progress(f"round {turn + 1} of {scale.rounds}, {_WRITERS} writers{', backups' if with_backups else ''}")
            trio.run(once, with_backups, 2 * turn + with_backups)
    with_them, without = statistics.median(waits[True]), statistics.median(waits[False])
    note = f"{with_them * 1e3:.3g} ms against {without * 1e3:.3g} ms; {len(made)} backups"
    name = f"commit of one of {_WRITERS} writers with a backup a second against without"
    return Figure(name, "x time", with_them / without, at_most(1.2, "x time"), note=note)


def _added_to_runs(folder: str, scale: Scale, progress: Progress) -> Figure:
    """The answer that triggers a backup and a push waits for neither: the remote takes seconds."""
    times: dict[bool, list[float]] = {False: [], True: []}

    async def answer(runtime: Runtime, found: list[float], turn: int) -> None:
        session = await open_session(runtime, 0)
        before = time.perf_counter()
        await session.accept_response(f"answer {turn}")
        found.append(time.perf_counter() - before)

    async def run() -> None:
        plain, backed = os.path.join(folder, "plain"), os.path.join(folder, "backed")
        os.makedirs(plain)
        await _repository(backed, remote="ssh://host.invalid/repository")
        async with opened_runtime(plain) as without, _opened(backed) as (runtime, _):
            for turn in range(_ANSWERS):
                progress(f"answer {turn + 1} of {_ANSWERS}")
                await answer(without, times[False], turn)
                await answer(runtime, times[True], turn)
                await runtime.backups.wait_pushed()

    trio.run(run)
    with_push, without = statistics.median(times[True]), statistics.median(times[False])
    note = f"{with_push * 1e3:.3g} ms against {without * 1e3:.3g} ms; no message but one to the pusher is sent"
    return Figure("answer with a backup and a push to come against without", "x time", with_push / without, note=note)


async def _repository(folder: str, remote: str | None = None) -> None:
    os.makedirs(folder)
    await init_backups(store=os.path.join(folder, "ours"), remote=remote)


def _note(_: int, turn: int) -> Mapping[str, object]:
    return {"session": documents.small_patch(turn)}
