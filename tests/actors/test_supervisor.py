"""The supervisor: order, restarts, budgets, and what comes out when things fail. Time is virtual."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from kit.callers import Caller, check_sum, start
from kit.scripted import Scripted, World, never
from strataflow.actors.actor import Actor
from strataflow.actors.child import Phase
from strataflow.actors.mailbox import Mailbox
from strataflow.actors.supervision import Budget, ChildSpec, RestartPolicy
from strataflow.actors.supervisor import open_supervisor
from strataflow.store import RuntimeFailed, StoreError


@pytest.fixture
def world() -> World:
    return World()


# ---- order -----------------------------------------------------------------------------------------------------------


async def test_children_stop_in_reverse_order(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        for name in "abc":
            await supervisor.start(world.spec(name))
        assert [child.name for child in supervisor.statistics().children] == ["a", "b", "c"]
    assert world.log == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_stopping_child_drains_what_it_accepted(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with open_supervisor() as supervisor:
        ref = await supervisor.start(world.spec("a"))
        callers = [Caller(ref._mailbox, message) for message in ("nap", 1, 2, 3)]
        await start(nursery, *callers)
        assert ref.statistics().depth == 3
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["nap", 1, 2, 3]


async def test_a_younger_child_can_still_ask_an_older_one_while_it_stops(
    world: World, autojump_clock: MockClock
) -> None:
    answers: list[object] = []
    async with open_supervisor() as supervisor:
        store = await supervisor.start(world.spec("store"))

        async def say_farewell() -> None:
            answers.append(await store.ask("farewell"))

        await supervisor.start(world.spec("session", last_words=say_farewell))
    assert answers == ["farewell"]


async def test_a_child_that_does_not_end_is_cancelled_after_its_time(world: World, autojump_clock: MockClock) -> None:
    began = trio.current_time()
    async with open_supervisor() as supervisor:
        await supervisor.start(world.spec("a", shutdown_s=2, last_words=never))
        await supervisor.start(world.spec("b", shutdown_s=3, last_words=never))
    assert trio.current_time() - began == pytest.approx(5)
    assert world.log == ["+a", "+b", "-b", "-a"]


async def test_a_cancelled_body_kills_in_reverse_order_without_waiting(world: World, autojump_clock: MockClock) -> None:
    """Fails without the shield around each child: they would all be struck in one pass, in no order.

    Each child needs a moment, in a shield of its own, to end; b must not begin to end before c has.
    """
    log = world.log

    @attrs.define(eq=False)
    class Slow:
        name: str

        async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            try:
                await never()
            finally:
                log.append(f"<{self.name}")
                # The moment that this child needs; 0.1 s of virtual time.
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.1)
                log.append(f">{self.name}")

    began = trio.current_time()
    with trio.move_on_after(1) as scope:
        async with open_supervisor() as supervisor:
            for name in "abc":
                await supervisor.start(ChildSpec(name, partial(Slow, name)))
            await never()
    assert scope.cancelled_caught
    assert log == ["<c", ">c", "<b", ">b", "<a", ">a"]
    assert trio.current_time() - began == pytest.approx(1.3)


async def test_a_cancel_during_the_stop_ends_the_waiting(autojump_clock: MockClock) -> None:
    """Fails without the shield in ``close``: only the youngest would be killed.

    The children do not look at their mailboxes, and without a kill they would end by themselves, far too late.
    """
    log: list[str] = []

    @attrs.define(eq=False)
    class Deaf:
        name: str

        async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            try:
                await never()
            finally:
                log.append(self.name)

    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with open_supervisor() as supervisor:
            for name in "abc":
                make = partial(Deaf, name)
                await supervisor.start(ChildSpec(name, make, "temporary", shutdown_s=1000))
            scope.deadline = trio.current_time() + 1
    assert scope.cancelled_caught
    assert trio.current_time() - began == pytest.approx(1)
    assert log == ["c", "b", "a"]


async def test_one_child_can_be_stopped_and_its_name_used_again(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        first = await supervisor.start(world.spec("a"))
        await supervisor.stop_child("a")
        await supervisor.stop_child("a")
        with pytest.raises(StoreError, match="E_CLOSED"):
            await first.ask(1)
        second = await supervisor.start(world.spec("a"))
        assert await second.ask(1) == 1


async def test_a_child_stopped_by_its_reference_is_not_restarted(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        ref = await supervisor.start(world.spec("a"))
        ref.stop()
        await ref.wait_stopped()
        await wait_all_tasks_blocked()
        assert supervisor.statistics().children == ()
    assert world.log == ["+a", "-a"]


async def test_a_stopping_supervisor_starts_nothing(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        await supervisor.stop()
        assert supervisor.statistics().is_stopping
        with pytest.raises(StoreError, match="E_CLOSED"):
            await supervisor.start(world.spec("a"))


async def test_every_wait_of_the_supervisor_is_a_checkpoint(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        with assert_checkpoints():
            await supervisor.start(world.spec("a"))
        for name in ("a", "nobody"):
            with assert_checkpoints():
                await supervisor.stop_child(name)
        for end in (supervisor.stop, supervisor.close):
            with assert_checkpoints():
                await end()
        with assert_checkpoints(), pytest.raises(StoreError):
            await supervisor.start(world.spec("a"))


# ---- starting --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Starter:
    """An actor whose start is the test's."""

    begin: Callable[[], Awaitable[object]]

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        await self.begin()


