"""Transactions that have a request id: asked again they change nothing, and what became of them can be asked for."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from kit.runtimes import refused, value
from kit.simulated_runtimes import session_in
from strataflow import ConflictError
from strataflow.runtime.simulation.seams import SimulatedMachine


async def test_a_transaction_asked_again_with_its_id_changes_nothing(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(8)
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"n": 1}})
        receipts = []
        for _ in range(2):
            async with session.transaction(request_id="once") as tx:
                tx.patch(cwd={"working": {"n": tx.read("cwd.working.n").value + 1}})
            receipts.append(tx.receipt)
        assert receipts[0] == receipts[1]
        assert await value(session, "cwd.working.n") == 2
        outcome = await runtime.outcome("once")
        assert (outcome.state, outcome.receipt) == ("accepted", receipts[0])


async def test_a_conflict_with_an_id_is_told_as_refused_and_may_be_tried_again(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(9)) as (runtime, session):
        await session.patch_state(cwd={"working": {"n": 1}})
        with refused("E_CONFLICT"):
            async with session.transaction(request_id="mine") as tx:
                tx.patch(cwd={"working": {"n": tx.read("cwd.working.n").value + 1}})
                await session.patch_state(cwd={"working": {"n": 5}})
        outcome = await runtime.outcome("mine")
        assert outcome.state == "refused"
        assert isinstance(outcome.error, ConflictError)
        assert [found.path for found in outcome.error.conflicts] == ["cwd.working.n"]
        async with session.transaction(request_id="mine") as tx:
            tx.patch(cwd={"working": {"n": tx.read("cwd.working.n").value + 1}})
        assert (await runtime.outcome("mine")).state == "accepted"
        assert await value(session, "cwd.working.n") == 6


async def test_a_bad_request_id_is_refused_before_the_body(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(10)) as (_, session):
        for bad in ("", "x" * 201, 7):
            with refused("E_SHAPE"):
                async with session.transaction(request_id=bad):  # type: ignore[arg-type]
                    pytest.fail("it began")
