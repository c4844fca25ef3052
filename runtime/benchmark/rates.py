"""Rates: sides that take turns on one disk, for the same time each, and the median of their rounds."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import attrs
import trio

from .scale import Scale
from .sides import SIDES, Commit, Patches, SideName, opened

# session number, turn -> patches
Work = Callable[[int, int], Patches]
Progress = Callable[[str], None]

# The part of a round that runs before the clock does.
_WARM_UP = 0.15


@attrs.frozen
class Rate:
    """Commits per second of one side in its rounds, and each commit's seconds in all of them, sorted."""

    per_second: Sequence[float]
    waits_s: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.per_second)


async def run_for(commit: Commit, sessions: range, work: Work, seconds: float, turn: int) -> tuple[int, list[float]]:
    """Let every session commit one patch after the other for some time: how many there were, and how long each took.

    Patches are numbered from ``turn``.
    """
    waits: list[float] = []
    deadline = time.perf_counter() + seconds

    async def one(number: int) -> None:
        at = turn
        before = time.perf_counter()
        while before < deadline:
            await commit(number, work(number, at))
            after = time.perf_counter()
            waits.append(after - before)
            before = after
            at += 1

    async with trio.open_nursery() as nursery:
        for number in sessions:
            nursery.start_soon(one, number)
    return len(waits), waits


def compare(
    folder: str,
    scale: Scale,
    sessions: range,
    work: Work,
    memory: Patches | None,
    progress: Progress,
    sides: Sequence[SideName] = SIDES,
) -> Mapping[SideName, Rate]:
    """Run all sides in turn, round by round; each keeps its store through the rounds."""
    os.makedirs(folder, exist_ok=True)
    rates: dict[SideName, list[float]] = {side: [] for side in sides}
    waits: dict[SideName, list[float]] = {side: [] for side in sides}

    async def once(side: SideName, round_number: int) -> None:
        async with opened(side, folder, sessions, memory) as ready:
            turn = round_number * 1_000_000
            await run_for(ready.commit, sessions, work, scale.round_s * _WARM_UP, turn)
            started = time.perf_counter()
            count, took = await run_for(ready.commit, sessions, work, scale.round_s, turn + 500_000)
            rates[side].append(count / (time.perf_counter() - started))
            waits[side] += took

    for round_number in range(scale.rounds):
        for side in sides:
            progress(f"round {round_number + 1} of {scale.rounds}, {side}")
            trio.run(once, side, round_number)
    return {side: Rate(rates[side], sorted(waits[side])) for side in sides}
