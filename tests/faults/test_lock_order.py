"""Whoever waits for a lock holds only locks that come before it, and Pi's lock means what it says (J7).

Goal: no two processes ever wait for each other, and Pi reads files only when they hold everything.

Method: processes on a simulated machine, each with a record of what it holds whenever it waits.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kit.holds import holds
from kit.simulated_runtimes import GatedThreads, session_in
from strataflow.runtime import StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import KernelLock

ORDER = ("open", "turn", "checkpoint")


class Recorded(GatedThreads):
    """Threads that note what the process holds when it waits for a lock."""

    machine: SimulatedMachine
    process: str
    waits: list[tuple[str, set[str]]]

    async def wait_lock(self, lock: KernelLock) -> None:
        wanted = next(name for name in ORDER if lock.identity() == identity(self.machine, name))
        self.waits.append((wanted, held(self.machine, self.process)))
        await super().wait_lock(lock)


def identity(machine: SimulatedMachine, name: str) -> tuple[int, int] | None:
    stat = machine.disk.stat(f"{machine.root}/.strataflow/{name}.lock")
    return None if stat is None else (stat.device, stat.inode)


def held(machine: SimulatedMachine, process: str) -> set[str]:
    root = f"{machine.root}/.strataflow"
    return {name for name in ORDER if machine.locks.holder(f"{root}/{name}.lock") == process}


@holds("J7")
@pytest.mark.parametrize("shared", [False, True])
async def test_nobody_waits_for_a_lock_with_a_later_one_in_hand(autojump_clock: MockClock, shared: bool) -> None:
    machine = SimulatedMachine()
    waits: list[tuple[str, set[str]]] = []

    async def work(process: str) -> None:
        threads = Recorded()
        threads.machine, threads.process, threads.waits = machine, process, waits
        async with session_in(machine, process, process, threads=threads, share_with_pi=shared) as (runtime, session):
            for number in range(10):
                await session.patch_state(global_={"working": {process: number}})
                if number % 3 == 2:
                    await runtime.checkpoint()

    async with trio.open_nursery() as nursery:
        for process in ("first", "second", "third"):
            nursery.start_soon(work, process)
    assert waits
    for wanted, holding in waits:
        assert all(ORDER.index(name) < ORDER.index(wanted) for name in holding), (wanted, holding)


@holds("J7", "J8")
async def test_the_open_lock_is_not_held_while_waiting_for_pi(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    machine.table.start("pi", pid=77)
    lock = f"{machine.root}/.state-flow-publication.lock"
    machine.disk.plant(lock, "file", b"77\n")
    opened: list[float] = []

    async def wait() -> None:
        async with session_in(machine, "first"):
            opened.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        rival = machine.locks.of("rival").open(f"{machine.root}/.strataflow/open.lock")
        for _ in range(50):
            # It looks again every 25 ms and takes the lock for that moment only.
            with trio.fail_after(0.01):
                while not rival.try_acquire():
                    await trio.lowlevel.checkpoint()
            rival.release()
            await trio.sleep(0.007)
        assert not opened
        machine.disk.unlink(lock)
        await trio.sleep(0.1)
    assert opened
    # And the wait can be given up, leaving nothing.
    machine.disk.plant(lock, "file", b"77\n")
    with trio.move_on_after(1) as scope:
        async with session_in(machine, "first"):
            pytest.fail("Pi holds the store")
    assert scope.cancelled_caught
    assert machine.disk.list(f"{machine.root}/.strataflow/open") == []
    assert machine.disk.contents()[lock] == b"77\n"


@holds("J7", "Ours-3")
async def test_shared_with_pi_its_lock_is_given_back_only_when_all_is_in_the_files(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    lock = f"{machine.root}/.state-flow-publication.lock"

    def refuse(name: str, path: str) -> None:
        if name == "write_new" and "/staged/" in path:
            raise OSError(errno.EIO, "injected")

    async with session_in(machine, share_with_pi=True) as (runtime, session):
        await session.patch_state(global_={"working": {"a": 1}})
        assert machine.disk.stat(lock) is None
        assert b'"a":1' in machine.disk.contents()[f"{machine.root}/patches.jsonl"]
        machine.disk.before_operation = refuse
        receipt = await session.patch_state(global_={"working": {"a": 2}})
        assert receipt.changed  # it is durable in the journal; Pi must wait for the files
        assert machine.disk.stat(lock) is not None
        with pytest.raises(StoreError) as caught:
            await session.patch_state(global_={"working": {"a": 3}})
        assert caught.value.code == "E_DISK"
        machine.disk.before_operation = None
        await trio.sleep(120)  # it is tried again without being asked
        assert machine.disk.stat(lock) is None
        await session.patch_state(global_={"working": {"a": 4}})
        assert machine.disk.stat(lock) is None
        machine.disk.before_operation = refuse
        await session.patch_state(global_={"working": {"a": 5}})
        report = await runtime.aclose()
    assert any("stays" in line or "not be" in line for line in report.left_behind), report
    assert machine.disk.stat(lock) is not None
    machine.disk.before_operation = None
    machine.table.kill("first")
    async with session_in(machine, "second", share_with_pi=True) as (_, session):
        assert (await session.read_state("global.working.a")).value == 5
        assert machine.disk.stat(lock) is None  # a first open writes before it gives way


@holds("Ours-3")
@pytest.mark.parametrize("shared", [False, True])
async def test_all_who_have_a_store_open_share_it_in_one_way(autojump_clock: MockClock, shared: bool) -> None:
    machine, caught = SimulatedMachine(), []

    async def other_way() -> Any:
        async with session_in(machine, "second", share_with_pi=not shared):
            pytest.fail("it was opened")

    async with session_in(machine, "first", share_with_pi=shared):
        with pytest.raises(StoreError) as found:
            await other_way()
        caught.append(found.value)
    assert caught[0].code == "E_LOCK"
    assert "shared" in str(caught[0])
    assert "exclusively" in str(caught[0])
