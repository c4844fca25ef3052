"""What waits in a session's tree: order, cancelled callers, a file that others hold, closing, failing disks.

All waiting is on a MockClock.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kit.hand_stores import CWD
from kit.owned_trees import file_of, tree_of
from kit.runtimes import refused
from kit.session_trees import assistant, user
from kit.simulated_runtimes import GatedThreads, fail_once, run_seeded, simulated
from strataflow import OwnedTree
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Durability, KernelLock


async def texts(tree: OwnedTree) -> list[Any]:
    """The messages of the branch."""
    found = [entry["message"]["content"] for entry in await tree.get_branch() if entry["type"] == "message"]
    return [content if isinstance(content, str) else content[0]["text"] for content in found]


def lock_on(machine: SimulatedMachine, path: str, process: str = "stranger") -> KernelLock:
    """The file's lock, held by another process."""
    lock = machine.locks.of(process).open(path)
    assert lock.try_acquire()
    return lock


def test_a_caller_that_is_cancelled_before_its_turn_leaves_nothing_and_the_others_keep_their_order() -> None:
    async def body() -> None:
        threads = GatedThreads()
        async with simulated(SimulatedMachine(1), threads=threads) as runtime:
            tree = tree_of(await runtime.open_session(CWD, "ann", "off", tree=True))
            gate = threads.hold("work")
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    for number in range(3):
                        nursery.start_soon(tree.append_message, user(f"{number}"))
                        await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tree.append_message, assistant("3"))
                await trio.testing.wait_all_tasks_blocked()
                gate.set()
            # The first one's turn had come: it is there whole, and whoever comes later follows it.
            assert await texts(tree) == ["0", "3"]

    run_seeded(1, body)


def test_whoever_was_cancelled_can_ask_by_the_id_that_it_chose() -> None:
    async def body() -> None:
        threads = GatedThreads()
        async with simulated(SimulatedMachine(1), threads=threads) as runtime:
            tree = tree_of(await runtime.open_session(CWD, "ann", "off", tree=True))
            for is_begun in (True, False):
                gate = threads.hold("work")
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        if not is_begun:
                            nursery.start_soon(tree.refresh)
                            await trio.testing.wait_all_tasks_blocked()
                        call = lambda begun=is_begun: tree.append_message(user("x"), entry_id=f"mine-{begun}")  # noqa: E731
                        nursery.start_soon(call)
                        await trio.testing.wait_all_tasks_blocked()
                        scope.cancel()
                gate.set()
                assert (await tree.get_entry(f"mine-{is_begun}") is not None) == is_begun
            with refused("E_SHAPE"):
                await tree.append_message(user("x"), entry_id="mine-True")
            await tree.append_message(user("x"), entry_id="mine-False")

    run_seeded(1, body)


@pytest.mark.parametrize("closes_runtime", [False, True])
def test_appends_that_wait_when_the_session_closes_are_written(closes_runtime: bool) -> None:
    async def body() -> None:
        machine, threads = SimulatedMachine(1), GatedThreads()
        ids: list[str] = []
        async with simulated(machine, threads=threads) as runtime:
            session = await runtime.open_session(CWD, "ann", "active", tree=True)
            tree = tree_of(session)
            gate = threads.hold("work")

            async def append(number: int) -> None:
                ids.append(await tree.append_message(user(f"{number}")))

            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(append, number)
                    await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(runtime.aclose if closes_runtime else session.aclose)
                await trio.testing.wait_all_tasks_blocked()
                with refused("E_CLOSED"):
                    await tree.append_message(user("too late"))
                gate.set()
            assert len(ids) == 5
        async with simulated(machine, "second") as runtime:
            tree = tree_of(await runtime.open_session(CWD, "ann", tree=True))
            assert await texts(tree) == ["0", "1", "2", "3", "4"]
            assert set(ids) < set(await tree.get_branch_ids())

    run_seeded(1, body)


def test_an_append_waits_for_the_process_that_holds_the_file_and_then_follows_it() -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)
        async with simulated(machine) as runtime:
            session = await runtime.open_session(CWD, "ann", "off", tree=True)
            tree = tree_of(session)
            lock = lock_on(machine, file_of(session))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tree.append_message, user("0"))
                await trio.sleep(3)
                assert await runtime.status()  # nobody else is held up
                with trio.move_on_after(1) as scope:
                    await tree.append_message(user("given up"))
                assert scope.cancelled_caught
                lock.close()
            await tree.append_message(user("1"))
            assert await texts(tree) == ["0", "1"]
            assert machine.locks.holder(file_of(session)) is None

    run_seeded(1, body)


def test_a_session_whose_file_another_process_keeps_can_be_closed() -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)
        async with simulated(machine) as runtime:
            session = await runtime.open_session(CWD, "ann", "off", tree=True)
            path = file_of(session)
            before = machine.disk.read(path)
            lock = lock_on(machine, path)

            async def append() -> None:
                with refused("E_BROKEN"):
                    await tree_of(session).append_message(user("0"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(append)
                await trio.sleep(1)
                with trio.fail_after(30):
                    await session.aclose()
            assert machine.disk.read(path) == before
            lock.close()
            session = await runtime.open_session(CWD, "ann", tree=True)
            await tree_of(session).append_message(user("1"))
            assert await texts(tree_of(session)) == ["1"]

    run_seeded(1, body)


def test_a_disk_that_refuses_costs_the_append_and_nothing_else() -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)
        async with simulated(machine) as runtime:
            session = await runtime.open_session(CWD, "ann", "active", tree=True)
            tree = tree_of(session)
            machine.disk.before_operation = fail_once("append", "_ann.jsonl")
            leaf = tree.get_leaf_id()
            with refused("E_DISK"):
                await tree.append_message(user("lost"))
            assert tree.get_leaf_id() == leaf
            machine.disk.before_operation = fail_once("append", "_ann.jsonl")
            await session.patch_state(session={"working": {"n": 1}})  # what memory notes is lost, memory is not
            await tree.append_message(user("kept"))
            assert await texts(tree) == ["kept"]
            failed = [event for event in runtime.events if event.name == "host-entry-failed"]
            assert [event.data["entry"] for event in failed] == ["state-flow-snapshot"]

    run_seeded(1, body)


@pytest.mark.parametrize("level", ["power", "process"])
def test_the_runtimes_durability_is_that_of_its_trees(level: Durability) -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)
        async with simulated(machine, durability=level) as runtime:
            session = await runtime.open_session(CWD, "ann", "off", tree=True)
            operations: list[str] = []

            def note(name: str, path: str) -> None:
                if path == file_of(session):
                    operations.append(name)

            machine.disk.before_operation = note
            await tree_of(session).append_message(user("0"))
            machine.disk.before_operation = lambda name, path: None
            assert operations.count("sync_file") == (level == "power")
            assert runtime.events == ()

    run_seeded(1, body)


def test_two_processes_that_open_a_new_session_at_once_make_one_file_of_it() -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)

        async def live(process: str) -> None:
            async with simulated(machine, process) as runtime:
                tree = tree_of(await runtime.open_session(CWD, "ann", "off", tree=True))
                await tree.append_message(user(process))
                await trio.sleep(5)

        async with trio.open_nursery() as nursery:
            for process in ("one", "two", "three"):
                nursery.start_soon(live, process)
        async with simulated(machine, "last") as runtime:
            tree = tree_of(await runtime.open_session(CWD, "ann", tree=True))
            assert sorted(await texts(tree)) == ["one", "three", "two"]
            assert len(machine.disk.list(tree.get_session_dir()) or ()) == 1

    for seed in range(25):
        run_seeded(seed, body)
