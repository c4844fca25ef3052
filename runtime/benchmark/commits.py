"""How many commits a second: one session with scopes of three sizes, many sessions, many processes."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from typing import Any

import trio

from . import documents
from .children import run_children
from .figures import Figure, Reach, at_least
from .rates import Progress, Rate, compare
from .scale import KIB, MIB, Scale
from .sides import SIDES, Patches, SideName, opened

_WAIT_S = 1.0
_WAIT_MEDIANS = 20


def single(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """One session and 1 KiB of memory."""
    found = compare(folder, scale, range(1), _notes, {"session": documents.strings(KIB)}, progress)
    return [_figure("1 session, 1 KiB", found, at_least(0.9), at_least(0.45))]


def large(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """A patch of 100 bytes on larger scopes, of small objects and of longer strings."""
    figures = []
    sizes = ((scale.large, at_least(14), at_least(12)), (scale.huge, at_least(120), None))
    for size, reach, directly in sizes:
        memory = {"session": documents.objects(size)}
        found = compare(os.path.join(folder, f"objects{size}"), scale, range(1), _notes, memory, progress)
        figures.append(_figure(f"100-byte patch on {size / MIB:g} MiB of small objects", found, reach, directly))
        memory = {"session": documents.strings(size)}
        found = compare(os.path.join(folder, f"strings{size}"), scale, range(1), _notes, memory, progress)
        name = f"the same on {size / MIB:g} MiB of 1 KB strings"
        figures.append(_figure(name, found, None, None, "for the record: SQLite reads long strings faster"))
    return figures


def sessions(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Many sessions of one process; half of them patch their directory's memory too."""

    def work(number: int, turn: int) -> Patches:
        own = {"session": documents.small_patch(turn)}
        return own if number % 2 else {**own, "cwd": {"working": {f"s{number}": turn}}}

    found = compare(folder, scale, range(scale.sessions), work, None, progress)
    name = f"{scale.sessions} sessions in one process, own scope, half of them cwd too"
    return [_figure(name, found, at_least(4.5), at_least(2.2))]


def processes(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Many processes with one session each; half of the patches go to global."""
    _prepare(folder, scale.processes)
    rates: dict[SideName, list[float]] = {side: [] for side in SIDES}
    waits: dict[SideName, list[float]] = {side: [] for side in SIDES}
    for round_number in range(scale.rounds):
        for side in SIDES:
            progress(f"round {round_number + 1} of {scale.rounds}, {side}, {scale.processes} processes")
            jobs: list[dict[str, Any]] = [
                {"side": side, "folder": folder, "number": number, "seconds": scale.round_s}
                for number in range(scale.processes)
            ]
            answers = run_children("compete", jobs)
            rates[side].append(sum(answer["count"] for answer in answers) / scale.round_s)
            waits[side] += [wait for answer in answers for wait in answer["waits_s"]]
    found = {side: Rate(rates[side], sorted(waits[side])) for side in SIDES}
    name = f"{scale.processes} processes with 1 session, half global, half session"
    return [_figure(name, found, at_least(1.0), at_least(0.6)), _longest_wait(found)]


def _prepare(folder: str, count: int) -> None:
    """Both databases exist before anybody competes for them."""

    async def make(side: SideName) -> None:
        async with opened(side, folder, range(count)):
            pass

    for side in SIDES:
        trio.run(make, side)


def _longest_wait(found: Mapping[SideName, Rate]) -> Figure:
    waits = found["ours"].waits_s
    middle, longest = statistics.median(waits), waits[-1]
    limit = max(_WAIT_MEDIANS * middle, _WAIT_S)
    peer = found["peer"].waits_s
    return Figure(
        "longest time from call to answer there, with its wait for the turn",
        "ms",
        longest * 1e3,
        Reach("≤ 20 x median, or 1 s", at_most=limit * 1e3),
        note=f"median {middle * 1e3:.3g} ms; the peer's longest is {peer[-1] * 1e3:,.0f} ms",
    )


def _notes(_: int, turn: int) -> Patches:
    return {"session": documents.small_patch(turn)}


def _figure(
    name: str, found: Mapping[SideName, Rate], reach: Reach | None, directly: Reach | None, note: str = ""
) -> Figure:
    return Figure(
        name,
        "commits/s",
        found["ours"].median,
        reach,
        found["peer"].median,
        found["peer directly"].median,
        directly,
        note,
    )
