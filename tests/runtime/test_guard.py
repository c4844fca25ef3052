"""What a runtime does for others while it is idle: it keeps Pi out, and waits for nobody on behalf of no one.

Sleeping is virtual: ``run_seeded`` runs under a MockClock.
"""

from __future__ import annotations

import os
from pathlib import Path

import trio
import trio.testing

from kit.holds import holds
from kit.runtimes import opened, turn_held
from kit.simulated_processes import Process
from kit.simulated_runtimes import run_seeded
from kit.stores import OpenedStore, leave_killed_process
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import PiLockRecord, ProcessIdentity, keep_pi_out

PI_LOCK = ".state-flow-publication.lock"


@holds("Ours-3", "J8")
def test_a_survivor_puts_its_own_name_into_pis_lock_when_the_named_process_was_killed(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    leave_killed_process(root, "")
    store = OpenedStore.open(root, "survivor")
    lock = root / PI_LOCK
    mine = lock.read_bytes()
    # As it is when another process had opened first and was killed since.
    killed = PiLockRecord(lock.stat().st_dev, lock.stat().st_ino, ProcessIdentity(2**22 + 1, 1, "another boot"))
    lock.write_text(f"{killed.process.pid}\n")
    store.journal.members.set_pi_locks([killed])
    assert keep_pi_out(store.ground, store.journal, store.member.token) == ""
    assert lock.read_bytes() == mine
    assert keep_pi_out(store.ground, store.journal, store.member.token) == ""
    store.close()
    assert not lock.exists()


@holds("Ours-3", "J8")
def test_a_survivor_says_so_when_another_program_took_the_lock(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    store = OpenedStore.open(root, "survivor")
    lock = root / PI_LOCK
    lock.unlink()
    lock.write_text(f"{os.getppid()}\n")
    assert str(os.getppid()) in keep_pi_out(store.ground, store.journal, store.member.token)
    assert lock.read_text() == f"{os.getppid()}\n"
    store.abandon()


@holds("Ours-3")
async def test_closing_does_not_wait_for_a_turn_that_nobody_wants_any_more(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        with turn_held(root):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: session.patch_state(cwd={"working": {"a": 1}}))
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    scope.cancel()
            report = await runtime.aclose(deadline=5)
    assert not [words for words in report.left_behind if "accepted" in words]
    assert report.duration_s < 2


@holds("Ours-3")
def test_an_idle_survivor_notices_within_seconds_that_the_named_process_died() -> None:
    machine = SimulatedMachine()

    async def body() -> None:
        async with trio.open_nursery() as nursery:
            first = await Process.start(nursery, machine, "first")
            second = await Process.start(nursery, machine, "second")
            lock = f"{second.runtime.store_path}/{PI_LOCK}"
            before = machine.disk.read(lock)
            await first.kill()
            await trio.sleep(3)
            after = machine.disk.read(lock)
            assert after != before
            assert after is not None
            assert machine.table.running["second"].pid == int(after)
            await second.close()
            assert machine.disk.read(lock) is None

    run_seeded(1, body)
