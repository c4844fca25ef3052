"""What is written for a commit, and how much memory a store takes. Linux counts both for each process."""

from __future__ import annotations

import os

import trio

from ...store import compact
from . import documents
from .children import run_children
from .figures import Figure, at_most
from .rates import Progress
from .scale import KIB, MIB, Scale
from .sides import begin_with, open_session, opened_runtime

_CALLERS = 64


def written(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Bytes that the kernel was given to write, checkpoints and closing included."""
    if not os.path.exists("/proc/self/io"):
        return []
    figures = []
    for name, callers, limit in (("alone", 1, 24), (f"{_CALLERS} at a time", _CALLERS, 2)):
        progress(f"{scale.commits} commits, {name}")
        arguments = {"callers": callers, "commits": scale.commits, "size_bytes": scale.large}
        place = os.path.join(folder, f"callers{callers}")
        os.makedirs(place)
        (found,) = run_children("write", [{"folder": place, **arguments}])
        text = f"bytes written per commit, 100-byte patch, {scale.large / MIB:g} MiB scope, {scale.commits:,} commits"
        figures.append(Figure(f"{text}, {name}", "KiB", found / KIB, at_most(limit, "KiB")))
    return figures


def memory(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Resident memory of a process with one large scope, above one with an empty store."""
    if not os.path.exists("/proc/self/statm"):
        return []
    empty = _resident(os.path.join(folder, "empty"), {"working": {"any": 1}}, progress)
    figures = []
    for name, value, limit in (
        ("1 KB strings", documents.strings(scale.huge), 5),
        ("70-byte objects", documents.objects(scale.huge), 8),
    ):
        text = len(compact(value))
        found = _resident(os.path.join(folder, name.replace(" ", "-")), value, progress) - empty
        measure = f"memory above an open empty store, {scale.huge / MIB:g} MiB of {name}"
        figures.append(Figure(measure, "x its JSON", found / text, at_most(limit, "x its JSON")))
    return figures


def _resident(folder: str, value: documents.Json, progress: Progress) -> int:
    progress(f"memory of {os.path.basename(folder)}")

    async def prepare() -> None:
        async with opened_runtime(folder) as runtime:
            await begin_with(runtime, await open_session(runtime, 0), {"session": value})

    trio.run(prepare)
    (found,) = run_children("remember", [{"folder": folder}])
    return int(found)
