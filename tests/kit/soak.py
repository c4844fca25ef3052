"""A soak: many commits through one runtime on a real disk, while memory, open files, threads and tasks are watched.

All a program may do comes again and again: patches of one and of three scopes, answers, request ids, transactions that
conflict, calls that are cancelled or refused, reads of the past, watches, sessions that come and go, checkpoints. What
is kept in memory is bounded (200 members, 20 sessions), so whatever grows is a leak::

    python tests/kit/soak.py --commits 100000 --level process [--folder DIR]

The last line is a JSON object with the figures. Exit 1 if something grew.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import attrs
import trio
import trio.testing

from strataflow import ReadError, Runtime, Session, StrataflowError, open_runtime
from strataflow.runtime import Durability

WRITERS = 4
MEMBERS = 60
SESSIONS = 20
SAMPLES = 20
# The first part of the run is for caches, pools and the size that state has in the end.
WARM_UP_SHARE = 0.3
RSS_GROWTH_MAX_BYTES = 4 << 20
RSS_STEP_MAX_BYTES = 1 << 20


@attrs.frozen
class Sample:
    """What the process holds at one moment. ``commits``: how many were made until then."""

    commits: int
    rss_bytes: int
    files: int
    threads: int
    tasks: int
    store_bytes: int


@attrs.define(eq=False)
class Soak:
    """One run. ``samples`` are taken at even distances, when no call is under way."""

    folder: str
    commits: int
    level: Durability
    chance: random.Random = attrs.field(factory=lambda: random.Random(7))
    samples: list[Sample] = attrs.field(factory=list)
    made: int = 0
    seconds: float = 0.0
    _ids: int = 0

    async def run(self) -> None:
        """Make the commits. Returns when the store is closed."""
        started_s = time.perf_counter()
        async with open_runtime(store=f"{self.folder}/state-flow", durability=self.level) as runtime:
            for number in range(SAMPLES):
                until = self.commits * (number + 1) // SAMPLES
                async with trio.open_nursery() as nursery:
                    for writer in range(WRITERS):
                        nursery.start_soon(self._write, runtime, writer, until)
                await runtime.checkpoint()
                await _settle()
                self.samples.append(self._sample())
            report = await runtime.aclose()
            assert not report.left_behind, report
        self.seconds = time.perf_counter() - started_s

    def _sample(self) -> Sample:
        gc.collect()
        # What the allocator keeps for later comes in steps of some MiB; nobody holds it.
        if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
            trim(0)
        with open("/proc/self/statm", encoding="ascii") as statm:
            rss_bytes = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(self.folder) for name in names]
        return Sample(
            self.made,
            rss_bytes,
            len(os.listdir("/proc/self/fd")),
            threading.active_count(),
            trio.lowlevel.current_statistics().tasks_living,
            sum(sizes),
        )

    async def _write(self, runtime: Runtime, writer: int, until: int) -> None:
        """Sessions of one writer, one after another."""
        acts: list[Callable[[Session], Awaitable[Any]]] = [
            self._patch, self._patch, self._patch, self._everywhere, self._asked_again, self._increment, self._answer,
            self._cancelled, self._refused, self._read, self._watch,
        ]  # fmt: skip
        while self.made < until:
            name = f"w{writer}-{self.chance.randrange(SESSIONS // WRITERS)}"
            session = await runtime.open_session(f"/project/{writer % 2}", name, "active")
            for _ in range(50):
                if self.made >= until:
                    break
                await self.chance.choice(acts)(session)
            if self.chance.random() < 0.05:
                await runtime.checkpoint()
            await session.aclose()

    def _member(self) -> dict[str, Any]:
        number = self.chance.randrange(MEMBERS)
        text = self.chance.choice("abc") * self.chance.choice((0, 10, 100, 700))
        return {"working": {f"m{number}": {"text": text, "n": self.made}}}

    async def _patch(self, session: Session) -> None:
        scope = self.chance.choice(("global_", "cwd", "session"))
        await session.patch_state(**{scope: self._member()})
        self.made += 1

    async def _everywhere(self, session: Session) -> None:
        await session.patch_state(global_=self._member(), cwd=self._member(), session=self._member())
        self.made += 1

    async def _asked_again(self, session: Session) -> None:
        self._ids += 1
        # Few ids for many calls: the store remembers 10,000, and the soak must not wait for that.
        request_id = f"request {self._ids % 500 if self._ids > 500 else self._ids}"
        await session.patch_state(global_=self._member(), request_id=request_id)
        self.made += 1

    async def _increment(self, session: Session) -> None:
        def add(tx: Any) -> None:
            try:
                count = tx.read("global.working.count").value
            except ReadError:
                count = 0
            tx.patch(global_={"working": {"count": count + 1}})

        await session.transact(add)
        self.made += 1

    async def _answer(self, session: Session) -> None:
        await session.accept_response(f"answer {self.made}")
        self.made += 1

    async def _cancelled(self, session: Session) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._patch, session)
                for _ in range(self.chance.randrange(6)):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

    async def _refused(self, session: Session) -> None:
        with suppress(StrataflowError):
            await session.patch_state(cwd={"working": {"list": {"[7]": 1}}})
        with suppress(StrataflowError):
            await session.patch_state(cwd={"no plane": {}})

    async def _read(self, session: Session) -> None:
        for path in ("effective", "global.working", "global[1]", "session"):
            with suppress(StrataflowError):
                await session.read_state(path)
        await session.status()
        await session.log("global.working", 3)

    async def _watch(self, session: Session) -> None:
        async with session.watch("global.working") as changes:
            await self._patch(session)
            await session.patch_state(global_={"working": {"seen": self.made}})
            self.made += 1
            await changes.__anext__()

    def growth(self) -> list[str]:
        """What has grown since the warm-up, in words; empty if all is flat."""
        warm = [sample for sample in self.samples if sample.commits >= self.commits * WARM_UP_SHARE]
        first, _, last = _thirds(warm)
        found = []
        for name in ("files", "threads", "tasks"):
            before, after = (max(getattr(sample, name) for sample in part) for part in (first, last))
            if after > before:
                found.append(f"{name}: {before} -> {after}")
        thirds = [min(sample.rss_bytes for sample in part) for part in _thirds(warm)]
        steps = [after - before for before, after in itertools.pairwise(thirds)]
        # A leak goes on growing; an allocator takes some MiB in one step and then no more.
        if sum(steps) > RSS_GROWTH_MAX_BYTES and min(steps) > RSS_STEP_MAX_BYTES:
            found.append("resident memory: " + " -> ".join(f"{size >> 20} MiB" for size in thirds))
        return found

    def figures(self) -> dict[str, Any]:
        """What is published."""
        last, warm = self.samples[-1], self.samples[int(SAMPLES * WARM_UP_SHARE)]
        return {
            "commits": self.made,
            "level": self.level,
            "seconds": round(self.seconds, 1),
            "commits_per_s": round(self.made / self.seconds),
            "rss_mib_after_warm_up": round(warm.rss_bytes / (1 << 20), 1),
            "rss_mib_at_end": round(last.rss_bytes / (1 << 20), 1),
            "files": [warm.files, last.files],
            "threads": [warm.threads, last.threads],
            "tasks": [warm.tasks, last.tasks],
            "store_mib": round(last.store_bytes / (1 << 20), 2),
            "grew": self.growth(),
        }


def _thirds(samples: list[Sample]) -> tuple[list[Sample], list[Sample], list[Sample]]:
    size = len(samples) // 3
    return samples[:size], samples[size:-size], samples[-size:]


async def _settle() -> None:
    """Let what the last calls have left behind come to its end."""
    await trio.testing.wait_all_tasks_blocked(0.01)


def soak(commits: int, level: Durability, folder: str) -> Soak:
    """Run a soak in a new event loop."""
    run = Soak(folder, commits, level)
    trio.run(run.run)
    return run


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--level", choices=("power", "process"), default="process")
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        run = soak(arguments.commits, arguments.level, folder)
    print(json.dumps(run.figures()))
    return 1 if run.growth() else 0


if __name__ == "__main__":
    sys.exit(main())