async def test_a_first_start_that_fails_is_raised_and_not_repeated(autojump_clock: MockClock) -> None:
    starts: list[int] = []

    async def fail() -> None:
        starts.append(1)
        await trio.lowlevel.checkpoint()
        raise OSError("no disk")

    mailbox = Mailbox("a")
    async with open_supervisor() as supervisor:
        with pytest.raises(OSError, match="no disk"):
            await supervisor.start(ChildSpec("a", lambda: Starter(fail)), mailbox=mailbox)
        assert supervisor.statistics().children == ()
    assert starts == [1]
    assert mailbox.is_closed


async def test_a_factory_that_fails_is_a_start_that_fails(autojump_clock: MockClock) -> None:
    def make() -> Actor:
        raise OSError("no memory")

    async with open_supervisor() as supervisor:
        with pytest.raises(OSError, match="no memory"):
            await supervisor.start(ChildSpec("a", make))


async def test_returning_before_the_start_is_a_programming_error(autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(AssertionError, match="before it had started"):
            await supervisor.start(ChildSpec("a", lambda: Starter(trio.lowlevel.checkpoint)))


async def test_a_cancelled_start_leaves_no_child(autojump_clock: MockClock) -> None:
    """Fails without the shield in ``start``: the child needs a moment to end, and nobody would wait for it."""
    log: list[str] = []

    async def begin() -> None:
        try:
            await never()
        finally:
            # The moment that this child needs; 0.1 s of virtual time.
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)
            log.append("ended")

    async with open_supervisor() as supervisor:
        with trio.move_on_after(1) as scope:
            await supervisor.start(ChildSpec("a", lambda: Starter(begin)))
        assert scope.cancelled_caught
        assert log == ["ended"]
        assert supervisor.statistics().children == ()


async def test_a_child_stopped_while_it_starts_is_reported_as_closed(autojump_clock: MockClock) -> None:
    mailbox = Mailbox("a")

    async def begin() -> None:
        await trio.sleep(1)
        mailbox.close()

    async with open_supervisor() as supervisor:
        with pytest.raises(StoreError, match="was not started"):
            await supervisor.start(ChildSpec("a", lambda: Starter(begin)), mailbox=mailbox)


# ---- restarts --------------------------------------------------------------------------------------------------------


