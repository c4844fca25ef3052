"""What a transaction costs more than a patch, and how often processes that count in one place must try."""

from __future__ import annotations

import statistics
import time
from typing import Any

import trio

from ..transactions import Transaction
from .children import run_children
from .figures import Figure, at_most
from .rates import Progress
from .scale import Scale
from .sides import begin_with, open_session, opened_runtime, patch

# Of each round, while it is getting going.
_SKIPPED = 0.2


def transactions(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """One read and one patch of a counter as a transaction, against the patch alone; they take turns, call by call."""
    times: dict[str, list[float]] = {"patch": [], "transaction": []}
    ratios: list[float] = []

    async def once(first: int) -> None:
        took: dict[str, list[float]] = {"patch": [], "transaction": []}
        async with opened_runtime(folder) as runtime:
            session = await open_session(runtime, 0)
            await begin_with(runtime, session, {"session": {"working": {"count": 0}}})
            deadline = time.perf_counter() + scale.round_s
            while (before := time.perf_counter()) < deadline:
                await patch(session, {"session": {"working": {"count": first + 2 * len(took["patch"])}}})
                between = time.perf_counter()
                async with session.transaction() as tx:
                    found = tx.read("session.working.count").value
                    tx.patch(session={"working": {"count": found + 1}})
                took["transaction"].append(time.perf_counter() - between)
                took["patch"].append(between - before)
        for name, found in took.items():
            times[name] += found[int(len(found) * _SKIPPED) :]
        ratios.append(statistics.median(took["transaction"]) / statistics.median(took["patch"]))

    for round_number in range(scale.rounds):
        progress(f"round {round_number + 1} of {scale.rounds}, patches and transactions in turn")
        trio.run(once, (round_number + 1) * 1_000_000)
    note = " against ".join(f"{statistics.median(times[name]) * 1e6:.3g} µs" for name in ("transaction", "patch"))
    name = "a transaction without conflict (one read, one patch) against a plain patch"
    return [Figure(name, "x time", statistics.median(ratios), at_most(1.3, "x time"), note=note)]


def contention(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Processes that all increment one counter with ``transact``, as fast as they can."""
    attempts: list[int] = []
    rates: list[float] = []
    for round_number in range(scale.rounds):
        progress(f"round {round_number + 1} of {scale.rounds}, {scale.processes} processes on one counter")
        jobs: list[dict[str, Any]] = [
            {"folder": folder, "number": number, "increments": scale.increments} for number in range(scale.processes)
        ]
        answers = run_children("count", jobs)
        attempts += [taken for answer in answers for taken in answer["attempts"]]
        rates.append(scale.processes * scale.increments / max(answer["seconds"] for answer in answers))
    found = trio.run(_counted, folder)
    expected = scale.rounds * scale.processes * scale.increments
    if found != expected:
        raise RuntimeError(f"{expected} increments left {found}")
    name = f"attempts for each of {expected:,} increments of one counter by {scale.processes} processes"
    note = f"{statistics.median(rates):,.0f} increments/s"
    return [
        Figure(f"{name}, average", "attempts", statistics.mean(attempts), at_most(1.5, "attempts"), note=note),
        Figure("the most attempts that one of them took", "attempts", max(attempts), at_most(8, "attempts")),
    ]


async def _counted(folder: str) -> int:
    async with opened_runtime(folder) as runtime:
        session = await open_session(runtime, 0)
        return int((await session.read_state("global.working.count")).value)


def increment(tx: Transaction) -> None:
    """One more."""
    found = tx.read("global.working").value or {}
    tx.patch(global_={"working": {"count": found.get("count", 0) + 1}})
