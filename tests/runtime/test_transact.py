"""``session.transact``: functions that are run again after a conflict, and when they ask for it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, assert_checkpoints

from kit.runtimes import conflicting, refused, value
from kit.simulated_runtimes import session_in
from kit.transacting import increment, interfering
from strataflow import Transaction
from strataflow.runtime.simulation.seams import SimulatedMachine


async def slow_increment(tx: Transaction) -> int:
    await trio.lowlevel.checkpoint()
    return increment(tx)


# -- running again -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [increment, slow_increment])
async def test_the_value_of_a_function_is_returned_once_it_has_committed(
    autojump_clock: MockClock, function: Any
) -> None:
    async with session_in(SimulatedMachine(1)) as (_, session):
        with assert_checkpoints():
            assert await session.transact(function) == 1
        assert await value(session, "cwd.working.n") == 1


async def test_after_a_conflict_the_function_runs_again_on_memory_as_it_is(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(2)) as (_, session):
        function, saw = interfering(session, 3)
        assert await session.transact(function) == "after 4"
        assert saw == [0, 10, 20, 30]
        assert await value(session, "cwd.working.n") == 31


async def test_attempts_that_are_used_up_end_in_a_conflict_that_names_the_transition(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(3)) as (_, session):
        function, saw = interfering(session, 100)
        with conflicting() as caught:
            await session.transact(function, attempts=5)
        assert len(saw) == 5
        (found,) = caught.value.conflicts
        assert (found.path, found.read, found.now) == ("cwd.working.n", 40, 50)
        assert found.transition is not None
        assert found.transition.session == "main"
        assert await value(session, "cwd.working.n") == 50


@pytest.mark.parametrize("attempts", [0, -1, 1.5, True, "3"])
async def test_attempts_that_are_no_number_are_refused_before_anything_runs(
    autojump_clock: MockClock, attempts: Any
) -> None:
    async with session_in(SimulatedMachine(4)) as (_, session):
        with refused("E_SHAPE"):
            await session.transact(lambda tx: pytest.fail("it ran"), attempts=attempts)


async def test_what_a_function_raises_is_raised_and_nothing_is_stored(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(5)) as (_, session):
        kept: list[Transaction] = []

        def fails(tx: Transaction) -> None:
            kept.append(tx)
            increment(tx)
            raise ZeroDivisionError

        async def fails_in_a_nursery(tx: Transaction) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                fails(tx)

        with pytest.raises(ZeroDivisionError):
            await session.transact(fails)
        with pytest.raises(ExceptionGroup) as caught:
            await session.transact(fails_in_a_nursery)
        assert caught.group_contains(ZeroDivisionError)
        assert await value(session, "cwd.working") is None
        for tx in kept:
            with refused("E_ABORTED"):
                tx.read("cwd.working")


async def test_a_refusal_at_the_end_is_no_conflict_and_is_raised(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(6)) as (_, session):

        async def function(tx: Transaction) -> None:
            increment(tx)
            await session.set_mode("off")

        with refused("E_OFF"):
            await session.transact(function)


async def test_every_increment_of_many_tasks_counts(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(7)) as (_, session):
        counts: list[int] = []

        async def client(function: Any) -> None:
            for _ in range(5):
                counts.append(await session.transact(function))

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(client, increment if number % 2 else slow_increment)
        assert sorted(counts) == list(range(1, 61))
        assert await value(session, "cwd.working.n") == 60


async def test_every_increment_of_several_processes_counts(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(8)
    counts: list[int] = []
    attempts = 0

    async def process(name: str) -> None:
        def count(tx: Transaction) -> int:
            nonlocal attempts
            attempts += 1
            return increment(tx)

        async with session_in(machine, name, name) as (_, session):
            for _ in range(10):
                counts.append(await session.transact(count))

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(process, f"p{number}")
    assert sorted(counts) == list(range(1, 81))
    assert attempts <= 1.5 * 80


async def test_a_function_with_a_request_id_changes_something_once(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(9)) as (runtime, session):
        function, saw = interfering(session, 2)
        await session.transact(function, request_id="once")
        assert len(saw) == 3
        assert (await runtime.outcome("once")).state == "accepted"
        await session.transact(function, request_id="once")
        assert await value(session, "cwd.working.n") == 21


async def test_a_transaction_that_is_cancelled_while_it_queues_or_runs_stores_nothing(
    autojump_clock: MockClock,
) -> None:
    async with session_in(SimulatedMachine(10)) as (_, session):

        async def hangs(tx: Transaction) -> None:
            increment(tx)
            await trio.sleep_forever()

        for _ in range(2):
            with trio.move_on_after(1) as scope:
                await session.transact(hangs)
            assert scope.cancelled_caught
        function, _ = interfering(session, 1)
        await session.transact(function)  # from now on the session queues up
        with trio.move_on_after(0.01) as scope:
            await session.transact(hangs)
        assert scope.cancelled_caught
        assert await value(session, "cwd.working.n") == 11
        assert await session.transact(increment) == 12