async def test_a_crash_breaks_one_request_and_the_rest_is_served(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with open_supervisor() as supervisor:
        ref = await supervisor.start(world.spec("a"))
        callers = [Caller(ref._mailbox, message) for message in (1, "crash", 2, "crash", 3)]
        for caller in callers:
            nursery.start_soon(caller.run)
            await trio.lowlevel.checkpoint()
        await trio.sleep(1)
        assert [caller.result for caller in callers] == [1, "E_BROKEN", 2, "E_BROKEN", 3]
        (child,) = supervisor.statistics().children
        assert (child.restarts, child.phase) == (2, Phase.RUNNING)
        check_sum(ref._mailbox)
    assert world.log == ["+a", "-a"] * 3


@pytest.mark.parametrize(
    "restart,message,lives",
    [
        ("permanent", "crash", 2),
        ("permanent", "return", 2),
        ("transient", "crash", 2),
        ("transient", "return", 1),
        ("temporary", "crash", 1),
        ("temporary", "return", 1),
    ],
)
async def test_lives_follow_the_table(
    world: World, restart: RestartPolicy, message: str, lives: int, autojump_clock: MockClock
) -> None:
    async with open_supervisor() as supervisor:
        ref = await supervisor.start(world.spec("a", restart))
        with pytest.raises(StoreError, match="E_BROKEN"):
            await ref.ask(message)
        await trio.sleep(1)
        assert world.log.count("+a") == lives
        assert len(supervisor.statistics().children) == (lives == 2)
        if lives == 1:
            with pytest.raises(StoreError, match="E_CLOSED"):
                await ref.ask(1)


async def test_a_failure_that_is_restarted_after_is_logged(
    world: World, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_supervisor() as supervisor:
            ref = await supervisor.start(world.spec("a", "temporary"))
            ref.tell_nowait("crash")
            await ref.wait_stopped()
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


async def test_restarts_pause_longer_each_time(world: World, autojump_clock: MockClock) -> None:
    times: list[float] = []

    def make() -> Actor:
        times.append(trio.current_time())
        return Scripted("a", world.log)

    async with open_supervisor() as supervisor:
        ref = await supervisor.start(ChildSpec("a", make, budget=Budget(4, 60)))
        for _ in range(4):
            await ref.tell("crash")
        await trio.sleep(3)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == pytest.approx([0, 0.05, 0.1, 0.2])


async def test_a_child_stopped_in_its_pause_does_not_start_again(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        ref = await supervisor.start(world.spec("a"))
        await ref.tell("crash")
        await ref.tell("crash")
        await trio.sleep(0.01)
        (child,) = supervisor.statistics().children
        assert child.phase is Phase.PAUSING
        asker = Caller(ref._mailbox, 1)
        async with trio.open_nursery() as nursery:
            await start(nursery, asker)
            await supervisor.stop_child("a")
    assert asker.result == "E_CLOSED"
    assert world.log == ["+a", "-a"] * 2


async def test_a_used_up_budget_fails_the_body_and_ends_all_in_order(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    callers: list[Caller] = []

    async def run() -> None:
        async with open_supervisor() as supervisor:
            await supervisor.start(world.spec("a"))
            ref = await supervisor.start(world.spec("b", budget=Budget(1, 60)))
            await supervisor.start(world.spec("c"))
            callers.extend(Caller(ref._mailbox, message) for message in ("crash", "crash", "left"))
            for caller in callers:
                ref._mailbox.tell_nowait("nap")
                nursery.start_soon(caller.run)
                await trio.sleep(0.1)
            await never()

    with pytest.raises(RuntimeFailed, match="'b' ended again after 1 restarts within 60 s") as info:
        await run()
    await wait_all_tasks_blocked()
    assert (info.value.code, info.value.data) == ("E_BROKEN", {"actor": "b", "restarts": 1, "within_s": 60})
    assert isinstance(info.value.__cause__, ZeroDivisionError)
    assert info.value.__context__ is None or info.value.__suppress_context__
    assert [caller.result for caller in callers] == ["E_BROKEN", "E_BROKEN", "E_CLOSED"]
    assert world.log == ["+a", "+b", "+c", "-b", "+b", "-b", "-c", "-a"]


async def test_returning_too_often_has_no_cause(world: World, autojump_clock: MockClock) -> None:
    async def run() -> None:
        async with open_supervisor() as supervisor:
            ref = await supervisor.start(world.spec("a", budget=Budget(0, 1)))
            await ref.tell("return")
            await never()

    with pytest.raises(RuntimeFailed) as info:
        await run()
    assert info.value.__cause__ is None


async def test_a_later_start_that_fails_is_judged_like_a_crash(world: World, autojump_clock: MockClock) -> None:
    """A second life that dies before it has started is judged, not raised: nobody waits for that start."""
    lives = itertools.count()

    def make() -> Actor:
        if next(lives) == 1:
            raise OSError("not yet")
        return Scripted("a", world.log)

    async with open_supervisor() as supervisor:
        ref = await supervisor.start(ChildSpec("a", make))
        await ref.tell("crash")
        assert await ref.ask(5) == 5
        assert supervisor.statistics().children[0].restarts == 2
