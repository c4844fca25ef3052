"""How commits and a busy event loop get along: commits while others saturate it, and the lag that commits cause."""

from __future__ import annotations

import statistics
import time
from typing import Any, final

import attrs
import trio

from ...store import KernelLock, LockAttempt
from ..session import Session
from . import documents
from .figures import Figure, at_least, at_most
from .rates import Progress, run_for
from .scale import MIB, Scale
from .sides import begin_with, open_session, opened_runtime, patch

_SLICE_S = 0.002
_TICK_S = 0.001


@final
@attrs.define(eq=False)
class TimedLock:
    """A kernel lock that notes how long it was held each time, in seconds."""

    _lock: KernelLock
    held_s: list[float] = attrs.field(factory=list)
    _since: float = 0.0

    def try_acquire(self) -> bool:
        return self._noted(self._lock.try_acquire())

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        return self._noted(self._lock.acquire_blocking(attempt))

    def _noted(self, is_held: bool) -> bool:
        self._since = time.perf_counter()
        return is_held

    def release(self) -> None:
        if self._lock.is_held:
            self.held_s.append(time.perf_counter() - self._since)
        self._lock.release()

    @property
    def is_held(self) -> bool:
        return self._lock.is_held

    def identity(self) -> tuple[int, int] | None:
        return self._lock.identity()

    def close(self) -> None:
        self._lock.close()


def saturated(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """One session commits while another task works in slices of 2 ms and only lets the loop come round in between."""
    rates: list[float] = []
    held: list[float] = []

    async def spin() -> None:
        while True:
            end = time.perf_counter() + _SLICE_S
            while time.perf_counter() < end:
                pass
            await trio.lowlevel.checkpoint()

    async def once(round_number: int) -> None:
        async with opened_runtime(folder) as runtime:
            session = await open_session(runtime, 0)
            lock = runtime._world.turn = TimedLock(runtime._world.turn)

            async def commit(_: int, patches: Any) -> None:
                await patch(session, patches)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(spin)
                first = round_number * 1_000_000
                count, _ = await run_for(commit, range(1), _note, scale.round_s, first)
                nursery.cancel_scope.cancel()
            rates.append(count / scale.round_s)
            held.extend(lock.held_s)

    for round_number in range(scale.rounds):
        progress(f"round {round_number + 1} of {scale.rounds}, loop saturated")
        trio.run(once, round_number)
    held.sort()
    note = f"median {statistics.median(held) * 1e3:.2g} ms, longest {held[-1] * 1e3:.3g} ms"
    return [
        Figure(
            "commits of 1 session while a task saturates the loop in 2 ms slices",
            "commits/s",
            statistics.median(rates),
            at_least(100, "commits/s"),
        ),
        Figure(
            "turn held there, 99 of 100 times",
            "ms",
            held[len(held) * 99 // 100] * 1e3,
            at_most(10, "ms"),
            note=note,
        ),
    ]


def lag(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """How late a task that sleeps for a millisecond wakes while patches of 1 MiB are committed."""
    shapes = {"1 KB strings": documents.strings, "small objects": documents.objects}
    figures = []
    for name, shape in shapes.items():
        progress(f"patches of {scale.large / MIB:g} MiB, {name}")
        values = [shape(scale.large), shape(scale.large + 4096)]
        late = trio.run(_latest, f"{folder} {name}", values, 4 * scale.rounds)
        note = f"median of each patch's longest; the longest of all {late[-1] * 1e3:.3g} ms"
        figures.append(
            Figure(
                f"loop lag while {scale.large / MIB:g} MiB patches of {name} are committed",
                "ms",
                statistics.median(late) * 1e3,
                at_most(20, "ms"),
                note=note,
            )
        )
    return figures


async def _latest(folder: str, values: list[Any], count: int) -> list[float]:
    latest: list[float] = []
    late: list[float] = []
    ticked = trio.Event()

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await trio.sleep(_TICK_S)
            late.append(time.perf_counter() - before - _TICK_S)
            ticked.set()

    async with opened_runtime(folder) as runtime, trio.open_nursery() as nursery:
        session: Session = await open_session(runtime, 0)
        await begin_with(runtime, session, {"session": {"working": {"any": 1}}})
        nursery.start_soon(tick)
        for turn in range(count):
            late.clear()
            ticked = trio.Event()
            await patch(session, {"session": values[turn % 2]})
            await trio.sleep(5 * _TICK_S)
            await ticked.wait()  # on a busy machine this task may wake before the one that ticks
            latest.append(max(late))
        nursery.cancel_scope.cancel()
    return sorted(latest)


def _note(_: int, turn: int) -> Any:
    return {"session": documents.small_patch(turn)}
