"""The courtesy queue: who waits for whom, for how long at most, and that nothing rests on it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.holds import holds
from kit.runtimes import value
from kit.simulated_runtimes import GatedThreads, session_in, simulated
from kit.transacting import increment, interfering
from strataflow import Runtime, Session, Transaction
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.transactions_queue import COURTESY_S, COURTESY_S_MAX, HOT_S, QUEUE_PATIENCE_S, CourtesyQueue


def queue_of(runtime: Runtime) -> CourtesyQueue:
    return runtime.desk.queue


def lock_path(runtime: Runtime) -> str:
    return runtime._world.ground.layout.private("queue.lock")


async def heat(session: Session) -> None:
    """Let a transaction of this session meet a conflict, so that the next ones queue up."""
    function, _ = interfering(session, 1)
    await session.transact(function)


async def test_only_sessions_that_have_met_a_conflict_lately_queue_up(autojump_clock: MockClock) -> None:
    async with simulated(SimulatedMachine(1)) as runtime:
        mine = await runtime.open_session("/project", "mine", "active")
        other = await runtime.open_session("/project", "other", "active")
        queue = queue_of(runtime)
        await heat(mine)
        assert queue.is_hot(mine._cell)
        assert not queue.is_hot(other._cell)
        async with queue.turn(0):
            with trio.fail_after(0.01):
                await other.transact(increment)
                await mine.patch_state(cwd={"working": {"n": 1}})
            with trio.move_on_after(1) as scope:
                await mine.transact(increment)
            assert scope.cancelled_caught
        await trio.sleep(HOT_S)
        assert not queue.is_hot(mine._cell)


async def test_turns_of_one_process_are_given_in_the_order_of_asking(autojump_clock: MockClock) -> None:
    async with simulated(SimulatedMachine(2)) as runtime, trio.open_nursery() as nursery:
        queue, order = queue_of(runtime), list[int]()

        async def one(number: int) -> None:
            async with queue.turn(0):
                order.append(number)
                await trio.sleep(0.01)

        for number in range(5):
            nursery.start_soon(one, number)
            await wait_all_tasks_blocked()
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("conflicts, length_s", [(0, COURTESY_S), (2, 4 * COURTESY_S), (60, COURTESY_S_MAX)])
async def test_a_turn_ends_when_its_function_awaits_for_too_long(
    autojump_clock: MockClock, conflicts: int, length_s: float
) -> None:
    machine = SimulatedMachine(3)
    async with simulated(machine) as runtime:
        queue = queue_of(runtime)
        async with queue.turn(conflicts) as turn:
            started = trio.current_time()

            async def next_one() -> float:
                async with queue.turn(0):
                    return trio.current_time() - started

            waited: list[float] = []

            async def wait() -> None:
                waited.append(await next_one())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                assert await turn.awaited(slept(10 * length_s)) == "slept"
            assert waited == [pytest.approx(length_s, abs=0.01)]
            assert machine.locks.holder(lock_path(runtime)) is None


async def slept(seconds: float) -> str:
    await trio.sleep(seconds)
    return "slept"


async def fails(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


async def test_a_function_in_turn_ends_as_it_would_anywhere_else(autojump_clock: MockClock) -> None:
    async with simulated(SimulatedMachine(4)) as runtime, queue_of(runtime).turn(0) as turn:
        error = KeyError("its own")
        with pytest.raises(KeyError) as caught:
            await turn.awaited(fails(error))
        assert caught.value is error
        with trio.move_on_after(1) as scope:
            await turn.awaited(slept(100))
        assert scope.cancelled_caught
        scope = trio.CancelScope()
        scope.cancel()

        async def fails_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise error  # more than the cancellation, and not to be lost in it

        with pytest.raises(KeyError):
            with scope:
                await turn.awaited(fails_when_cancelled())


async def test_a_slow_function_gets_its_turn_among_many_quick_ones(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(5)
    runs = 0

    async def slow(tx: Transaction) -> int:
        nonlocal runs
        runs += 1
        await trio.sleep(0.3)
        return increment(tx)

    async def slow_from_the_start(tx: Transaction) -> int:
        found = tx.read("cwd.working.n").value
        await slow(tx)
        return int(found)

    async with session_in(machine, "slow", "slow") as (_, session), trio.open_nursery() as nursery:
        await session.patch_state(cwd={"working": {"n": 0}})
        for number in range(4):
            nursery.start_soon(quick, machine, f"quick{number}")
        with trio.fail_after(60):
            await session.transact(slow_from_the_start)
        assert runs <= 8
        nursery.cancel_scope.cancel()


async def quick(machine: SimulatedMachine, name: str) -> None:
    async with session_in(machine, name, name) as (_, session):
        while True:
            await session.transact(increment)
            await trio.sleep(0.005)


async def test_a_stopped_process_in_turn_costs_one_patience_and_no_more(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(6)
    async with session_in(machine) as (runtime, session):
        stopped = machine.locks.of("stopped").open(lock_path(runtime))
        assert stopped.try_acquire()
        with trio.fail_after(0.01):  # who meets no conflict never looks at the queue
            await session.transact(increment)
            await session.patch_state(cwd={"working": {"n": 5}})
        started = trio.current_time()
        await heat(session)
        assert trio.current_time() - started == pytest.approx(QUEUE_PATIENCE_S, abs=0.05)
        started = trio.current_time()
        for _ in range(20):
            await heat(session)
        assert trio.current_time() - started < 0.1
        stopped.release()
        async with queue_of(runtime).turn(0):
            assert machine.locks.holder(lock_path(runtime)) == "first"
        stopped.close()


async def test_waits_that_are_cancelled_leave_one_thread_behind_and_not_many(autojump_clock: MockClock) -> None:
    threads = GatedThreads()
    machine = SimulatedMachine(12)
    async with session_in(machine, threads=threads) as (runtime, session):
        await heat(session)
        stopped = machine.locks.of("stopped").open(lock_path(runtime))
        assert stopped.try_acquire()
        before = threads.calls["wait_lock"]
        for _ in range(20):
            with trio.move_on_after(0.02):
                await session.transact(increment)
            await heat(session)
        assert threads.calls["wait_lock"] == before + 1
        stopped.close()


async def test_whoever_has_waited_for_a_turn_begins_with_what_came_meanwhile(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(13)
    async with session_in(machine) as (runtime, mine), session_in(machine, "second", "other") as (_, other):
        rival = machine.locks.of("rival").open(lock_path(runtime))
        assert rival.try_acquire()
        function, saw = interfering(mine, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mine.transact, function)
            await trio.sleep(0.05)  # it has met its conflict and waits
            await other.patch_state(cwd={"working": {"n": 70}})
            rival.release()
        assert saw == [0, 70]
        rival.close()


async def test_a_killed_process_leaves_the_queue_at_once(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(7)
    async with session_in(machine) as (runtime, session):
        machine.table.start("doomed")
        assert machine.locks.of("doomed").open(lock_path(runtime)).try_acquire()
        async with trio.open_nursery() as nursery:

            async def kill() -> None:
                await trio.sleep(0.2)
                machine.locks.kill("doomed")

            nursery.start_soon(kill)
            started = trio.current_time()
            await heat(session)
            assert trio.current_time() - started < 0.3


@pytest.mark.parametrize("trouble", ["replaced", "closed"])
async def test_trouble_with_the_lock_of_the_queue_is_no_reason_to_fail(autojump_clock: MockClock, trouble: str) -> None:
    machine = SimulatedMachine(8)
    async with session_in(machine) as (runtime, session):
        rival = machine.locks.of("rival").open(lock_path(runtime))
        assert rival.try_acquire()
        if trouble == "closed":
            runtime._world.queue_lock.close()
        else:
            machine.disk.unlink(lock_path(runtime))
            machine.disk.write_new(lock_path(runtime), b"")
        with trio.fail_after(QUEUE_PATIENCE_S + 0.5):
            for _ in range(3):
                await heat(session)
        rival.close()


async def test_no_turn_outlives_the_cancellation_of_its_attempt(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(9)
    async with session_in(machine) as (runtime, session):
        await heat(session)
        for delay_s in (0.0, 0.000_5, 0.001, 0.01):
            with trio.move_on_after(delay_s):
                await session.transact(lambda tx: slept(100))
            assert machine.locks.holder(lock_path(runtime)) is None
            with trio.fail_after(0.2):
                await heat(session)


@holds("J8")
async def test_the_lock_of_the_queue_is_closed_when_a_process_leaves(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(10)
    async with session_in(machine) as (runtime, _):
        lock: Any = runtime._world.queue_lock
        assert lock.is_open
    assert not lock.is_open


async def test_a_new_life_of_the_store_opens_the_lock_of_the_queue_anew(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(11)
    async with session_in(machine) as (runtime, session):
        world = runtime._world
        before: Any = world.queue_lock
        async with queue_of(runtime).turn(0):
            await world.reconnect()  # a turn that is under way ends as if nothing had happened
        assert world.queue_lock is not before
        assert not before.is_open
        await heat(session)
        await session.transact(increment)
        assert await value(session, "cwd.working.n") == 12


async def test_the_courtesy_is_shorter_than_anybody_waits_for_it() -> None:
    assert COURTESY_S <= COURTESY_S_MAX < QUEUE_PATIENCE_S
    await trio.lowlevel.checkpoint()
