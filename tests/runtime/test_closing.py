"""Closing a runtime on a simulated machine: what it finishes, what it tells, and that it always ends."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from kit.holds import holds
from kit.simulated_runtimes import GatedThreads, session_in, simulated
from kit.simulated_stores import SimulatedStore
from strataflow.runtime import RuntimeFailed, StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine


def is_unlocked(machine: SimulatedMachine) -> bool:
    root = f"{machine.root}/.strataflow"
    return all(machine.locks.holder(f"{root}/{name}.lock") is None for name in ("open", "turn", "checkpoint"))


async def test_closing_writes_everything_and_makes_way_for_pi(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"a": 1}})
        report = await runtime.aclose()
    assert (report.was_last, report.pi_lock_removed, report.left_behind) == (True, True, ())
    files = machine.disk.contents()
    assert files[f"{machine.root}/--project--/patches.jsonl"] == b'{"working":{"a":1}}\n'
    assert not [path for path in files if "/staged/" in path or "/open/" in path or path.endswith("pi.lock")]
    assert is_unlocked(machine)


async def test_what_was_accepted_before_closing_is_finished_and_later_calls_are_refused(
    autojump_clock: MockClock,
) -> None:
    machine, threads, results = SimulatedMachine(), GatedThreads(), []
    async with session_in(machine, threads=threads) as (runtime, session), trio.open_nursery() as nursery:
        release = threads.hold("commit")

        async def patch(number: int) -> None:
            try:
                results.append((await session.patch_state(cwd={"working": {f"n{number}": number}})).changed)
            except StoreError as error:
                results.append(error.code)

        for number in range(3):
            nursery.start_soon(patch, number)
        await wait_all_tasks_blocked()
        nursery.start_soon(runtime.aclose)
        await wait_all_tasks_blocked()
        nursery.start_soon(patch, 9)
        await wait_all_tasks_blocked()
        assert results == ["E_CLOSED"]
        release.set()
    assert results == ["E_CLOSED", True, True, True]


async def test_two_tasks_may_close_at_once_and_get_one_report(autojump_clock: MockClock) -> None:
    machine, reports = SimulatedMachine(), []
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"a": 1}})

        async def close() -> None:
            reports.append(await runtime.aclose())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(close)
        assert reports == [await runtime.aclose()] * 3
    assert reports[0].was_last


async def test_closing_is_not_stopped_by_a_cancellation(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    with trio.CancelScope() as scope:
        async with session_in(machine) as (_, session):
            await session.patch_state(cwd={"working": {"a": 1}})
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert machine.disk.stat(f"{machine.root}/.state-flow-publication.lock") is None
    assert f"{machine.root}/--project--/patches.jsonl" in machine.disk.contents()


async def test_closing_by_hand_in_a_cancelled_scope_is_done_whole(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"a": 1}})
        with trio.CancelScope() as scope:
            scope.cancel()
            await runtime.aclose()
        assert scope.cancelled_caught
        assert f"{machine.root}/--project--/patches.jsonl" in machine.disk.contents()
        assert machine.disk.stat(f"{machine.root}/.state-flow-publication.lock") is None


async def test_every_call_is_a_checkpoint_whatever_it_answers(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (runtime, session):
        calls: list[Any] = [
            lambda: session.patch_state(cwd={"working": {"a": 1}}),
            lambda: session.patch_state(cwd={"working": {"a": 1}}),
            lambda: session.read_state("effective"),
            lambda: session.read_json("effective", fresh=True),
            lambda: session.set_mode("active"),
            lambda: session.accept_response("done"),
            lambda: session.status(),
            lambda: runtime.status(),
            lambda: runtime.checkpoint(),
            lambda: runtime.open_session("/project", "other", "off"),
            lambda: session.aclose(),
            lambda: session.aclose(),
        ]
        for call in calls:
            with assert_checkpoints():
                await call()
        with trio.CancelScope() as scope:
            scope.cancel()
            await runtime.checkpoint()
        assert scope.cancelled_caught


@holds("Ours-3", "Ours-17")
async def test_a_last_checkpoint_that_fails_leaves_the_lock_and_says_so(autojump_clock: MockClock) -> None:
    machine, report = SimulatedMachine(), None
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"a": 1}})
        machine.disk.before_operation = refuse("write_new", "/staged/")
        report = await runtime.aclose()
    assert not report.pi_lock_removed
    assert any("stays" in line for line in report.left_behind)
    assert machine.disk.stat(f"{machine.root}/.state-flow-publication.lock") is not None
    assert is_unlocked(machine)
    machine.disk.before_operation = None
    machine.table.kill("first")
    async with simulated(machine, "second") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        assert (await session.read_state("cwd.working.a")).value == 1
        report = await runtime.aclose()
    assert report.pi_lock_removed
    assert machine.disk.stat(f"{machine.root}/.state-flow-publication.lock") is None


def refuse(operation: str, part: str, code: int = errno.EIO) -> Any:
    """A hook that refuses every such operation."""

    def before(found: str, path: str) -> None:
        if found == operation and part in path:
            raise OSError(code, "injected")

    return before


@holds("Ours-17", "design M4")
async def test_a_disk_that_fails_again_and_again_ends_the_runtime_and_keeps_what_was_acknowledged(
    autojump_clock: MockClock,
) -> None:
    machine = SimulatedMachine()

    async def patch_for_ever() -> None:
        async with session_in(machine) as (_, session):
            await session.patch_state(cwd={"working": {"a": 1}})
            machine.disk.before_operation = refuse("sync_file", "journal.db-wal")
            while True:
                with pytest.raises(StoreError) as refused:
                    await session.patch_state(cwd={"working": {"a": 2}})
                assert refused.value.code in ("E_BROKEN", "E_CLOSED")
                await trio.sleep(1)

    with pytest.raises(RuntimeFailed) as caught:
        await patch_for_ever()
    assert caught.value.code == "E_BROKEN"
    assert is_unlocked(machine)
    machine.disk.before_operation = None
    machine.kill("first")
    store = SimulatedStore.open(machine, "second")
    assert store.read("cwd.working.a") in (1, 2)
    store.close()


async def test_a_report_of_a_store_that_can_not_be_left_names_the_cause(autojump_clock: MockClock) -> None:
    machine, reports = SimulatedMachine(), []
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"a": 1}})
        machine.disk.before_operation = refuse("append", "journal.db-wal")
        reports.append(await runtime.aclose())
    assert any("injected" in line for line in reports[0].left_behind)
    assert not any("hangs" in line for line in reports[0].left_behind)
    assert is_unlocked(machine)


async def test_closing_ends_at_its_deadline_while_a_thread_hangs(autojump_clock: MockClock) -> None:
    machine, threads = SimulatedMachine(), GatedThreads()
    async with session_in(machine, threads=threads) as (runtime, session), trio.open_nursery() as nursery:
        await session.patch_state(cwd={"working": {"a": 1}})
        release = threads.hold("wait_lock")
        rival = machine.locks.of("rival").open(f"{machine.root}/.strataflow/open.lock")
        assert rival.try_acquire()
        started = trio.current_time()
        report = await runtime.aclose(deadline=4)
        assert trio.current_time() - started <= 4
        assert report.left_behind
        release.set()
        rival.release()
        nursery.cancel_scope.cancel()


async def test_a_session_whose_closing_was_cancelled_can_be_opened_again(autojump_clock: MockClock) -> None:
    machine, threads, answers = SimulatedMachine(), GatedThreads(), []
    async with session_in(machine, threads=threads) as (runtime, session):
        release = threads.hold("commit")

        async def open_again() -> None:
            again = await runtime.open_session(session.cwd, session.session_id, "active")
            answers.append((await again.read_state("session.response")).value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.accept_response, "done")
            await wait_all_tasks_blocked()
            with trio.move_on_after(0.01) as scope:
                await session.aclose()
            assert scope.cancelled_caught
            # It still finishes what it accepted; whoever opens it meanwhile waits for that.
            nursery.start_soon(open_again)
            await wait_all_tasks_blocked()
            release.set()
    assert answers == ["done"]
