"""What a session waits for and what can still be withdrawn: choices of a mode, preparations, answers, patches (those of
transactions too), reads that are to be fresh.

::

    WAITING --the store stages it--> ADMITTED --> its answer
       |
       +--withdraw(reason)--> WITHDRAWN: whoever waits gets the reason, and nothing was or will be stored

A wait may have several tasks: the caller's, and the session actor's that asks the store. Withdrawing ends all of them
at once, whoever holds the store's locks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, TypeVar, final

import attrs
import trio

from ..store import StoreError, StrataflowError
from .actor import ActorRef, Request
from .envelope import Envelope

WaitKind = Literal["mode", "preparation", "answer", "patch", "read"]
ReplyT = TypeVar("ReplyT")


@final
@attrs.define(eq=False)
class Wait:
    """One change that is asked for and not staged yet; see the drawing."""

    kind: WaitKind
    refusal: StrataflowError | None = None
    is_admitted: bool = False
    _scopes: list[trio.CancelScope] = attrs.field(factory=list, init=False)
    _envelope: Envelope | None = attrs.field(default=None, init=False)

    def admit(self) -> None:
        """Called when the store stages the change: from here on it is finished.

        Raises:
          StrataflowError: it was withdrawn before; nothing may be stored.
        """
        if self.refusal is not None:
            raise again(self.refusal)
        self.is_admitted = True

    def withdraw(self, reason: StrataflowError) -> None:
        """Withdraw it, unless it is admitted."""
        if not self.is_admitted and self.refusal is None:
            self.refusal = reason
            for scope in self._scopes:
                scope.cancel()
            if self._envelope is not None:
                self._envelope.withdraw(reason)

    def parked(self, envelope: Envelope) -> None:
        """The one task that waits for it is parked on this envelope."""
        self._envelope = envelope

    def waiting(self) -> Asking:
        """For the body of a task that waits for it.

        Raises:
          StrataflowError: the reason, once it is withdrawn.
        """
        return Asking(self, None)


@final
@attrs.define(eq=False)
class Asking:
    """A task that waits for a change: the body of a ``with``.

    ``waits``: where the wait is listed meanwhile; then the task is the asking one, and its end is the wait's.
    """

    _wait: Wait
    _waits: list[Wait] | None
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> Callable[[], None]:
        wait = self._wait
        if wait.refusal is not None:
            raise again(wait.refusal)
        self._scope.__enter__()
        wait._scopes.append(self._scope)
        if self._waits is not None:
            self._waits.append(wait)
        return wait.admit

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        wait = self._wait
        if self._waits is not None:
            self._waits.remove(wait)
            if isinstance(error, trio.Cancelled):
                wait.withdraw(StoreError("E_ABORTED", "the caller was cancelled; nothing was stored"))
        wait._scopes.remove(self._scope)
        self._scope.__exit__(kind, error, traceback)  # it swallows only what becomes the refusal below
        if self._scope.cancelled_caught:
            assert wait.refusal is not None
            raise again(wait.refusal) from None


@final
@attrs.define(eq=False)
class Waits:
    """All of one session."""

    _waits: list[Wait] = attrs.field(factory=list, init=False)

    def begin(self, wait: Wait) -> Asking:
        """For the body of the task that asks; gives what must be called when the change is staged.

        A task that is cancelled withdraws what it asked for.
        """
        return Asking(wait, self._waits)

    async def ask(self, wait: Wait, actor: ActorRef, message: Request[ReplyT]) -> ReplyT:
        """As ``begin`` around one question, without a cancel scope, whose price is felt on the way of every commit.

        Raises:
          StrataflowError: as ``ActorRef.ask``, or the reason why it was withdrawn.
        """
        self._waits.append(wait)
        try:
            return await actor.ask(message, wait.parked)
        finally:
            self._waits.remove(wait)

    def withdraw(self, reason: StrataflowError, *kinds: WaitKind) -> None:
        """Withdraw everything of these kinds that is not admitted."""
        for wait in [*self._waits]:
            if wait.kind in kinds:
                wait.withdraw(reason)

    @property
    def count(self) -> int:
        """How many changes are under way."""
        return len(self._waits)


def again(error: StrataflowError) -> StrataflowError:
    """The same error for one more caller: a raised exception belongs to one."""
    return type(error)(error.code, error.message, **error.data)
