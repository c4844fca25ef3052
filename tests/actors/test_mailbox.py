"""The mailbox: order, room, withdrawal, answers, and its end."""

from __future__ import annotations

import gc
import traceback
import weakref

import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from kit.callers import Caller, check_sum, start
from strataflow.actors.envelope import Envelope, State
from strataflow.actors.mailbox import Mailbox
from strataflow.store import CallError, StoreError


async def taken(mailbox: Mailbox) -> Envelope:
    envelope = await mailbox.receive()
    assert envelope is not None
    assert envelope.take()
    return envelope


# ---- asks and tells --------------------------------------------------------------------------------------------------


async def test_an_ask_returns_what_was_replied(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    caller = Caller(mailbox, "question")
    await start(nursery, caller)
    envelope = await taken(mailbox)
    assert (envelope.message, envelope.is_ask) == ("question", True)
    envelope.reply("answer")
    await wait_all_tasks_blocked()
    assert caller.result == "answer"
    check_sum(mailbox)


async def test_a_reply_may_come_later_and_from_another_task(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    first, second = Caller(mailbox, 1), Caller(mailbox, 2)
    await start(nursery, first, second)
    envelopes = [await taken(mailbox), await taken(mailbox)]
    for envelope in reversed(envelopes):

        async def answer(envelope: Envelope = envelope) -> None:
            envelope.reply(envelope.message * 10)

        nursery.start_soon(answer)
    await wait_all_tasks_blocked()
    assert (first.result, second.result) == (10, 20)


async def test_an_envelope_may_be_answered_without_being_taken(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=1)
    caller, next_caller = Caller(mailbox, 1), Caller(mailbox, 2)
    await start(nursery, caller, next_caller)
    envelope = await mailbox.receive()
    assert envelope is not None
    assert mailbox.statistics().waiting == 1
    envelope.fail(CallError("E_OFF", "no"))
    assert mailbox.statistics().waiting == 0
    await wait_all_tasks_blocked()
    assert caller.result == "E_OFF"
    check_sum(mailbox)
    mailbox.finish()


async def test_a_second_answer_is_a_programming_error(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    await start(nursery, Caller(mailbox, 1))
    envelope = await taken(mailbox)
    envelope.reply(1)
    with pytest.raises(AssertionError, match="answered"):
        envelope.reply(2)
    with pytest.raises(AssertionError, match="answered"):
        envelope.fail(CallError("E_OFF", "no"))
    with pytest.raises(AssertionError, match="answered"):
        envelope.take()


async def test_answering_a_tell_is_silent_once() -> None:
    mailbox = Mailbox("m")
    mailbox.tell_nowait("news")
    mailbox.tell_nowait("more")
    first, second = await taken(mailbox), await mailbox.receive()
    assert second is not None
    assert not first.is_ask
    first.reply()
    second.reply()
    with pytest.raises(AssertionError, match="answered"):
        first.reply()
    assert mailbox.statistics().handled == 2
    check_sum(mailbox)


async def test_one_error_fails_many_askers_without_growing(nursery: trio.Nursery) -> None:
    """Every asker raises a copy of its own; the shared instance keeps the traceback that it came with."""
    mailbox = Mailbox("m")
    caught: list[CallError] = []

    async def ask() -> None:
        with pytest.raises(CallError) as info:
            await mailbox.ask(None)
        caught.append(info.value)

    for _ in range(3):
        nursery.start_soon(ask)
    await wait_all_tasks_blocked()
    try:
        raise CallError("E_INDEX", "no such index", index=3) from KeyError("cause")
    except CallError as error:
        shared = error
    shared.add_note("note")
    depth = len(traceback.extract_tb(shared.__traceback__))
    for _ in range(3):
        (await taken(mailbox)).fail(shared)
    await wait_all_tasks_blocked()
    assert len({id(error) for error in [shared, *caught]}) == 4
    assert len(traceback.extract_tb(shared.__traceback__)) == depth
    for twin in caught:
        assert (twin.code, twin.message, twin.data) == ("E_INDEX", "no such index", {"index": 3})
        assert isinstance(twin.__cause__, KeyError)
        assert twin.__notes__ == ["note"]
        # The story of the handler is still told, below that of the asker.
        assert traceback.extract_tb(twin.__traceback__)[-1] == traceback.extract_tb(shared.__traceback__)[-1]
    depths = {len(traceback.extract_tb(twin.__traceback__)) for twin in caught}
    assert len(depths) == 1


@pytest.mark.parametrize("suppressed", [True, False])
async def test_a_copied_error_keeps_its_context(suppressed: bool, nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    error = CallError("E_OFF", "no")
    error.__context__ = KeyError("context")
    error.__suppress_context__ = suppressed

    async def answer() -> None:
        (await taken(mailbox)).fail(error)

    nursery.start_soon(answer)
    with pytest.raises(CallError) as info:
        await mailbox.ask(None)
    assert info.value.__context__ is error.__context__
    assert info.value.__suppress_context__ is suppressed
    assert info.value.__cause__ is None


async def test_a_failed_ask_leaves_no_reference_cycle(nursery: trio.Nursery) -> None:
    """A cycle would keep every error, its traceback and all that its frames hold until the collector comes by."""
    mailbox = Mailbox("m")
    deaths: list[object] = []

    async def ask() -> None:
        try:
            await mailbox.ask(None)
        except CallError as error:
            weakref.finalize(error, deaths.append, "dead")

    nursery.start_soon(ask)
    await wait_all_tasks_blocked()
    gc.disable()
    try:
        (await taken(mailbox)).fail(CallError("E_OFF", "no"))
        await wait_all_tasks_blocked()
        assert deaths == ["dead"]
    finally:
        gc.enable()


async def test_messages_of_one_sender_keep_their_order(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=2)

    async def send_all() -> None:
        for number in range(20):
            await mailbox.tell(number)

    nursery.start_soon(send_all)
    assert [(await taken(mailbox)).message for _ in range(20)] == list(range(20))


async def test_a_batch_takes_what_waits_up_to_its_limit() -> None:
    mailbox = Mailbox("m")
    assert mailbox.receive_batch_nowait() == []
    for number in range(300):
        mailbox.tell_nowait(number)
    assert [envelope.message for envelope in mailbox.receive_batch_nowait()] == list(range(256))
    assert [envelope.message for envelope in mailbox.receive_batch_nowait(3)] == [256, 257, 258]
    assert len(mailbox.receive_batch_nowait(1000)) == 41


# ---- room ------------------------------------------------------------------------------------------------------------


async def test_a_full_mailbox_refuses_to_tell_without_waiting() -> None:
    mailbox = Mailbox("m", capacity=2)
    mailbox.tell_nowait(1)
    mailbox.tell_nowait(2)
    with pytest.raises(trio.WouldBlock):
        mailbox.tell_nowait(3)
    assert mailbox.statistics().accepted == 2


async def test_room_goes_to_senders_in_their_order(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=1)
    callers = [Caller(mailbox, number, is_ask=number % 2 == 1) for number in range(6)]
    await start(nursery, *callers)
    assert mailbox.statistics().waiting == 5
    seen = []
    for _ in callers:
        envelope = await taken(mailbox)
        # No sender that comes now may overtake those that wait.
        if mailbox.statistics().waiting:
            with pytest.raises(trio.WouldBlock):
                mailbox.tell_nowait("late")
        seen.append(envelope.message)
        envelope.reply("ok")
        await wait_all_tasks_blocked()
    assert seen == list(range(6))
    assert [caller.result for caller in callers] == [None, "ok", None, "ok", None, "ok"]


async def test_receiving_without_taking_gives_no_room(nursery: trio.Nursery) -> None:
    """What is received may go back when the actor dies, so it counts until it is taken (B1)."""
    mailbox = Mailbox("m", capacity=2)
    mailbox.tell_nowait(1)
    mailbox.tell_nowait(2)
    batch = mailbox.receive_batch_nowait()
    assert mailbox.statistics().depth == 2
    with pytest.raises(trio.WouldBlock):
        mailbox.tell_nowait(3)
    assert batch[0].take()
    mailbox.tell_nowait(3)
    check_sum(mailbox)


# ---- cancellation ----------------------------------------------------------------------------------------------------


async def test_a_cancelled_wait_for_room_sends_nothing(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=1)
    mailbox.tell_nowait("old")
    asker, teller = Caller(mailbox, "ask"), Caller(mailbox, "tell", is_ask=False)
    await start(nursery, asker, teller)
    asker.scope.cancel()
    teller.scope.cancel()
    await wait_all_tasks_blocked()
    assert (asker.result, teller.result) == ("cancelled", "cancelled")
    assert (await taken(mailbox)).message == "old"
    assert mailbox.receive_batch_nowait() == []
    assert mailbox.statistics().accepted == 1


async def test_a_cancelled_ask_leaves_the_queue_and_its_room(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=2)
    callers = [Caller(mailbox, number) for number in range(3)]
    await start(nursery, *callers)
    callers[0].scope.cancel()
    await wait_all_tasks_blocked()
    assert callers[0].result == "cancelled"
    assert mailbox.statistics().waiting == 0
    assert [envelope.message for envelope in mailbox.receive_batch_nowait()] == [1, 2]
    check_sum(mailbox)
    mailbox.finish()


async def test_a_cancelled_ask_is_withdrawn_from_a_received_batch(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    callers = [Caller(mailbox, number) for number in range(2)]
    await start(nursery, *callers)
    first, second = mailbox.receive_batch_nowait()
    callers[0].scope.cancel()
    await wait_all_tasks_blocked()
    assert callers[0].result == "cancelled"
    assert (first.is_withdrawn, second.is_withdrawn) == (True, False)
    assert (first.take(), second.take()) == (False, True)
    first.reply("nobody hears it")
    first.fail(CallError("E_OFF", "nobody hears it"))
    second.reply("heard")
    await wait_all_tasks_blocked()
    assert callers[1].result == "heard"
    check_sum(mailbox)


async def test_a_taken_ask_completes_while_its_asker_leaves_at_once(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    caller = Caller(mailbox, "work")
    await start(nursery, caller)
    envelope = await taken(mailbox)
    caller.scope.cancel()
    await wait_all_tasks_blocked()
    assert caller.result == "cancelled"
    assert not envelope.is_withdrawn
    assert mailbox.statistics().handling == 1
    envelope.reply("done")
    assert mailbox.statistics().handled == 1
    check_sum(mailbox)


async def test_an_ask_under_a_cancelled_scope_sends_nothing() -> None:
    mailbox = Mailbox("m")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.ask("never")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.tell("never")
    assert mailbox.receive_batch_nowait() == []
    check_sum(mailbox)


async def test_a_cancelled_receive_takes_nothing_out(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    with trio.move_on_after(0) as scope:
        await mailbox.receive()
    assert scope.cancelled_caught
    mailbox.tell_nowait("kept")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.receive()
    assert scope.cancelled_caught
    assert (await taken(mailbox)).message == "kept"


async def test_a_receiver_woken_for_nothing_waits_on(nursery: trio.Nursery) -> None:
    """The asker is withdrawn in the very pass in which the receiver was woken."""
    mailbox = Mailbox("m")
    seen = []

    async def receive() -> None:
        envelope = await taken(mailbox)
        seen.append(envelope.message)

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.ask("gone")
    await wait_all_tasks_blocked()
    assert seen == []
    mailbox.tell_nowait("here")
    await wait_all_tasks_blocked()
    assert seen == ["here"]


async def test_many_withdrawals_leave_no_debris(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=4)
    for _ in range(1000):
        with trio.CancelScope() as scope:
            scope.cancel()
            await mailbox.ask("gone")
    assert len(mailbox._queue) == len(mailbox._out) == len(mailbox._waiting) == 0


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_a_closed_mailbox_is_drained_and_then_ends(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=1)
    accepted, waiting, teller = Caller(mailbox, 1), Caller(mailbox, 2), Caller(mailbox, 3, is_ask=False)
    await start(nursery, accepted, waiting, teller)
    mailbox.close()
    await wait_all_tasks_blocked()
    assert (waiting.result, teller.result) == ("E_CLOSED", "E_CLOSED")
    for send in (mailbox.ask, mailbox.tell):
        with pytest.raises(StoreError, match="closed") as info:
            await send(4)
        assert (info.value.code, info.value.data) == ("E_CLOSED", {"actor": "m"})
    with pytest.raises(StoreError, match="E_CLOSED"):
        mailbox.tell_nowait(5)
    (await taken(mailbox)).reply("served")
    assert await mailbox.receive() is None
    assert await mailbox.receive() is None
    await wait_all_tasks_blocked()
    assert accepted.result == "served"
    check_sum(mailbox)


async def test_closing_wakes_the_parked_receiver(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    nursery.start_soon(lambda: _assert_receives_none(mailbox))
    await wait_all_tasks_blocked()
    mailbox.close()
    await wait_all_tasks_blocked()
    assert mailbox._parked is None


async def _assert_receives_none(mailbox: Mailbox) -> None:
    assert await mailbox.receive() is None


async def test_finishing_answers_everything_that_is_left(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=3)
    callers = [Caller(mailbox, number) for number in range(5)]
    await start(nursery, *callers)
    envelope = await taken(mailbox)  # 0 in work; 3 moves up
    await mailbox.receive()  # 1 received, not begun
    mailbox.finish()
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["E_BROKEN", "E_CLOSED", "E_CLOSED", "E_CLOSED", "E_CLOSED"]
    envelope.reply("too late, and silent")
    assert mailbox.statistics().depth == 0
    check_sum(mailbox)
    await mailbox.wait_finished()


async def test_the_next_life_gets_what_was_not_begun_in_order(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    callers = [Caller(mailbox, number) for number in range(5)]
    await start(nursery, *callers)
    first, second, third = mailbox.receive_batch_nowait(3)
    assert second.take()
    mailbox.end_life()
    await wait_all_tasks_blocked()
    assert [caller.result for caller in callers] == ["pending", "E_BROKEN", "pending", "pending", "pending"]
    with pytest.raises(AssertionError, match="queued"):
        first.take()  # a task of the old life has no say any more
    with pytest.raises(AssertionError, match="queued"):
        third.reply()
    assert [envelope.message for envelope in mailbox.receive_batch_nowait()] == [0, 2, 3, 4]
    check_sum(mailbox)
    mailbox.finish()


async def test_an_actor_that_waits_for_itself_is_caught() -> None:
    mailbox = Mailbox("m", capacity=1)
    mailbox.tell_nowait(1)
    await taken(mailbox)
    mailbox.tell_nowait(2)
    with pytest.raises(AssertionError, match="waits for itself"):
        await mailbox.ask(3)
    with pytest.raises(AssertionError, match="waits for itself"):
        await mailbox.tell(3)
    mailbox.end_life()
    with trio.move_on_after(0):
        await mailbox.ask(4)  # no longer the actor's task


async def test_only_one_task_may_receive(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m")
    nursery.start_soon(_assert_receives_none, mailbox)
    await wait_all_tasks_blocked()
    with pytest.raises(AssertionError, match="two tasks receive"):
        await mailbox.receive()
    mailbox.close()


async def test_every_public_wait_is_a_checkpoint(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("m", capacity=1)
    with assert_checkpoints():
        await mailbox.tell(1)
    with assert_checkpoints():
        await mailbox.receive()
    mailbox.finish()
    for wait in (mailbox.receive, mailbox.wait_finished):
        with assert_checkpoints():
            await wait()
    for send in (mailbox.ask, mailbox.tell):
        with assert_checkpoints(), pytest.raises(StoreError):
            await send(1)


async def test_every_move_is_guarded_against_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """A KeyboardInterrupt half-way would leave a task parked for ever, or wake one that is not parked."""
    moves: list[tuple[str, bool]] = []
    real_enter = Envelope.enter

    def enter(self: Envelope, state: State) -> None:
        moves.append((state.value, trio.lowlevel.currently_ki_protected()))
        real_enter(self, state)

    monkeypatch.setattr(Envelope, "enter", enter)
    assert not trio.lowlevel.currently_ki_protected()
    mailbox = Mailbox("m", capacity=4)
    mailbox.tell_nowait(0)
    await mailbox.tell(1)
    with trio.move_on_after(0):
        await mailbox.ask(2)
    await start(nursery, *[Caller(mailbox, number) for number in range(3, 7)])
    (await taken(mailbox)).reply()
    batch = mailbox.receive_batch_nowait(2)
    assert batch[1].take()
    mailbox.end_life()
    mailbox.close()
    mailbox.finish()
    await wait_all_tasks_blocked()
    assert {state for state, _ in moves} == {state.value for state in State} - {"waiting"}
    assert [move for move in moves if not move[1]] == []
