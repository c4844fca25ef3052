"""Reading for a card, and the patch that stores it, are cancelled at every step.

Goal: a cancelled read counts for nothing; a cancelled patch stores card and evidence together or neither, and the duty
to send the card ends exactly when it is stored.

Method: under a MockClock an instrument counts the steps of all tasks and cancels the call one step later each time,
until it completes untouched.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from kit.holds import holds
from kit.runtimes import refused
from kit.simulated_runtimes import run_seeded, session_in
from strataflow.runtime import Run, Session
from strataflow.runtime.simulation.seams import SimulatedMachine

A = "/project/a.py"
OLD, NEW = {"description": "old"}, {"description": "new"}
MESSAGE = {"role": "user", "content": "go", "timestamp": 1}

Call = Callable[[Session, Run], Awaitable[Any]]
Judge = Callable[[Session, Run, bool], Awaitable[None]]


class CancelAt(trio.abc.Instrument):
    """Cancels a scope after a number of task steps."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left = scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


async def cancelled_at(step: int, before: Call, call: Call, judge: Judge) -> bool:
    """Cancel one call after so many steps. Whether it completed all the same."""
    machine = SimulatedMachine(step)
    machine.sources.write(A, b"print(1)")
    async with session_in(machine) as (_, session):
        await session.patch_state(cwd={"artifacts": {A: OLD}})
        async with session.run("go") as run:
            await run.project([MESSAGE])
            await before(session, run)
            with trio.CancelScope() as scope:
                instrument = CancelAt(scope, step)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await call(session, run)
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            await trio.sleep(1)  # what was begun ends
            await judge(session, run, not scope.cancelled_caught)
            return not scope.cancelled_caught


def at_every_step(before: Call, call: Call, judge: Judge) -> int:
    for step in itertools.count(1):

        async def body(step: int = step) -> bool:
            return await cancelled_at(step, before, call, judge)

        if run_seeded(3, body):
            return step
    raise AssertionError("unreachable")


async def nothing(session: Session, run: Run) -> None:
    """Nothing comes before."""


async def read(session: Session, run: Run) -> None:
    await run.note_read(A, "call")
    await run.note_read(A, "call")


async def store(session: Session, run: Run) -> None:
    await session.patch_state(cwd={"artifacts": {A: NEW}})


@holds("A18", "A19")
def test_a_cancelled_read_does_not_count_and_a_complete_one_does() -> None:
    async def judge(session: Session, run: Run, completed: bool) -> None:
        if completed:
            with refused("E_COMPILE_MISSING"):
                await session.patch_state(session={"working": {"x": 1}})
        else:
            assert (await session.patch_state(session={"working": {"x": 1}})).changed

    assert at_every_step(nothing, read, judge) > 5


@holds("A22", "A24", "A25")
def test_a_cancelled_patch_stores_card_and_evidence_or_neither_and_owes_accordingly() -> None:
    seen: set[str] = set()

    async def judge(session: Session, run: Run, completed: bool) -> None:
        card = (await session.read_state("cwd.artifacts", fresh=True)).value[A]
        pending = [item.reason for item in await session.invalidations()]
        if card == NEW:
            assert pending == []
            assert (await session.patch_state(session={"working": {"x": 1}})).changed
        else:
            assert not completed
            assert (card, pending) == (OLD, ["invalid-metadata"])
            with refused("E_COMPILE_MISSING"):
                await session.patch_state(session={"working": {"x": 1}})
        seen.add(f"{card['description']} {completed}")

    assert at_every_step(read, store, judge) > 5
    assert seen >= {"old False", "new True"}
