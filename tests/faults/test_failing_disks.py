"""One operation of the disk is refused, each in turn, while a runtime works: disk full, no permission, I/O error.

Goal: what is acknowledged stays, what is refused did not happen or is told as unknown, reads go on, and the runtime is
usable again when the cause is gone (Ours-17).

Method: a run on a simulated machine, under a MockClock, is repeated, its n-th change of the disk refused once, until a
run meets no n-th.
"""

from __future__ import annotations

import errno
import itertools
from typing import Any

import pytest
import trio

from kit.holds import holds
from kit.simulated_runtimes import run_seeded, session_in, simulated
from kit.simulated_stores import LOOKS, SimulatedStore
from strataflow.runtime import CheckpointReport, Runtime, Session, StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine

CODES = [errno.ENOSPC, errno.EACCES, errno.EIO]
# Refused as a whole, or told as unknown; nothing else may reach a caller.
TOLD = ("E_DISK", "E_BROKEN", "E_CLOSED")


class RefuseOnce:
    """Refuses the n-th change of the disk from now on."""

    def __init__(self, place: int, code: int) -> None:
        self.left, self.code = place, code
        self.has_happened = False

    def __call__(self, name: str, path: str) -> None:
        if name in LOOKS or self.has_happened:
            return
        self.left -= 1
        if self.left == 0:
            self.has_happened = True
            raise OSError(self.code, f"injected at {name} {path}")


def told(error: StoreError) -> None:
    assert error.code in TOLD, error


async def patch(session: Session, acknowledged: set[int], unknown: set[int], number: int) -> None:
    change = {"working": {f"n{number}": number}}
    try:
        await session.patch_state(global_=change, cwd=change, session=change)
    except StoreError as error:
        told(error)
        if error.code != "E_DISK":
            unknown.add(number)
    else:
        acknowledged.add(number)


async def checkpoint(runtime: Runtime) -> CheckpointReport | None:
    try:
        return await runtime.checkpoint()
    except StoreError as error:
        told(error)
        return None


@holds("Ours-17")
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_any_one_refusal_of_the_disk_loses_nothing_and_passes(code: int) -> None:
    for place in itertools.count(1):
        machine, refusal = SimulatedMachine(place), RefuseOnce(place, code)
        acknowledged: set[int] = set()
        unknown: set[int] = set()

        async def body(
            machine: Any = machine, hook: Any = refusal, done: Any = acknowledged, open_: Any = unknown
        ) -> None:
            async with session_in(machine, history_limit=2) as (runtime, session):
                machine.disk.before_operation = hook
                for number in (1, 2):
                    await patch(session, done, open_, number)
                await checkpoint(runtime)
                for number in (3, 4, 5):
                    await patch(session, done, open_, number)
                seen = (await session.read_state("global")).value.get("working", {})
                assert done <= set(seen.values()) <= done | open_
                await trio.sleep(70)
                machine.disk.before_operation = None
                await patch(session, done, open_, 6)
                assert 6 in done
                report = await runtime.checkpoint()
                assert not report.blocked
                closing = await runtime.aclose()
                assert not closing.left_behind, closing

        try:
            run_seeded(place, body)
            store = SimulatedStore.open(machine, "second")
            for name in ("global", "cwd", "session"):
                assert acknowledged <= set(store.read(f"{name}.working").values()) <= acknowledged | unknown
            store.files_hold_the_present()
            store.close()
        except BaseException as error:
            error.add_note(f"refused change {place} with {errno.errorcode[code]}")
            raise
        if not refusal.has_happened:
            assert place > 50
            return


@holds("Ours-17")
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_an_opening_that_is_refused_leaves_nothing_and_succeeds_later(code: int) -> None:
    for place in itertools.count(1):
        machine, refusal = SimulatedMachine(place), RefuseOnce(place, code)

        async def body(machine: Any = machine, hook: Any = refusal) -> None:
            machine.disk.before_operation = hook
            try:
                async with simulated(machine) as runtime:
                    machine.disk.before_operation = None
                    assert not (await runtime.aclose()).left_behind
            except StoreError as error:
                told(error)
            machine.disk.before_operation = None
            root = f"{machine.root}/.strataflow"
            for name in ("open", "turn", "checkpoint"):
                assert machine.locks.holder(f"{root}/{name}.lock") is None, name
            machine.kill("first")
            async with session_in(machine, "second") as (runtime, session):
                await session.patch_state(global_={"working": {"a": 1}})
                assert [member.token for member in runtime._world.journal.members.participants()] == [
                    runtime._world.member.token
                ]
                assert (await runtime.aclose()).pi_lock_removed

        try:
            run_seeded(place, body)
        except BaseException as error:
            error.add_note(f"refused change {place} with {errno.errorcode[code]}")
            raise
        if not refusal.has_happened:
            assert place > 20
            return
