"""Cases from the field: what must not grow with what is stored already, with time, or with a slow disk."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.runtimes import opened, value
from kit.simulated_runtimes import GatedThreads, session_in
from kit.simulated_stores import SimulatedStore
from strataflow.actors.limits import BATCH_MAX, MAILBOX_CAPACITY
from strataflow.runtime.simulation.seams import SimulatedMachine

MEBIBYTE = 1 << 20


async def test_the_field_case_of_one_changed_integer_in_a_megabyte_writes_about_an_integer(tmp_path: Path) -> None:
    log = tmp_path / "state-flow/.strataflow/journal.db-wal"
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        large = {f"part {number}": "x" * 1000 for number in range(MEBIBYTE // 1000)}
        await session.patch_state(cwd={"working": {"large": large, "count": 0}})
        await runtime.checkpoint()
        for number in range(1, 4):
            rows, size = runtime._world.journal.appended_bytes, log.stat().st_size
            await session.patch_state(cwd={"working": {"count": number}})
            assert runtime._world.journal.appended_bytes - rows < 1000
            # SQLite writes whole pages, and may begin its log anew.
            assert log.stat().st_size - size <= 5 * 4200


def commit_trace(commits: int) -> tuple[list[str], list[int]]:
    """What the disk and the journal are asked while a commit is made after so many others."""
    machine = SimulatedMachine()
    store = SimulatedStore.open(machine)
    for number in range(commits):
        store.patch(global_={"working": {"n": number}}, cwd={"working": {f"m{number % 10}": number}})
        if number % 50 == 49:
            store.checkpoint()
    operations: list[str] = []
    rows: list[int] = []
    machine.disk.before_operation = lambda name, path: operations.append(f"{name} {path.rpartition('/')[2]}")
    rows_since = store.journal.rows_since

    def counted(seq: int, limit: int) -> Any:
        found = rows_since(seq, limit)
        rows.append(len(found))
        return found

    store.journal.rows_since = counted  # type: ignore[method-assign]
    store.patch(global_={"working": {"n": -1}}, session={"working": {"n": 1}})
    return operations, rows


def test_the_field_case_of_work_under_the_lock_that_does_not_depend_on_the_length_of_history() -> None:
    few, many = commit_trace(3), commit_trace(400)
    assert few == many
    assert set(few[1]) == {0}


def test_the_field_case_of_derived_work_that_is_never_on_the_path_of_a_commit() -> None:
    operations, _ = commit_trace(60)
    assert [name for name in operations if not name.startswith("stat ")] == [
        "append journal.db-wal",
        "sync_file journal.db-wal",
    ]


async def test_the_field_case_of_writers_that_queue_up_behind_a_slow_disk_in_bounded_queues(
    autojump_clock: MockClock,
) -> None:
    callers, threads = 2 * MAILBOX_CAPACITY + BATCH_MAX, GatedThreads()
    async with session_in(SimulatedMachine(), threads=threads) as (runtime, session):
        await session.patch_state(cwd={"working": {"n": 0}})
        release = threads.hold("commit")
        answered = itertools.count()

        async def call(number: int) -> None:
            await session.patch_state(cwd={"working": {f"n{number}": number}})
            next(answered)

        async with trio.open_nursery() as nursery:
            for number in range(callers):
                nursery.start_soon(call, number)
            await wait_all_tasks_blocked()
            # Those who found no room wait outside: nothing of theirs is in a queue.
            assert (await runtime.status())["waiting"] <= MAILBOX_CAPACITY
            assert next(answered) == 0
            release.set()
        assert len(await value(session, "cwd.working")) == callers + 1


@pytest.mark.parametrize("what", ["sessions", "watches", "transactions", "requests"])
async def test_the_field_case_of_handles_and_tasks_that_go_with_what_made_them(
    autojump_clock: MockClock, what: str
) -> None:
    async with session_in(SimulatedMachine()) as (runtime, session):

        async def once(number: int) -> None:
            if what == "sessions":
                other = await runtime.open_session("/project", f"s{number % 3}", "active")
                await other.patch_state(session={"working": {"n": number}})
                await other.aclose()
            elif what == "watches":
                async with session.watch("cwd.working") as changes:
                    await session.patch_state(cwd={"working": {"n": number}})
                    await changes.__anext__()
            elif what == "transactions":
                await session.transact(lambda tx: tx.patch(cwd={"working": {"n": number}}))
            else:
                await session.patch_state(cwd={"working": {"n": number}}, request_id=f"r{number % 3}")

        for number in range(5):
            await once(number)
        await trio.sleep(10)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for number in range(5, 60):
            await once(number)
        await trio.sleep(10)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
