"""What comes out of a supervisor when things fail: nothing lost, nothing wrapped without need. Time is virtual."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from kit.callers import Caller
from kit.scripted import World, never
from strataflow.actors.actor import ActorRef
from strataflow.actors.mailbox import Mailbox
from strataflow.actors.supervision import Budget, ChildSpec, RestartPolicy
from strataflow.actors.supervisor import Supervisor, open_supervisor
from strataflow.store import RuntimeFailed


@pytest.fixture
def world() -> World:
    return World()


# ---- what comes out --------------------------------------------------------------------------------------------------


async def fail_with(error: Exception) -> None:
    await trio.lowlevel.checkpoint()
    raise error


async def test_an_error_of_the_body_comes_out_alone_after_an_orderly_stop(
    world: World, autojump_clock: MockClock
) -> None:
    error = KeyError("body")

    async def run() -> None:
        async with open_supervisor() as supervisor:
            await supervisor.start(world.spec("a", last_words=partial(trio.sleep, 1)))
            raise error

    with pytest.raises(KeyError) as info:
        await run()
    assert info.value is error
    assert world.log == ["+a", "-a"]


async def test_a_failure_while_stopping_comes_out_and_hinders_nobody(world: World, autojump_clock: MockClock) -> None:
    async def run() -> None:
        async with open_supervisor() as supervisor:
            await supervisor.start(world.spec("a", last_words=partial(trio.sleep, 1)))
            await supervisor.start(world.spec("b", last_words=lambda: fail_with(OSError("last words"))))

    with pytest.raises(OSError, match="last words"):
        await run()
    assert world.log == ["+a", "+b", "-b", "-a"]


async def test_several_failures_come_out_as_a_group(world: World, autojump_clock: MockClock) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(KeyError), pytest.RaisesGroup(OSError, ValueError)):
        async with open_supervisor() as supervisor:
            await supervisor.start(world.spec("a", last_words=lambda: fail_with(ValueError("a"))))
            await supervisor.start(world.spec("b", last_words=lambda: fail_with(OSError("b"))))
            raise KeyError("body")


async def test_stopping_one_child_tells_its_failure_once(world: World, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        await supervisor.start(world.spec("a", last_words=lambda: fail_with(OSError("a"))))
        with pytest.raises(OSError, match="a"):
            await supervisor.stop_child("a")


async def test_a_failure_while_being_killed_is_not_lost(world: World, autojump_clock: MockClock) -> None:
    @attrs.define(eq=False)
    class Sore:
        async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(never)
                try:
                    await never()
                finally:
                    raise OSError("sore")

    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="sore")):
        with trio.move_on_after(1):
            async with open_supervisor() as supervisor:
                await supervisor.start(ChildSpec("a", Sore))
                await never()


async def test_a_body_error_survives_a_cancelled_stop(world: World, autojump_clock: MockClock) -> None:
    with pytest.RaisesGroup(KeyError, flatten_subgroups=True):
        with trio.CancelScope() as scope:
            async with open_supervisor() as supervisor:
                await supervisor.start(world.spec("a", shutdown_s=100, last_words=never))
                scope.deadline = trio.current_time() + 1
                raise KeyError("body")


async def test_an_outer_cancel_passes_through_as_one_cancelled(world: World, autojump_clock: MockClock) -> None:
    seen: list[BaseException] = []
    with trio.move_on_after(1) as scope:
        try:
            async with open_supervisor() as supervisor:
                await supervisor.start(world.spec("a"))
                await never()
        except BaseException as error:
            seen.append(error)
            raise
    assert scope.cancelled_caught
    assert [type(error) for error in seen] == [trio.Cancelled]


# ---- a random tree ---------------------------------------------------------------------------------------------------

MESSAGES = ["crash", "return", "sleep", 1, 2, 3]


@given(
    messages=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(MESSAGES), st.floats(0, 2)), max_size=25),
    policies=st.tuples(*[st.sampled_from(["permanent", "transient", "temporary"])] * 3),
    patience_s=st.floats(0, 20),
    order=st.random_module(),
)
@example(  # a child that crashes while it drains
    messages=[(0, "crash", 0.0)] * 3 + [(1, "crash", 0.0), (0, "crash", 0.0), (1, "crash", 0.0)],
    policies=("permanent", "permanent", "permanent"),
    patience_s=1.0,
    order=None,
)
@settings(print_blob=True, deadline=None)
def test_whatever_happens_all_ends_in_order_and_every_ask_is_answered(
    messages: list[tuple[int, object, float]],
    policies: tuple[RestartPolicy, ...],
    patience_s: float,
    order: object,
) -> None:
    world = World()
    callers: list[Caller] = []

    async def body(supervisor: Supervisor, outer: trio.Nursery) -> None:
        refs: list[ActorRef] = []
        for name, policy in zip("abc", policies, strict=True):
            refs.append(await supervisor.start(world.spec(name, policy, Budget(2, 10))))
        for index, message, pause_s in messages:
            callers.append(Caller(refs[index]._mailbox, message))
            outer.start_soon(callers[-1].run)
            await trio.sleep(pause_s)

    async def main() -> None:
        async with trio.open_nursery() as outer:
            with trio.move_on_after(patience_s):
                try:
                    async with open_supervisor() as supervisor:
                        await body(supervisor, outer)
                except* (RuntimeFailed, ZeroDivisionError):
                    # A budget was used up, or a child crashed on what it still had to drain; or both.
                    world.log.append("failed")
            assert supervisor.statistics().children == ()
            # All ends in time: three children, 5 s each, after at most 50 s of messages.
            assert trio.current_time() < 66

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert all(caller.result != "pending" for caller in callers)
    for name in "abc":
        assert world.log.count(f"+{name}") == world.log.count(f"-{name}")
