"""An envelope: one message on its way to an actor, and the means to answer it.

Its life (only ``Envelope.enter`` moves it)::

    WAITING --room--> QUEUED --receive--> RECEIVED --take--> TAKEN --reply, fail--> ANSWERED
                        ^                   |   |                                      ^
                        +---- life ends ----+   +------------- reply, fail ------------+

    WAITING, QUEUED, RECEIVED --sender leaves, or is made to leave--> WITHDRAWN
    WAITING --mailbox closes--> REFUSED          QUEUED --actor is gone for good--> REFUSED
    TAKEN --life ends--> REFUSED

Withdrawn means: as if it had never been sent. The point of no return is ``take``, not ``receive``: an actor that
receives a batch still loses those whose askers leave before it begins with them. After ``take`` the work is done
whole; a cancelled asker gets its Cancelled at once and the reply goes nowhere.

Invariant:
  B5  A task is parked on an envelope exactly while ``_sender`` names it.

Everything here belongs to the trio thread. Functions that park or wake are guarded against a KeyboardInterrupt
half-way, as trio guards its own.
"""

from __future__ import annotations

import copy
import enum
from typing import Any, Protocol, final

import attrs
from trio.lowlevel import Abort, Task, enable_ki_protection, reschedule, wait_task_rescheduled

from ..store import StrataflowError


class State(enum.Enum):
    """Where an envelope is; see the drawing."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and each step looks states up

    WAITING = "waiting"
    QUEUED = "queued"
    RECEIVED = "received"
    TAKEN = "taken"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    REFUSED = "refused"


WAITING, QUEUED, RECEIVED, TAKEN, ANSWERED, WITHDRAWN, REFUSED = State
_MOVES = {
    WAITING: frozenset({QUEUED, WITHDRAWN, REFUSED}),
    QUEUED: frozenset({RECEIVED, WITHDRAWN, REFUSED}),
    RECEIVED: frozenset({QUEUED, TAKEN, ANSWERED, WITHDRAWN}),
    TAKEN: frozenset({ANSWERED, REFUSED}),
    ANSWERED: frozenset[State](),
    WITHDRAWN: frozenset[State](),
    REFUSED: frozenset[State](),
}


class Post(Protocol):
    """The mailbox as its envelopes see it: who counts them and gives their room to others."""

    def sender_left(self, envelope: Envelope) -> None:
        """The parked sender was cancelled. Moves the envelope to WITHDRAWN unless it is TAKEN."""

    def was_taken(self, envelope: Envelope) -> None:
        """It has just become TAKEN."""

    def was_answered(self, envelope: Envelope, before: State) -> None:
        """It has just become ANSWERED and was ``before``."""


@final
@attrs.define(eq=False)
class Envelope:
    """One message on its way, and the means to answer it, from any task of the trio thread, at any time."""

    message: Any
    is_ask: bool
    _post: Post
    _sender: Task | None
    state: State = attrs.field(default=WAITING, init=False)
    _value: Any = attrs.field(default=None, init=False)
    _error: StrataflowError | None = attrs.field(default=None, init=False)

    @property
    def is_withdrawn(self) -> bool:
        """Whether its asker left before it was taken. Then nothing may be done about it."""
        return self.state is WITHDRAWN

    @enable_ki_protection
    def take(self) -> bool:
        """Begin with it: from now on the work is done whole, whoever is cancelled. False if there is nothing to do."""
        if self.state is not RECEIVED:
            assert self.state in (WITHDRAWN, REFUSED), f"take() of an envelope that is {self.state.value}"
            return False
        self.enter(TAKEN)
        self._post.was_taken(self)
        return True

    def reply(self, value: Any = None) -> None:
        """Give the asker its answer. Silent if the asker has left; a second answer is a programming error."""
        self._answer(value, None)

    def fail(self, error: StrataflowError) -> None:
        """Raise ``error`` at the asker, as a copy of its own: one error may fail many askers."""
        self._answer(None, error)

    @enable_ki_protection
    def _answer(self, value: Any, error: StrataflowError | None) -> None:
        state = self.state
        if state is WITHDRAWN or state is REFUSED:
            return
        assert state is RECEIVED or state is TAKEN, f"an answer to an envelope that is {state.value}"
        self.enter(ANSWERED)
        self._post.was_answered(self, state)
        self.wake(value, error)

    def wake(self, value: Any, error: StrataflowError | None) -> None:
        """Let the parked sender go on with ``value`` or ``error``; nothing if it left (B5)."""
        sender, self._sender = self._sender, None
        if sender is not None:
            self._value = value
            self._error = None if error is None else _copy_of(error)
            reschedule(sender)

    async def wait(self) -> Any:
        """Park the calling task, which must be ``_sender``, until it is woken. Cancelled: see ``_leave``."""
        await wait_task_rescheduled(self._leave)
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            # Breaks the cycle error -> traceback -> this frame -> envelope -> error.
            self._error = None

    @enable_ki_protection
    def withdraw(self, error: StrataflowError) -> None:
        """Let its parked asker leave with ``error``. Nothing if it was taken, has left, or has its answer (B5)."""
        if self._sender is not None and self.state is not TAKEN:
            self._post.sender_left(self)
            self.wake(None, error)

    def _leave(self, _raise_cancel: object) -> Abort:
        self._sender = None
        self._post.sender_left(self)
        return Abort.SUCCEEDED

    def enter(self, state: State) -> None:
        assert state in _MOVES[self.state], (self.state, state)
        self.state = state


def _copy_of(error: StrataflowError) -> StrataflowError:
    """A twin to be raised elsewhere: same story, but raising it adds nothing to the original's traceback."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    twin.__context__ = error.__context__
    twin.__suppress_context__ = error.__suppress_context__
    for note in getattr(error, "__notes__", ()):
        twin.add_note(note)
    return twin.with_traceback(error.__traceback__)
