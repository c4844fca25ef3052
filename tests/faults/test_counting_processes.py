"""Real processes that count in one place: every increment counts, and everybody gets its turn.

Goal: no update is lost whatever competes, and nobody starves: every transaction gets its turn. Method: processes
start, meet at a barrier (a line on their input) and increment as fast as they can; one of them may be killed with
SIGKILL meanwhile. The counts that they were told must be the numbers from one on, without a gap and without a double.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from kit import counters
from kit.runtimes import opened, session_of, value
from strataflow.runtime import Session, Transaction

PROCESSES = 8


def started(store: Path, count: int, names: list[str]) -> dict[str, subprocess.Popen[str]]:
    """Processes that are ready to count."""
    command = [sys.executable, str(counters.__file__), str(store)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = {name: subprocess.Popen([*command, name, str(count)], text=True, **pipes) for name in names}
    for process in processes.values():
        assert heard(process) == "ready\n", process.communicate()[1]
    return processes


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def told(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def counted(processes: dict[str, subprocess.Popen[str]]) -> dict[str, Any]:
    """Let them count to their end; what they were told."""
    answers = {name: json.loads(heard(process)) for name, process in processes.items()}
    for process in processes.values():
        _, errors = process.communicate("done\n", timeout=60)
        assert process.returncode == 0, errors
    return answers


def check(answers: dict[str, Any], total: int) -> None:
    """No update was lost, and nobody starved."""
    counts = sorted(count for answer in answers.values() for count in answer["counts"])
    assert counts == list(range(1, total + 1))
    attempts = [taken for answer in answers.values() for taken in answer["attempts"]]
    print(f"{statistics.mean(attempts):.3f} attempts for each increment, {max(attempts)} at worst")
    # Generous: on a busy machine more of them meet. The benchmark holds the figures.
    assert statistics.mean(attempts) <= 2.5
    assert max(attempts) <= 32


@pytest.mark.slow
def test_sixty_four_increments_of_each_of_eight_processes_all_count(tmp_path: Path) -> None:
    processes = started(tmp_path / "state-flow", 64, [f"p{number}" for number in range(PROCESSES)])
    for process in processes.values():
        told(process, "go")
    check(counted(processes), 64 * PROCESSES)


@pytest.mark.slow
def test_the_field_case_of_eight_processes_with_two_hundred_increments(tmp_path: Path) -> None:
    """Field case: 8 processes x 200 increments of one counter: 1,600."""
    processes = started(tmp_path / "state-flow", 200, [f"p{number}" for number in range(PROCESSES)])
    for process in processes.values():
        told(process, "go")
    check(counted(processes), 1_600)


@pytest.mark.slow
async def test_a_process_that_is_killed_in_the_middle_leaves_all_others_counting(tmp_path: Path) -> None:
    store = tmp_path / "state-flow"
    processes = started(store, 60, [f"p{number}" for number in range(4)])
    doomed = started(store, 1_000_000, ["doomed"])["doomed"]
    for process in (*processes.values(), doomed):
        told(process, "go")
    async with opened(store) as runtime:
        session = await runtime.open_session("/project", "watcher", "active")
        with trio.fail_after(60):
            await session.wait_for("global.working.count", lambda count: (count or 0) >= 60)
        doomed.kill()
        doomed.communicate()
        answers = await trio.to_thread.run_sync(counted, processes)
        counts = [count for answer in answers.values() for count in answer["counts"]]
        assert len(set(counts)) == 4 * 60
        total = (await session.read_state("global.working.count", fresh=True)).value
        assert total >= max(counts)
        # What the killed one did counts too, and there is nothing besides.
        step = (await (await runtime.open_session("/project", "doomed", "passive")).status())["step"]
        assert total == 4 * 60 + step


@pytest.mark.slow
async def test_a_wait_for_a_change_is_woken_by_another_process(tmp_path: Path) -> None:
    """Two runtimes of one process: to the kernel and to each other they are two."""
    store = tmp_path / "state-flow"

    async def take(tx: Transaction) -> int:
        found = tx.read("cwd.working").value or {}
        if "job" not in found:
            await tx.retry()
        tx.patch(cwd={"working": {"job": None, "taken": found["job"]}})
        return int(found["job"])

    async def put(session: Session) -> None:
        for number in range(5):
            await session.wait_for("cwd.working", lambda found: "job" not in (found or {}))
            await session.patch_state(cwd={"working": {"job": number}})

    async with session_of(store, "one") as one, session_of(store, "two") as two:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(put, two)
                assert [await one.transact(take) for _ in range(5)] == [0, 1, 2, 3, 4]
        assert await value(one, "cwd.working.taken") == 4
