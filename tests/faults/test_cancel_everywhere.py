"""The program is cancelled at every step of opening, patching, writing checkpoints, selecting modes and closing.

Goal: afterwards no lock is held, no participant and no lock towards Pi are left, the store opens at once for somebody
else, what was acknowledged is there and everything is whole (design 2, Ours-3).

Method: under a MockClock trio tells an instrument of every step of every task. A run is repeated and cancelled one step
later each time, until one completes untouched. Then single calls are cancelled instead of the whole program.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from kit.cancelling import CancelAt, Story, every_cancellation
from kit.holds import holds
from kit.simulated_runtimes import run_seeded, simulated
from kit.simulated_stores import SimulatedStore
from strataflow.runtime import Runtime, Session, StoreError, Transaction
from strataflow.runtime.simulation.seams import SimulatedMachine


async def patch(session: Session, notes: list[Any], number: int) -> None:
    notes.append(("begun", number))
    change = {"working": {f"n{number}": number}}
    await session.patch_state(global_=change, cwd=change, session=change)
    notes.append(("acknowledged", number))


async def transact(session: Session, notes: list[Any], number: int) -> None:
    """Its first attempt meets a conflict, so that the second one queues up; three patches, one transition."""
    notes.append(("begun", number))
    interferes = iter((True,))

    async def function(tx: Transaction) -> None:
        tx.read("global.working", "keys")
        if next(interferes, False):
            await patch(session, notes, number + 1)
        change = {"working": {f"n{number}": number}}
        for name in ("global_", "cwd", "session"):
            tx.patch(**{name: change})

    await session.transact(function)
    notes.append(("acknowledged", number))


async def run(session: Session, notes: list[Any], number: int) -> None:
    """A run whose model patches once. Its prompt and its answer are no patches, and are looked at afterwards."""
    async with session.run(f"request {number}") as present:
        await present.project([])
        await patch(session, notes, number)
        await present.project([])
        await present.finish(f"answer {number}")


async def off_and_on(session: Session) -> None:
    await session.set_mode("off")
    await session.set_mode("passive")
    await session.set_mode("active")


def whole_life(share_with_pi: bool) -> Story:
    async def story(machine: SimulatedMachine, notes: list[Any]) -> None:
        async with simulated(machine, history_limit=2, share_with_pi=share_with_pi) as runtime:
            session = await runtime.open_session("/project", "main", "active")
            await patch(session, notes, 1)
            await runtime.checkpoint()
            await session.set_mode("passive")
            await patch(session, notes, 2)
            await transact(session, notes, 10)
            await trio.sleep(3)
            await session.set_mode("active")
            await run(session, notes, 20)
            await patch(session, notes, 3)
            await session.aclose()

    return story


def check(machine: SimulatedMachine, notes: list[Any], share_with_pi: bool = False) -> None:
    """No lock of the first process is held, and a second one finds what was acknowledged."""
    root = f"{machine.root}/.strataflow"
    for name in ("open.lock", "turn.lock", "checkpoint.lock", "queue.lock"):
        assert machine.locks.holder(f"{root}/{name}") is None, name
    assert machine.disk.list(f"{root}/open") in (None, [])
    assert machine.disk.stat(f"{machine.root}/.state-flow-publication.lock") is None
    acknowledged = {number for what, number in notes if what == "acknowledged"}
    begun = {number for what, number in notes if what == "begun"}
    store = SimulatedStore.open(machine, "second", share_with_pi=share_with_pi)
    assert store.journal.members.participants()[0].token == "second"
    assert len(store.journal.members.participants()) == 1
    seen = set()
    for name in ("global", "cwd", "session"):
        state = store.memory.image(dict(store.default.scopes())[name]).state
        seen.add(frozenset((state.value if state else {}).get("working", {}).values()))
    assert len(seen) == 1, seen  # whole transitions only
    assert acknowledged <= set(*seen) <= begun
    store.close()
    store.files_hold_the_present()


@holds("design 2", "Ours-3")
@pytest.mark.parametrize("share_with_pi", [False, True])
def test_a_program_cancelled_at_any_step_leaves_a_usable_store(share_with_pi: bool) -> None:
    steps = 0
    for step, machine, notes in every_cancellation(whole_life(share_with_pi)):
        steps += 1
        try:
            check(machine, notes, share_with_pi)
        except BaseException as error:
            error.add_note(f"cancelled after step {step}, notes {notes}")
            raise
    assert steps > 100


async def check_run(session: Session, notes: list[Any]) -> None:
    """A run that was cancelled is the present one no more, and was prepared or answered whole, or not at all."""
    record = session._cell.record
    assert session._cell.context.run is None
    if record is not None and ("begun", 20) in notes:
        answer = session._cell.scopes()["session"].value.get("response")  # type: ignore[index]
        assert (answer, record.specification) in ((None, "request 20"), ("answer 20", None))


async def check_fork(runtime: Runtime, session: Session) -> None:
    """The child was not made, or is there whole; then it can be opened, else it can be forked once more."""
    child: Any = None
    with suppress(StoreError):
        child = await session.fork("child")
    if child is None:
        child = await runtime.open_session("/project", "child", "active")
    found = (await child.read_state("session.working")).value
    assert found["n1"] == 1


CALLS: dict[str, Callable[[Any, Session, list[Any]], Awaitable[Any]]] = {
    "patch": lambda runtime, session, notes: patch(session, notes, 2),
    "transact": lambda runtime, session, notes: transact(session, notes, 10),
    "checkpoint": lambda runtime, session, notes: runtime.checkpoint(),
    "set_mode": lambda runtime, session, notes: session.set_mode("passive"),
    "run": lambda runtime, session, notes: run(session, notes, 20),
    "off_and_on": lambda runtime, session, notes: off_and_on(session),
    "fork": lambda runtime, session, notes: session.fork("child"),
    "accept_response": lambda runtime, session, notes: session.accept_response("done"),
    "read_fresh": lambda runtime, session, notes: session.read_state("effective", fresh=True),
    "open_session": lambda runtime, session, notes: runtime.open_session("/elsewhere", "new", "active"),
    "close_session": lambda runtime, session, notes: session.aclose(),
    "aclose": lambda runtime, session, notes: runtime.aclose(),
}


@holds("design 2")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_cancelled_at_any_step_leaves_the_runtime_usable(name: str) -> None:
    for step in itertools.count(1):
        machine, notes, was_cancelled = SimulatedMachine(step), [], []

        async def body(
            step: int = step,
            machine: Any = machine,
            notes: list[Any] = notes,
            was_cancelled: list[bool] = was_cancelled,
        ) -> None:
            async with simulated(machine, history_limit=2) as runtime:
                session = await runtime.open_session("/project", "main", "active")
                await patch(session, notes, 1)
                with trio.CancelScope() as scope:
                    instrument = CancelAt(scope, step)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await CALLS[name](runtime, session, notes)
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                was_cancelled.append(scope.cancel_called)
                if name == "aclose":
                    return
                await trio.sleep(1)  # what had begun is completed
                session = await runtime.open_session("/project", "main")
                await check_run(session, notes)
                if name == "off_and_on":
                    assert session.mode == "off" or session._cell.address is not None  # a mode that holds is stored
                    assert await session.set_mode("active") == "active"
                await patch(session, notes, 3)
                if name == "fork":
                    await check_fork(runtime, session)
                assert (await session.read_state("session.working.n3")).value == 3
                await (await runtime.open_session("/elsewhere", "new", "active")).set_mode("passive")
                await runtime.checkpoint()

        run_seeded(7, body)
        try:
            check(machine, notes)
        except BaseException as error:
            error.add_note(f"{name} cancelled after step {step}, notes {notes}")
            raise
        if was_cancelled == [False]:
            return
