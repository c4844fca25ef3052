"""The jobs of child processes: ``python -m strataflow.runtime.benchmark.worker JOB ARGUMENTS``.

A child opens its side, says ``ready``, waits for a line, works, and answers with one JSON line.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ..assembly import Runtime
from ..session_trees import SessionTree
from ..transactions import Transaction
from . import documents
from .agents import used_agents
from .rates import run_for
from .sides import begin_with, open_session, opened, opened_runtime, patch
from .streams import stream
from .studies.conversation import resume
from .studies.publisher import publish
from .transactions import increment
from .watching import announce, idle


def _ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


async def compete(side: Any, folder: str, number: int, seconds: float) -> Any:
    """One of several processes: half of its patches go to global, half to its own session."""

    def work(_: int, turn: int) -> dict[str, Any]:
        return {"global": documents.small_patch(turn)} if turn % 2 else {"session": documents.small_patch(turn)}

    async with opened(side, folder, range(number, number + 1)) as ready:
        first = time.time_ns() // 1_000_000 % 10**9 * 10
        await run_for(ready.commit, range(number, number + 1), work, seconds * 0.15, first)
        _ready()
        count, waits = await run_for(ready.commit, range(number, number + 1), work, seconds, first + 500_000)
    return {"count": count, "waits_s": waits}


async def write(folder: str, callers: int, commits: int, size_bytes: int) -> Any:
    """Commit small patches to one large scope and count what the kernel was given to write, until closed."""
    async with opened_runtime(folder) as runtime:
        session = await open_session(runtime, 0)
        await begin_with(runtime, session, {"session": documents.strings(size_bytes)})
        _ready()
        before = _written_bytes()
        left = iter(range(commits))

        async def caller() -> None:
            for turn in left:
                await patch(session, {"session": documents.small_patch(turn)})

        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(caller)
    return (_written_bytes() - before) / commits


async def remember(folder: str) -> Any:
    """Open the store and its session, read a little, and tell the resident memory in bytes."""
    async with opened_runtime(folder) as runtime:
        session = await open_session(runtime, 0)
        await session.read_state("session", projection="keys")
        _ready()
        gc.collect()
        return _resident_bytes()


async def leave_rows(folder: str, size_bytes: int) -> Any:
    """Commit until the journal holds that many bytes of rows, then be gone without a word, as after a crash."""
    async with opened_runtime(folder) as runtime:
        session = await open_session(runtime, 0)
        _ready()
        await _fill(runtime, session, size_bytes)
        sys.stdout.write("true\n")
        sys.stdout.flush()
        os._exit(0)


async def _fill(runtime: Runtime, session: Any, size_bytes: int) -> None:
    done, turn = 0, 0
    left = size_bytes // 700
    while done < left:
        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(patch, session, {"session": documents.small_patch(turn)})
                turn, done = turn + 1, done + 1


async def count(folder: str, number: int, increments: int) -> Any:
    """One of several processes that increment one counter: how many attempts each increment took, and the time."""
    attempts: list[int] = []
    async with opened_runtime(folder) as runtime:
        session = await open_session(runtime, number)
        _ready()
        before = time.perf_counter()
        for _ in range(increments):
            taken = 0

            def function(tx: Transaction) -> None:
                nonlocal taken
                taken += 1
                increment(tx)

            await session.transact(function)
            attempts.append(taken)
        seconds = time.perf_counter() - before
    return {"attempts": attempts, "seconds": seconds}


async def resume_when_told(**arguments: Any) -> Any:
    """Take a conversation up again and make one more run."""
    _ready()
    return await resume(**arguments)


async def idle_agents(seconds: float, agents: int) -> Any:
    """Agents that have nothing to do: what they take of memory, processor and tasks."""
    warm = await used_agents(10)
    _ready()
    gc.collect()
    before, tasks = _resident_bytes(), trio.lowlevel.current_statistics().tasks_living
    idle = await used_agents(agents)
    gc.collect()
    grown, more = _resident_bytes() - before, trio.lowlevel.current_statistics().tasks_living - tasks
    used, started = time.process_time(), time.perf_counter()
    await trio.sleep(seconds)
    busy = 100 * (time.process_time() - used) / (time.perf_counter() - started)
    assert len(idle) == agents
    assert warm
    return {"before_bytes": before, "grown_bytes": grown, "busy_percent": busy, "tasks": more}


async def open_session_file(path: str) -> Any:
    """Open a session file: the seconds, and the largest resident memory of the process in bytes (0: not known)."""
    _ready()
    before = time.perf_counter()
    tree = SessionTree.open(path, durability="process")
    seconds = time.perf_counter() - before
    assert tree.get_leaf_id() is not None
    return {"seconds": seconds, "peak_bytes": _peak_bytes()}


def _peak_bytes() -> int:
    if not os.path.exists("/proc/self/status"):
        return 0
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def _written_bytes() -> int:
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_bytes"))


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


JOBS: dict[str, Callable[..., Awaitable[Any]]] = {
    "compete": compete,
    "write": write,
    "remember": remember,
    "leave_rows": leave_rows,
    "count": count,
    "announce": announce,
    "idle": idle,
    "idle_agents": idle_agents,
    "resume": resume_when_told,
    "publish": publish,
    "open_session_file": open_session_file,
    "stream": stream,
}


def main() -> None:
    """Run the job that the command line names."""
    job, arguments = JOBS[sys.argv[1]], json.loads(sys.argv[2])

    async def run() -> Any:
        return await job(**arguments)

    sys.stdout.write(json.dumps(trio.run(run)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
