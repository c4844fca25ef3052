"""References, the handler loop, and the promise that nobody waits for an actor that is gone."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, assert_type

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from kit.callers import Caller, check_sum, start
from strataflow.actors._trio_util import AsyncValue, RepeatedEvent
from strataflow.actors.actor import ActorRef, Request, run_actor, run_life, serve
from strataflow.actors.mailbox import Mailbox
from strataflow.store import CallError, StoreError, StrataflowError


@attrs.frozen
class Double(Request[int]):
    """Asks for twice ``number``."""

    number: int


@attrs.define(eq=False)
class Served:
    """An actor that is nothing but a handler."""

    handle: Callable[[Any], Awaitable[Any]]

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await serve(mailbox, self.handle)


async def double(message: Double) -> int:
    return message.number * 2


async def stick(message: object) -> None:
    await trio.sleep_forever()


async def crash(message: object) -> None:
    raise ZeroDivisionError


async def test_an_actor_answers_until_it_is_stopped(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("doubler")
    ref = ActorRef(mailbox)
    await nursery.start(run_actor, Served(double), mailbox)
    answer = await ref.ask(Double(21))
    assert_type(answer, int)
    assert answer == 42
    assert ref.name == "doubler"
    ref.stop()
    await ref.wait_stopped()
    with pytest.raises(StoreError, match="E_CLOSED"):
        await ref.ask(Double(1))


async def test_a_stopping_actor_serves_a_full_mailbox(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("doubler", capacity=8)
    callers = [Caller(mailbox, Double(number)) for number in range(12)]
    await start(nursery, *callers)
    ActorRef(mailbox).stop()
    await run_actor(Served(double), mailbox)
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == [0, 2, 4, 6, 8, 10, 12, 14] + ["E_CLOSED"] * 4
    check_sum(mailbox)


async def test_a_killed_actor_with_a_full_mailbox_answers_all(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("stuck", capacity=8)
    callers = [Caller(mailbox, number) for number in range(12)]
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as inner:
            await inner.start(run_actor, Served(stick), mailbox)
            await start(nursery, *callers)
            assert mailbox.statistics().waiting == 3
            scope.cancel()
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["E_BROKEN"] + ["E_CLOSED"] * 11
    check_sum(mailbox)


async def test_a_crashed_actor_answers_all_and_raises(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("crash", capacity=2)
    callers = [Caller(mailbox, number) for number in range(4)]
    await start(nursery, *callers)
    with pytest.raises(ZeroDivisionError):
        await run_actor(Served(crash), mailbox)
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["E_BROKEN", "E_CLOSED", "E_CLOSED", "E_CLOSED"]


async def test_the_error_after_a_crash_says_that_the_outcome_is_unknown(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("crash")

    async def run() -> None:
        with pytest.raises(ZeroDivisionError):
            await run_actor(Served(crash), mailbox)

    nursery.start_soon(run)
    with pytest.raises(StoreError, match="outcome is unknown") as info:
        await mailbox.ask(1)
    assert (info.value.code, info.value.data) == ("E_BROKEN", {"actor": "crash"})


async def test_a_life_that_crashes_leaves_its_mailbox_to_the_next(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("twice")
    callers = [Caller(mailbox, Double(number)) for number in range(3)]
    await start(nursery, *callers)
    with pytest.raises(ZeroDivisionError):
        await run_life(Served(crash), mailbox, trio.TASK_STATUS_IGNORED)
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["E_BROKEN", "pending", "pending"]
    nursery.start_soon(run_life, Served(double), mailbox, trio.TASK_STATUS_IGNORED)
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["E_BROKEN", 2, 4]
    mailbox.close()


async def test_an_expected_error_is_an_answer_and_the_actor_lives_on(nursery: trio.Nursery) -> None:
    async def refuse_odd(number: int) -> int:
        if number % 2:
            raise CallError("E_INDEX", "odd", number=number)
        return number

    mailbox = Mailbox("even")
    ref = ActorRef(mailbox)
    await nursery.start(run_actor, Served(refuse_odd), mailbox)
    with pytest.raises(CallError) as info:
        await ref.ask(3)
    assert info.value.data == {"number": 3}
    assert await ref.ask(4) == 4
    ref.stop()


async def test_an_error_that_nobody_would_hear_ends_the_actor() -> None:
    async def refuse(message: object) -> None:
        raise CallError("E_INDEX", "no")

    mailbox = Mailbox("deaf")
    ActorRef(mailbox).tell_nowait("news")
    with pytest.raises(CallError):
        await run_actor(Served(refuse), mailbox)


async def test_the_handler_never_sees_who_left_in_time(nursery: trio.Nursery) -> None:
    seen: list[int] = []

    async def handle(number: int) -> None:
        seen.append(number)

    mailbox = Mailbox("m")
    callers = [Caller(mailbox, number) for number in range(3)]
    await start(nursery, *callers)
    nursery.start_soon(run_actor, Served(handle), mailbox)
    callers[1].scope.cancel()  # in the pass in which the handler begins
    mailbox.close()
    await wait_all_tasks_blocked()
    assert seen in ([0, 2], [0, 1, 2])
    assert [caller.result for caller in callers] == [None, "cancelled", None]


async def test_a_cancelled_asker_does_not_disturb_the_handler(autojump_clock: MockClock) -> None:
    finished: list[int] = []

    async def slow(number: int) -> int:
        await trio.sleep(2)
        finished.append(number)
        return number

    mailbox = Mailbox("slow")
    ref = ActorRef(mailbox)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, Served(slow), mailbox)
        started = trio.current_time()
        with trio.move_on_after(1) as scope:
            await ref.ask(7)
        assert scope.cancelled_caught
        assert trio.current_time() - started == 1
        assert await ref.ask(8) == 8
        ref.stop()
    assert finished == [7, 8]


async def test_every_wait_of_a_reference_is_a_checkpoint(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("doubler")
    ref = ActorRef(mailbox)
    await nursery.start(run_actor, Served(double), mailbox)
    with assert_checkpoints():
        await ref.ask(Double(1))
    with assert_checkpoints():
        await ref.tell(Double(1))
    ref.stop()
    with assert_checkpoints():
        await ref.wait_stopped()
    assert ref.statistics().handled == 2
    with assert_checkpoints():
        await serve(mailbox, double)
    with assert_checkpoints():
        await run_actor(Served(double), mailbox)


async def test_the_parts_of_trio_util_that_we_use_work(nursery: trio.Nursery) -> None:
    value, event = AsyncValue(1), RepeatedEvent()
    seen: list[object] = []

    async def watch() -> None:
        seen.append(await value.wait_value(lambda number: number >= 3))
        await event.wait()
        seen.append("event")

    nursery.start_soon(watch)
    await wait_all_tasks_blocked()
    value.value = 2
    await wait_all_tasks_blocked()
    assert seen == []
    value.value = 3
    await wait_all_tasks_blocked()
    event.set()
    await wait_all_tasks_blocked()
    assert seen == [3, "event"]


# ---- many callers, crashes and cancellations ---------------------------------------------------------------------


@attrs.define(eq=False)
class Unruly:
    """Handles (sender, number), answers each in one of the ways that an actor may, and crashes now and then."""

    chance: random.Random
    begun: list[tuple[int, int]]

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            while (envelope := await mailbox.receive()) is not None:
                for each in [envelope, *mailbox.receive_batch_nowait(self.chance.randint(0, 3))]:
                    if self.chance.random() < 0.2:
                        await trio.sleep(self.chance.random())
                    if not each.take():
                        continue
                    assert each.message not in self.begun
                    self.begun.append(each.message)
                    what = self.chance.random()
                    if what < 0.5:
                        each.reply(each.message)
                    elif what < 0.6:
                        each.fail(CallError("E_OFF", "no"))
                    elif what < 0.8:
                        nursery.start_soon(self.reply_late, each)
                    elif what < 0.9:
                        raise ZeroDivisionError

    async def reply_late(self, envelope: Any) -> None:
        await trio.sleep(self.chance.random())
        envelope.reply(envelope.message)


@given(seed=st.integers(0, 2**32), capacity=st.integers(1, 5), order=st.random_module())
@settings(print_blob=True, deadline=None)
def test_every_ask_ends_whatever_the_actor_does(seed: int, capacity: int, order: object) -> None:
    """Five senders ask in turn with random patience, the actor is restarted after each crash, then killed.

    Counted: every ask has one end, nothing is begun twice, and each sender's messages are begun in their order.
    """
    chance = random.Random(seed)
    mailbox = Mailbox("unruly", capacity)
    begun: list[tuple[int, int]] = []
    ends: list[str] = []

    async def send(sender: int) -> None:
        for number in range(10):
            with trio.move_on_after(chance.choice([0, 0.3, 1, 100])) as scope:
                try:
                    reply = await mailbox.ask((sender, number))
                    assert reply == (sender, number)
                    ends.append("reply")
                except StrataflowError as error:
                    ends.append(error.code)
            if scope.cancelled_caught:
                ends.append("cancelled")

    async def keep() -> None:
        with trio.move_on_after(20):
            while True:
                try:
                    await run_life(Unruly(chance, begun), mailbox, trio.TASK_STATUS_IGNORED)
                except* ZeroDivisionError:
                    await trio.lowlevel.checkpoint()
        mailbox.finish()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep)
            for sender in range(5):
                nursery.start_soon(send, sender)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert len(ends) == 50
    check_sum(mailbox)
    assert mailbox.statistics().depth == 0
    for sender in range(5):
        numbers = [number for who, number in begun if who == sender]
        assert numbers == sorted(set(numbers))
