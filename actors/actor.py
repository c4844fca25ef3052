"""An actor is a mailbox and a task that serves it; everybody else holds a reference.

Whatever happens to the task, what it leaves behind is answered: ``run_actor`` for an actor with one life, ``run_life``
for one life of an actor that a supervisor may start again on the same mailbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar, final, overload

import attrs
import trio

from ..store import StrataflowError
from .envelope import Envelope
from .mailbox import Mailbox, MailboxStatistics

ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Request(Generic[ReplyT_co]):
    """Base of a message that names the type of its reply, for type checkers: ``class Commit(Request[Receipt])``."""

    __slots__ = ()


class Actor(Protocol):
    """One life of an actor."""

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Call ``task_status.started()`` when ready, then serve ``mailbox`` until it gives None.

        To raise is to die: requests in work end with E_BROKEN, the others wait for the next life, if there is one.
        """


@final
@attrs.frozen(eq=False)
class ActorRef:
    """What others hold of an actor. Stays valid over restarts, and answers E_CLOSED after the end."""

    _mailbox: Mailbox

    @property
    def name(self) -> str:
        """The actor's name."""
        return self._mailbox.name

    @overload
    async def ask(self, message: Request[ReplyT_co], parked: Callable[[Envelope], None] | None = None) -> ReplyT_co: ...
    @overload
    async def ask(self, message: object, parked: Callable[[Envelope], None] | None = None) -> Any: ...
    async def ask(self, message: object, parked: Callable[[Envelope], None] | None = None) -> Any:
        """Send ``message`` and return the reply, or raise the error, that the actor gives. ``parked``: see ``Mailbox``.

        Always a checkpoint. If it raises Cancelled, either the actor had not begun with the message, and nothing
        happened, or it had, and the work goes on to its end without this caller.

        Raises:
          StoreError: E_CLOSED, the actor did not begin with it; E_BROKEN, the actor died in the middle of it.
          StrataflowError: whatever the actor answered.
        """
        return await self._mailbox.ask(message, parked)

    async def tell(self, message: object) -> None:
        """Send ``message`` without waiting for its handling. If it raises Cancelled, nothing was sent."""
        await self._mailbox.tell(message)

    def tell_nowait(self, message: object) -> None:
        """Send ``message`` or raise ``trio.WouldBlock`` if there is no room."""
        self._mailbox.tell_nowait(message)

    def stop(self) -> None:
        """Ask the actor to end: it accepts nothing more, finishes what it accepted, and ends. Does not wait."""
        self._mailbox.close()

    async def wait_stopped(self) -> None:
        """Wait until the actor has ended for good and everything is answered. Changes nothing, also when cancelled."""
        await self._mailbox.wait_finished()

    def statistics(self) -> MailboxStatistics:
        """Numbers of the mailbox at this moment."""
        return self._mailbox.statistics()


async def serve(mailbox: Mailbox, handle: Callable[[Any], Awaitable[Any]]) -> None:
    """Handle one message after the other until the mailbox is closed and empty.

    What ``handle`` returns is the reply. A StrataflowError is an answer too, unless nobody asked; every other
    exception ends this life of the actor. Cancelled leaves as it came, and the message in work ends with E_BROKEN.
    """
    while (envelope := await mailbox.receive()) is not None:
        envelope.take()  # still there: no checkpoint since it was received
        try:
            value = await handle(envelope.message)
        except StrataflowError as error:
            if not envelope.is_ask:
                raise  # swallowed here, nobody would ever learn of it
            envelope.fail(error)
        else:
            envelope.reply(value)


async def run_life(actor: Actor, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
    """One life of an actor. Afterwards nothing of it is in work, and the mailbox is ready for another life.

    Cancelled ends the life like any other exception.
    """
    try:
        await actor.run(mailbox, task_status)
    finally:
        mailbox.end_life()  # not async: no shield needed


async def run_actor(
    actor: Actor, mailbox: Mailbox, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The only life of an actor, for ``nursery.start``. Afterwards every ask is answered and the mailbox closed.

    Cancelled ends the life like any other exception.
    """
    try:
        await actor.run(mailbox, task_status)
    finally:
        mailbox.finish()
