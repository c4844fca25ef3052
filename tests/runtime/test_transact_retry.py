"""``tx.retry()`` and ``or_else``: functions that wait for a change, and what may be tried instead."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.runtimes import refused, value
from kit.simulated_runtimes import session_in
from kit.transacting import increment, interfering, number_of
from strataflow import CallError, ReadError, StoreError, Transaction
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.transactions import Retry

# -- waiting -----------------------------------------------------------------------------------------------------------


async def take(tx: Transaction) -> str:
    """Take the job that is there, or wait for one."""
    found = tx.read("cwd.lazy").value or {}
    if "job" not in found:
        await tx.retry()
    tx.patch(cwd={"lazy": {"job": None}})
    return str(found["job"])


async def test_retry_waits_until_what_was_read_changes_and_runs_again(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(11)) as (_, session), trio.open_nursery() as nursery:
        got: list[str] = []

        async def worker() -> None:
            got.append(await session.transact(take))

        nursery.start_soon(worker)
        await wait_all_tasks_blocked()
        await session.patch_state(cwd={"working": {"unrelated": 1}})
        await wait_all_tasks_blocked()
        assert got == []
        await session.patch_state(cwd={"lazy": {"job": "sweep"}})
        await wait_all_tasks_blocked()
        assert got == ["sweep"]
        assert await value(session, "cwd.lazy") is None


async def test_many_workers_that_wait_for_jobs_take_each_once(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(12)) as (_, session), trio.open_nursery() as nursery:
        got: list[str] = []

        async def worker() -> None:
            got.append(await session.transact(take))

        async def put(tx: Transaction, job: str) -> None:
            if "job" in (tx.read("cwd.lazy").value or {}):
                await tx.retry()
            tx.patch(cwd={"lazy": {"job": job}})

        for _ in range(6):
            nursery.start_soon(worker)
        for number in range(6):
            nursery.start_soon(session.transact, lambda tx, number=number: put(tx, f"job {number}"))  # type: ignore[misc]
        await trio.sleep(60)
        assert sorted(got) == [f"job {number}" for number in range(6)]


async def test_retry_is_woken_by_another_process(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(13)
    async with session_in(machine) as (_, mine), session_in(machine, "second", "other") as (_, other):
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(mine.transact, take)
                await trio.sleep(5)
                await other.patch_state(cwd={"lazy": {"job": "theirs"}})
        assert (await other.read_state("cwd.lazy", fresh=True)).value is None


async def test_a_wait_for_a_change_can_be_cancelled_and_holds_nothing(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(14)
    async with session_in(machine) as (runtime, session):
        function, _ = interfering(session, 1)
        await session.transact(function)  # contention: the next one queues up, and must not wait in its turn
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.transact, take)
                await wait_all_tasks_blocked()
                assert machine.locks.holder(runtime._world.ground.layout.private("queue.lock")) is None
                assert await session.transact(increment) == 12
        assert scope.cancelled_caught
        assert await session.transact(increment) == 13


async def test_whatever_becomes_of_the_exception_the_attempt_is_never_stored(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(15)) as (_, session), trio.open_nursery() as nursery:
        runs: list[int] = []

        async def swallows(tx: Transaction) -> str:
            runs.append(number_of(tx))
            if runs[-1] < 2:
                tx.patch(cwd={"lazy": {"never": True}})
                try:
                    await tx.retry()
                except Retry:
                    return "swallowed"
            return "done"

        async def swallows_and_goes_on(tx: Transaction) -> str:
            with suppress(Retry):
                await swallows(tx)
                if number_of(tx) < 2:
                    await tx.retry()
            if runs[-1] < 2:
                tx.patch(cwd={"lazy": {"never": True}})
            return "done"

        for function in (swallows, swallows_and_goes_on):
            await session.patch_state(cwd={"working": {"n": 0}})
            runs.clear()
            found: list[str] = []

            async def client(function: Any = function, found: Any = found) -> None:
                found.append(await session.transact(function))

            nursery.start_soon(client)
            for number in (1, 2):
                await wait_all_tasks_blocked()
                assert found == []
                await session.patch_state(cwd={"working": {"n": number}})
            await wait_all_tasks_blocked()
            assert found == ["done"]
            assert await value(session, "cwd.lazy") is None


async def test_a_transaction_that_was_told_to_retry_says_so_at_each_further_use(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(27)) as (_, session):
        ends: list[str] = []

        async def function(tx: Transaction) -> str:
            if number_of(tx) == 1:
                return "done"
            with suppress(Retry):
                await tx.retry()
            for use in (lambda: tx.read("cwd.working"), lambda: tx.patch(cwd={"lazy": {"x": 1}})):
                try:
                    use()
                except Retry:
                    ends.append("retry")
            with suppress(Retry):
                await tx.retry()
            return "went on"

        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await trio.sleep(1)
                await session.patch_state(cwd={"working": {"n": 1}})

            nursery.start_soon(later)
            assert await session.transact(function) == "done"
        assert ends == ["retry", "retry"]


async def test_retry_ends_a_function_also_from_inside_its_own_nursery(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(16)) as (_, session):
        ended: list[str] = []

        async def function(tx: Transaction) -> int:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other_work)
                async with trio.open_nursery() as inner:
                    for _ in range(2):
                        inner.start_soon(look, tx)
            return number_of(tx)

        async def look(tx: Transaction) -> None:
            await trio.lowlevel.checkpoint()
            if number_of(tx) < 1:
                await tx.retry()

        async def other_work() -> None:
            try:
                await trio.sleep(10)
            finally:
                ended.append("ended")

        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await trio.sleep(30)
                await session.patch_state(cwd={"working": {"n": 1}})

            nursery.start_soon(later)
            assert await session.transact(function) == 1
        assert len(ended) == 2


async def test_errors_beside_a_retry_are_raised(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(17)) as (_, session):

        async def function(tx: Transaction) -> None:
            number_of(tx)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails)
                await tx.retry()

        async def fails() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("beside")

        with pytest.raises(ExceptionGroup) as caught:
            await session.transact(function)
        assert [type(error) for error in caught.value.exceptions] == [KeyError]


async def test_an_error_in_place_of_a_retry_is_raised_and_nothing_is_stored(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(18)) as (_, session):

        async def function(tx: Transaction) -> None:
            increment(tx)
            try:
                await tx.retry()
            finally:
                raise KeyError("instead")

        with pytest.raises(KeyError):
            await session.transact(function)
        assert await value(session, "cwd.working") is None


async def test_a_retry_of_an_outer_transaction_passes_through_an_inner_one(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(19)) as (_, session), trio.open_nursery() as nursery:
        inner_runs: list[int] = []
        went_on: list[int] = []

        async def outer(tx: Transaction) -> int:
            async def inner(_: Transaction) -> None:
                inner_runs.append(number_of(tx))
                if inner_runs[-1] < 1:
                    await tx.retry()

            await session.transact(inner)
            went_on.append(inner_runs[-1])
            return inner_runs[-1]

        async def later() -> None:
            await trio.sleep(5)
            await session.patch_state(cwd={"working": {"n": 1}})

        nursery.start_soon(later)
        assert await session.transact(outer) == 1
        assert inner_runs == [0, 1]
        assert went_on == [1]


async def test_functions_that_are_not_async_retry_too(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(28)) as (_, session), trio.open_nursery() as nursery:

        def function(tx: Transaction) -> int:
            number = number_of(tx)
            tx.patch(cwd={"lazy": {"x": number}})
            if number < 2:
                tx.retry()
            return number

        async def later() -> None:
            for number in (1, 2):
                await wait_all_tasks_blocked()
                assert await value(session, "cwd.lazy") is None
                await session.patch_state(cwd={"working": {"n": number}})

        nursery.start_soon(later)
        assert await session.transact(function) == 2
        assert await value(session, "cwd.lazy") == {"x": 2}


async def test_a_retry_that_has_read_nothing_would_wait_for_ever_and_is_refused(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(20)) as (_, session):

        async def function(tx: Transaction) -> None:
            tx.patch(cwd={"working": {"n": 1}})
            await tx.retry()

        with refused("E_SHAPE"):
            await session.transact(function)


@pytest.mark.parametrize("what", ["session", "runtime"])
async def test_a_wait_for_a_change_ends_with_the_session_and_the_runtime(autojump_clock: MockClock, what: str) -> None:
    async with session_in(SimulatedMachine(21)) as (runtime, session), trio.open_nursery() as nursery:
        ended: list[str] = []

        async def waits() -> None:
            try:
                await session.transact(take)
            except (StoreError, CallError) as error:
                ended.append(error.code)

        nursery.start_soon(waits)
        await wait_all_tasks_blocked()
        await (session if what == "session" else runtime).aclose()
        await wait_all_tasks_blocked()
        assert ended == ["E_CLOSED"]


@pytest.mark.parametrize("code", ["E_OFF", "E_CHANGED"])
async def test_a_wait_for_a_change_ends_when_the_session_is_switched_off_or_fenced(
    autojump_clock: MockClock, code: str
) -> None:
    machine = SimulatedMachine(22)
    async with session_in(machine) as (_, session), session_in(machine, "second") as (_, twin):
        ended: list[str] = []

        async def waits() -> None:
            try:
                await session.transact(take)
            except (StoreError, CallError) as error:
                ended.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits)
            await wait_all_tasks_blocked()
            await (session.set_mode("off") if code == "E_OFF" else twin.patch_state(session={"lazy": {"x": 1}}))
        assert ended == [code]


# -- or else -----------------------------------------------------------------------------------------------------------


async def test_the_second_function_runs_when_the_first_one_retries(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(23)) as (_, session):

        async def first(tx: Transaction) -> str:
            tx.patch(cwd={"lazy": {"first": True}})
            if number_of(tx) == 0:
                await tx.retry()
            return "first"

        def second(tx: Transaction) -> str:
            with suppress(ReadError):
                tx.read("cwd.lazy.first")
                pytest.fail("what the first one did is undone")
            tx.patch(cwd={"lazy": {"second": True}})
            return "second"

        assert await session.transact(first, or_else=second) == "second"
        assert await value(session, "cwd.lazy") == {"second": True}
        await session.patch_state(cwd={"working": {"n": 1}})
        assert await session.transact(first, or_else=second) == "first"
        assert await value(session, "cwd.lazy") == {"first": True, "second": True}


async def test_what_made_the_first_function_retry_must_still_be_so_at_the_end(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(24)) as (_, session):
        order: list[str] = []

        async def first(tx: Transaction) -> str:
            order.append("first")
            if number_of(tx) == 0:
                await tx.retry()
            return "first"

        async def second(tx: Transaction) -> str:
            order.append("second")
            await session.patch_state(cwd={"working": {"n": 1}})
            tx.patch(cwd={"lazy": {"second": True}})
            return "second"

        assert await session.transact(first, or_else=second) == "first"
        assert order == ["first", "second", "first"]
        assert await value(session, "cwd.lazy") is None


@pytest.mark.parametrize("changed", ["n", "m"])
async def test_when_both_retry_a_change_of_what_either_has_read_wakes(autojump_clock: MockClock, changed: str) -> None:
    async with session_in(SimulatedMachine(25)) as (_, session), trio.open_nursery() as nursery:

        async def waits_for(tx: Transaction, name: str) -> str:
            if number_of(tx, f"cwd.working.{name}") == 0:
                await tx.retry()
            return name

        async def later() -> None:
            await trio.sleep(5)
            await session.patch_state(cwd={"working": {changed: 1}})

        nursery.start_soon(later)
        found = await session.transact(lambda tx: waits_for(tx, "n"), or_else=lambda tx: waits_for(tx, "m"))
        assert found == changed


async def test_conflicts_are_counted_anew_after_a_wait(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine(26)) as (_, session), trio.open_nursery() as nursery:
        runs: list[int] = []

        async def function(tx: Transaction) -> int:
            runs.append(number_of(tx))
            if len(runs) in (1, 3):  # a conflict
                await session.patch_state(cwd={"working": {"n": runs[-1] + 1}})
            elif len(runs) == 2:
                nursery.start_soon(later)
                await tx.retry()
            return len(runs)

        async def later() -> None:
            await trio.sleep(1)
            await session.patch_state(cwd={"working": {"n": 50}})

        assert await session.transact(function, attempts=2) == 4
        assert runs == [0, 1, 50, 51]
