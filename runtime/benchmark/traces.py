"""Session trees: opening large files, appending to them, contexts of long branches, listing many sessions."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator

from ..session_trees import SessionTree
from .children import run_children
from .figures import Figure, at_most
from .rates import Progress
from .scale import MIB, Scale

ENTRY_BYTES = 2500
_SHORT_BYTES = 300
_LISTED_ENTRIES = 20
_APPENDS = 300
_TIMES = 5
# What is allowed above 1.5 times the JSON of the branch: for each entry, and for the program itself.
_PER_ENTRY_BYTES = 300
_PROGRAM_BYTES = 60 * MIB
_HEADER = {"type": "session", "version": 3, "id": "bench", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/project"}


def traces(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Everything about session trees."""
    folder = os.path.realpath(folder)
    return [*_large(folder, scale, progress), *_contexts(folder, scale, progress), *_listing(folder, scale, progress)]


def _large(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    progress(f"writing a session of {scale.entries:,} entries")
    path, small = os.path.join(folder, "large.jsonl"), os.path.join(folder, "small.jsonl")
    size = _write(path, scale.entries, ENTRY_BYTES, branches=2)
    _write(small, 100, ENTRY_BYTES, branches=2)
    counted, opened, peaks, at_large, at_small = [], [], [], [], []
    for turn in range(scale.rounds):
        progress(f"opening, round {turn + 1} of {scale.rounds}")
        counted.append(_count_lines(path))
        (found,) = run_children("open_session_file", [{"path": path}])
        opened.append(found["seconds"])
        peaks.append(found["peak_bytes"])
        at_large += _append(path)
        at_small += _append(small)
    text = f"open a session of {scale.entries:,} entries, {size / MIB:.0f} MiB, half of it on the branch"
    branch = size / 2 * 1.5 + scale.entries * _PER_ENTRY_BYTES + _PROGRAM_BYTES
    ratio = statistics.median(opened) / statistics.median(counted)
    large, little = statistics.median(at_large), statistics.median(at_small)
    figures = [
        Figure(
            f"{text}, against `wc -l` of it",
            "x time",
            ratio,
            at_most(40, "x time"),
            note=f"{statistics.median(opened):.3g} s against {statistics.median(counted):.3g} s",
        ),
        Figure(
            "append an entry to it, against one to a session of 100 entries, not synced",
            "x time",
            large / little,
            at_most(1.5, "x time"),
            note=f"{large * 1e6:.3g} µs against {little * 1e6:.3g} µs",
        ),
    ]
    if peaks[0]:
        reach = at_most(round(branch / MIB), "MiB")
        figures.insert(1, Figure(f"{text}: largest resident memory", "MiB", max(peaks) / MIB, reach))
    return figures


def _contexts(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    count = scale.entries // 2
    progress(f"contexts of a branch of {count:,} entries")
    path = os.path.join(folder, "chain.jsonl")
    _write(path, count, _SHORT_BYTES, branches=1)
    tree = SessionTree.open(path, durability="process")
    times = []
    for _ in range(scale.rounds):
        before = time.perf_counter()
        assert len(tree.build_session_context().messages) == count
        times.append(time.perf_counter() - before)
    kept = min(200, count // 2)
    tree.append_compaction("summary", tree.get_branch_ids()[-kept], 1)
    after = []
    for _ in range(scale.rounds):
        before = time.perf_counter()
        assert len(tree.build_session_context().messages) == kept + 1
        after.append(time.perf_counter() - before)
    text = f"context of the leaf of {count:,} entries of {_SHORT_BYTES} bytes"
    return [
        Figure(f"{text}, all of them", "ms", statistics.median(times) * 1e3),
        Figure(f"{text}, after a compaction that kept {kept}", "ms", statistics.median(after) * 1e3),
    ]


def _listing(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    progress(f"listing {scale.listed:,} sessions")
    place = os.path.join(folder, "many")
    os.mkdir(place)
    first = os.path.join(place, "0.jsonl")
    _write(first, _LISTED_ENTRIES, _SHORT_BYTES, branches=1)
    for number in range(1, scale.listed):
        shutil.copy(first, os.path.join(place, f"{number}.jsonl"))
    times = []
    for _ in range(min(scale.rounds, 3)):
        before = time.perf_counter()
        assert len(SessionTree.list("/project", place)) == scale.listed
        times.append(time.perf_counter() - before)
    text = f"list {scale.listed:,} sessions of {_LISTED_ENTRIES} entries"
    return [Figure(text, "s", statistics.median(times))]


def _append(path: str) -> list[float]:
    tree = SessionTree.open(path, durability="process")
    found = []
    for number in range(_APPENDS):
        before = time.perf_counter()
        tree.append_custom_entry("bench", number)
        found.append(time.perf_counter() - before)
    return found


def _count_lines(path: str) -> float:
    found = []
    for _ in range(_TIMES):
        before = time.perf_counter()
        subprocess.run(["wc", "-l", path], check=True, capture_output=True)
        found.append(time.perf_counter() - before)
    return min(found)


def _write(path: str, count: int, size_bytes: int, branches: int) -> int:
    """A session of so many messages of about that size on so many branches; returns the bytes."""
    with open(path, "wb") as file:
        for line in _lines(count, size_bytes, branches):
            file.write(line)
        return file.tell()


def _lines(count: int, size_bytes: int, branches: int) -> Iterator[bytes]:
    yield _line(_HEADER)
    chance = random.Random(7)
    words = "the agent reads a file writes another one and runs all tests of it again".split()
    text = " ".join(chance.choice(words) for _ in range(size_bytes))
    leaves: list[str | None] = [None] * branches
    for number in range(count):
        branch, start = number % branches, chance.randrange(size_bytes)
        role = "assistant" if number // branches % 2 else "user"
        said = text[start : start + max(10, size_bytes - 230)]
        message = {"role": role, "content": [{"type": "text", "text": said}], "provider": "p", "model": "m"}
        entry_id = f"{number:08x}"
        base = {"type": "message", "id": entry_id, "parentId": leaves[branch], "timestamp": _HEADER["timestamp"]}
        yield _line({**base, "message": {**message, "timestamp": 1_735_689_600_000 + number}})
        leaves[branch] = entry_id


def _line(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
