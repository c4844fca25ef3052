"""Several real processes with one store: nothing is lost, revisions count, order holds, nobody starves.

Goal: Ours-1, Ours-3 and J11 among processes of the operating system. Method: processes start, meet at a barrier (a line
on their input), then patch as fast as they can; the parent compares what they were told with what the store holds.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from kit import contenders
from kit.holds import holds
from kit.runtimes import opened
from kit.stores import OpenedStore
from strataflow.runtime import StoreError
from strataflow.runtime.joining import leave_store

PROCESSES = 8
COUNT = 60
ROUNDS = 20


def start(*command: str) -> subprocess.Popen[str]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, **pipes)


def ended_well(pid: int) -> bool:
    """Wait for the end of a forked child."""
    return os.waitpid(pid, 0)[1] == 0


def talk(process: subprocess.Popen[str], line: str | None) -> str:
    """Say something to a process and hear its next line."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return process.stdout.readline()


@pytest.fixture(scope="module")
def contest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """What eight processes were told, and the store they left."""
    store = tmp_path_factory.mktemp("contest") / "state-flow"
    names = [f"p{number}" for number in range(PROCESSES)]
    command = [sys.executable, str(contenders.__file__), str(store)]
    processes = {
        name: subprocess.Popen(
            [*command, name, str(COUNT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    for process in processes.values():
        assert talk(process, None) == "ready\n", process.communicate()[1]
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = {name: json.loads(talk(process, None)) for name, process in processes.items()}
    for process in processes.values():
        _, errors = process.communicate("done\n", timeout=60)
        assert process.returncode == 0, errors
    return store, answers


@pytest.mark.slow
@holds("Ours-1")
async def test_no_field_is_lost_and_revisions_equal_the_accepted_changes(contest: tuple[Path, Any]) -> None:
    store, _ = contest
    total = PROCESSES * COUNT
    expected = {f"p{number}-{n}": n for number in range(PROCESSES) for n in range(COUNT)}
    async with opened(store) as runtime:
        session = await runtime.open_session("/project", "p0", "passive")
        assert (await session.read_state("global.working")).value == expected
        assert (await session.read_state("cwd.working")).value == expected
        assert (await session.status())["revision"] == f"g{total}c{total}s{COUNT}"


@holds("Ours-18")
@pytest.mark.slow
async def test_each_process_sees_its_own_calls_in_the_order_of_sending(contest: tuple[Path, Any]) -> None:
    _, answers = contest
    every: list[int] = []
    for answer in answers.values():
        pairs = [sorted(answer["rows"][place : place + 2]) for place in range(0, COUNT, 2)]
        assert [row for pair in pairs for row in pair] == sorted(answer["rows"])
        every += answer["rows"]
    # A receipt names the newest row it rests on; of two calls in one batch each has its own.
    assert len(set(every)) == len(every)


@pytest.mark.slow
@holds("Ours-3")
async def test_nobody_starves_among_eight_processes(contest: tuple[Path, Any]) -> None:
    _, answers = contest
    waits = [wait for answer in answers.values() for wait in answer["waits"]]
    longest, median = max(waits), statistics.median(waits)
    print(f"longest wait {longest:.3f} s, median {median:.4f} s")
    assert longest <= max(20 * median, 1.0)
    # And all of them get their share all the time, not one after the other.
    spans = [(min(answer["rows"]), max(answer["rows"])) for answer in answers.values()]
    assert max(start for start, _ in spans) < min(end for _, end in spans)


@holds("Ours-1", "J8")
@pytest.mark.slow
def test_the_canonical_files_hold_everything_when_the_last_process_has_left(contest: tuple[Path, Any]) -> None:
    store, _ = contest
    (store / ".strataflow").rename(store.parent / "aside")
    try:
        with OpenedStore.open(store, "reader") as opened_store:
            assert len(opened_store.read("global.working")) == PROCESSES * COUNT
    finally:
        shutil.rmtree(store / ".strataflow")
        (store.parent / "aside").rename(store / ".strataflow")


@holds("J8")
@pytest.mark.slow
def test_eight_processes_open_a_fresh_store_at_the_same_instant(tmp_path: Path) -> None:
    code = (
        "import sys, trio\n"
        "from strataflow.runtime import open_runtime\n"
        "async def main(store, name):\n"
        "    async with open_runtime(store=store, durability='process') as runtime:\n"
        "        session = await runtime.open_session('/project', name, 'active')\n"
        "        await session.patch_state(global_={'working': {name: 1}})\n"
        "sys.stdin.readline()\n"
        f"for number in range({ROUNDS}):\n"
        "    trio.run(main, f'{sys.argv[1]}{number}', sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    processes = [start(*command, f"n{number}") for number in range(PROCESSES)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors

    async def count(store: Path) -> int:
        async with opened(store) as runtime:
            session = await runtime.open_session("/project", "n0", "passive")
            return len((await session.read_state("global.working")).value)

    assert [trio.run(count, tmp_path / f"store{number}") for number in range(ROUNDS)] == [PROCESSES] * ROUNDS


def in_a_child(check: Any) -> str:
    """Fork, run ``check`` in the child, and return what it says."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, str(check()).encode())
        except BaseException as error:  # what the parent reads makes it raise
            os.write(write_end, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read().decode()
    assert ended_well(pid)
    return said


@holds("J11")
async def test_handles_in_a_forked_child_are_closed_and_the_parent_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(global_={"working": {"a": 1}})

        def check() -> str:
            codes = []
            for call in (session.patch_state(global_={"working": {"b": 1}}), session.read_state("effective")):
                try:
                    call.send(None)
                except StoreError as error:
                    codes.append(error.code)
                else:
                    codes.append("went on")
            return " ".join(codes)

        assert in_a_child(check) == "E_CLOSED E_CLOSED"
        await session.patch_state(global_={"working": {"c": 1}})
        assert (await session.read_state("global.working")).value == {"a": 1, "c": 1}


@holds("J11")
async def test_a_child_that_unwinds_leaves_the_store_of_its_parent_alone(tmp_path: Path) -> None:
    # A fork in the middle of a program may run up through the context that opened the store.
    async with opened(tmp_path / "state-flow", durability="power") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(global_={"working": {"a": 1}})

        def check() -> str:
            try:
                leave_store(runtime._world, runtime._state).send(None)
            except StoreError as error:
                return error.code
            return "it left"

        assert in_a_child(check) == "E_CLOSED"
        await session.patch_state(global_={"working": {"b": 2}})
        with OpenedStore.open(tmp_path / "state-flow", "other", session_id="other") as store:
            assert store.read("global.working") == {"a": 1, "b": 2}
        await session.patch_state(global_={"working": {"c": 3}})
        report = await runtime.aclose()
        assert report.pi_lock_removed


@holds("J11")
async def test_no_lock_is_inherited_by_a_forked_child(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(global_={"working": {"a": 1}})
        pid = os.fork()
        if pid == 0:
            os.close(write_end)
            os.read(read_end, 1)  # lives on until the parent lets go
            os._exit(0)
    # The runtime is closed while the child lives. Had it inherited a lock, it would count as a participant now.
    report = await runtime.aclose()
    assert (report.was_last, report.pi_lock_removed) == (True, True)
    async with opened(tmp_path / "state-flow", share_with_pi=True) as again:
        session = await again.open_session("/project", "main", "active")
        with trio.fail_after(10):
            await session.patch_state(global_={"working": {"b": 1}})
    os.close(write_end)
    os.close(read_end)
    assert ended_well(pid)


@holds("J11")
def test_a_forked_child_neither_uses_nor_closes_the_connection_of_its_parent(tmp_path: Path) -> None:
    store = OpenedStore.open(tmp_path / "state-flow")
    store.patch(cwd={"working": {"before": 1}})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.journal.view(None)
        except StoreError as error:
            store.journal.close()
            code = 0 if error.code == "E_CLOSED" else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "state-flow/.strataflow/journal.db-wal").exists()
    store.patch(cwd={"working": {"after": 1}})
    assert store.read("cwd.working") == {"before": 1, "after": 1}
    store.close()
