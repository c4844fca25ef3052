"""A bounded mailbox: the only way into an actor.

What becomes of each message is drawn in ``envelope.py``; here is who waits, in which order, and how it ends.

Invariants:
  B1  At most ``capacity`` envelopes are accepted and not yet taken, whatever the actor does.
  B2  Senders wait for room only while there is none, and get it in the order in which they came.
  B3  Envelopes are received in the order of their sending; those that one life received and did not take come first
      in the next.
  B4  Every ask ends: in a reply, in an error, in the Cancelled of its own asker, or in its withdrawal by others.

An asker parks itself and is woken by name, so a round trip costs two task switches. What lost: a memory channel for the
request and an event for the reply (twice the wake-ups), a nursery per ask (twice the price of the whole round trip).
Queues are ordered dicts and not deques, because leaving from the middle must cost the same as from the end, without
debris that a slow actor would collect.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, final

import attrs
import trio
from trio.lowlevel import Abort, Task, current_task, enable_ki_protection, reschedule, wait_task_rescheduled

from ..store import StoreError
from .envelope import QUEUED, RECEIVED, REFUSED, TAKEN, WAITING, WITHDRAWN, Envelope, State
from .limits import BATCH_MAX, MAILBOX_CAPACITY


@final
@attrs.frozen
class MailboxStatistics:
    """Numbers of one mailbox. Everything accepted is somewhere:

    ``accepted == depth + handling + handled + withdrawn + refused``
    """

    name: str
    capacity: int
    depth: int  # accepted, not taken
    waiting: int  # senders that wait for room: not accepted yet
    handling: int  # taken, not answered
    accepted: int
    handled: int  # answered by the actor; a tell counts when taken
    withdrawn: int  # left before they were taken
    refused: int  # ended by the mailbox, because it closed or a life of its actor ended
    is_closed: bool


@final
@attrs.define(eq=False)
class Mailbox:
    """Accepts messages for one actor, which may have several lives."""

    name: str
    capacity: int = attrs.field(default=MAILBOX_CAPACITY)
    # The actor may wait for something on behalf of its askers: this tells it that one of them has left.
    on_withdrawal: Callable[[], None] | None = attrs.field(default=None, init=False)
    _room: int = attrs.field(init=False)
    _waiting: OrderedDict[Envelope, None] = attrs.field(factory=OrderedDict, init=False)
    _queue: OrderedDict[Envelope, None] = attrs.field(factory=OrderedDict, init=False)
    _out: dict[Envelope, None] = attrs.field(factory=dict, init=False)  # RECEIVED, and TAKEN asks
    _is_closed: bool = attrs.field(default=False, init=False)
    _owner: Task | None = attrs.field(default=None, init=False)  # the task that receives
    _parked: Task | None = attrs.field(default=None, init=False)  # the same, while it waits for an envelope
    _finished: trio.Event = attrs.field(factory=trio.Event, init=False)
    _accepted: int = attrs.field(default=0, init=False)
    _handled: int = attrs.field(default=0, init=False)
    _withdrawn: int = attrs.field(default=0, init=False)
    _refused: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        assert self.capacity > 0, self.capacity
        self._room = self.capacity

    # ---- senders -------------------------------------------------------------------------------------------------

    @enable_ki_protection
    def tell_nowait(self, message: object) -> None:
        """Accept a message that nobody waits for.

        Raises:
          trio.WouldBlock: there is no room.
          StoreError: E_CLOSED, the actor takes nothing any more.
        """
        if self._is_closed:
            raise self._closed_error()
        if not self._room:
            raise trio.WouldBlock
        self._accept(Envelope(message, False, self, None))

    @enable_ki_protection
    async def tell(self, message: object) -> None:
        """Like ``tell_nowait``, but wait for room. If it raises Cancelled, nothing was sent."""
        await trio.lowlevel.checkpoint()
        if self._room or self._is_closed:
            self.tell_nowait(message)
            return
        envelope = self._park_with(message, is_ask=False)
        await envelope.wait()

    @enable_ki_protection
    async def ask(self, message: object, parked: Callable[[Envelope], None] | None = None) -> Any:
        """Send ``message``, wait for room if need be, and return the actor's reply.

        ``parked`` is called with the envelope before this task parks: others can let it leave, see ``withdraw`` there.

        Always a checkpoint. If it raises Cancelled, either the actor had not begun with the message, and nothing
        happened, or it had, and the work goes on to its end without this caller.

        Raises:
          StoreError: E_CLOSED, the actor did not begin with it; E_BROKEN, the actor died in the middle of it.
          StrataflowError: whatever the actor answered.
        """
        if self._is_closed:
            await trio.lowlevel.checkpoint()
            raise self._closed_error()
        envelope = self._park_with(message, is_ask=True)
        if parked is not None:
            parked(envelope)
        return await envelope.wait()

    def _park_with(self, message: object, *, is_ask: bool) -> Envelope:
        task = current_task()
        assert task is not self._owner, f"actor {self.name!r} waits for itself"
        envelope = Envelope(message, is_ask, self, task)
        if self._room:
            self._accept(envelope)
        else:
            self._waiting[envelope] = None
        return envelope

    def _accept(self, envelope: Envelope) -> None:
        envelope.enter(QUEUED)
        self._room -= 1
        self._accepted += 1
        self._queue[envelope] = None
        self._wake_receiver()

    def sender_left(self, envelope: Envelope) -> None:
        state = envelope.state
        if state is TAKEN:
            return
        envelope.enter(WITHDRAWN)
        if state is WAITING:
            del self._waiting[envelope]
            return
        del (self._queue if state is QUEUED else self._out)[envelope]
        self._withdrawn += 1
        self._make_room()
        if self.on_withdrawal is not None:
            self.on_withdrawal()

    def _make_room(self) -> None:
        self._room += 1
        if self._waiting:  # B2
            envelope, _ = self._waiting.popitem(last=False)
            self._accept(envelope)
            if not envelope.is_ask:
                envelope.wake(None, None)

    # ---- the actor -----------------------------------------------------------------------------------------------

    @enable_ki_protection
    async def receive(self) -> Envelope | None:
        """Wait for the next envelope. None when the mailbox is closed and empty: then the actor should end.

        Always a checkpoint. If it raises Cancelled, nothing was received. One task receives at a time.
        """
        self._owner = current_task()
        if self._queue or self._is_closed:
            await trio.lowlevel.checkpoint()
        # A loop, since what woke this task may be withdrawn before it runs.
        while not self._queue:
            if self._is_closed:
                return None
            assert self._parked is None, f"two tasks receive from mailbox {self.name!r}"
            self._parked = self._owner
            await wait_task_rescheduled(self._receiver_left)
        return self._pop()

    @enable_ki_protection
    def receive_batch_nowait(self, limit: int = BATCH_MAX) -> list[Envelope]:
        """Everything that waits, at most ``limit`` envelopes, oldest first; empty if nothing does."""
        return [self._pop() for _ in range(min(limit, len(self._queue)))]

    def _pop(self) -> Envelope:
        envelope, _ = self._queue.popitem(last=False)  # B3
        envelope.enter(RECEIVED)
        self._out[envelope] = None
        return envelope

    def _wake_receiver(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            reschedule(parked)

    def _receiver_left(self, _raise_cancel: object) -> Abort:
        self._parked = None
        return Abort.SUCCEEDED

    def was_taken(self, envelope: Envelope) -> None:
        if not envelope.is_ask:  # nobody waits for its end
            del self._out[envelope]
            self._handled += 1
        self._make_room()

    def was_answered(self, envelope: Envelope, before: State) -> None:
        if before is RECEIVED or envelope.is_ask:  # a taken tell has gone already
            del self._out[envelope]
            self._handled += 1
        if before is RECEIVED:
            self._make_room()

    # ---- the end -------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether nothing is accepted any more."""
        return self._is_closed

    @enable_ki_protection
    def close(self) -> None:
        """Accept nothing any more. Waiting senders get E_CLOSED; what was accepted can still be received."""
        self._is_closed = True
        while self._waiting:
            envelope, _ = self._waiting.popitem(last=False)
            envelope.enter(REFUSED)
            envelope.wake(None, self._closed_error())
        self._wake_receiver()

    @enable_ki_protection
    def end_life(self) -> None:
        """A life of the actor is over: fail what it had begun (E_BROKEN), keep the rest for the next life (B3, B4)."""
        self._owner = None
        for envelope in reversed(self._out):
            if envelope.state is RECEIVED:
                envelope.enter(QUEUED)
                self._queue[envelope] = None
                self._queue.move_to_end(envelope, last=False)
            else:
                self._refuse(envelope, self._broken_error())
        self._out.clear()

    @enable_ki_protection
    def finish(self) -> None:
        """The actor will not come back: every ask that is left ends now (B4)."""
        self.close()
        self.end_life()
        while self._queue:
            envelope, _ = self._queue.popitem(last=False)
            self._room += 1
            self._refuse(envelope, self._closed_error())
        self._finished.set()

    async def wait_finished(self) -> None:
        """Wait until ``finish`` was called. Changes nothing, also when cancelled."""
        await self._finished.wait()

    def _refuse(self, envelope: Envelope, error: StoreError) -> None:
        envelope.enter(REFUSED)
        self._refused += 1
        envelope.wake(None, error)

    def _closed_error(self) -> StoreError:
        text = f"actor {self.name!r} is closed and did not begin with this request; nothing happened. Open it again."
        return StoreError("E_CLOSED", text, actor=self.name)

    def _broken_error(self) -> StoreError:
        text = f"actor {self.name!r} ended in the middle of this request; its outcome is unknown. Read before retrying."
        return StoreError("E_BROKEN", text, actor=self.name)

    def statistics(self) -> MailboxStatistics:
        """Numbers of this moment."""
        depth = self.capacity - self._room
        return MailboxStatistics(
            name=self.name,
            capacity=self.capacity,
            depth=depth,
            waiting=len(self._waiting),
            handling=len(self._queue) + len(self._out) - depth,
            accepted=self._accepted,
            handled=self._handled,
            withdrawn=self._withdrawn,
            refused=self._refused,
            is_closed=self._is_closed,
        )
