"""What a session waits for and what can still be withdrawn: choices of a mode, preparations, answers, patches.

::

    WAITING --the store stages it--> ADMITTED --> its answer
       |
       +--withdraw(reason)--> WITHDRAWN: whoever waits gets the reason, and nothing was or will be stored

A wait may have several tasks: the caller's, and the session actor's that asks the store. Withdrawing ends all of them
at once, whoever holds the store's locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, final

import attrs
import trio

from ..store import StoreError, StrataflowError

WaitKind = Literal["mode", "preparation", "answer", "patch"]


@final
@attrs.define(eq=False)
class Wait:
    """One change that is asked for and not staged yet; see the drawing."""

    kind: WaitKind
    refusal: StrataflowError | None = None
    is_admitted: bool = False
    _scopes: list[trio.CancelScope] = attrs.field(factory=list, init=False)

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

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For the body of a task that waits for it.

        Raises:
          StrataflowError: the reason, once it is withdrawn.
        """
        if self.refusal is not None:
            raise again(self.refusal)
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                yield
            finally:
                self._scopes.remove(scope)
        if scope.cancelled_caught:
            assert self.refusal is not None
            raise again(self.refusal)


@final
@attrs.define(eq=False)
class Waits:
    """All of one session."""

    _waits: list[Wait] = attrs.field(factory=list, init=False)

    @contextmanager
    def begin(self, wait: Wait) -> Iterator[Callable[[], None]]:
        """For the body of the task that asks; gives what must be called when the change is staged.

        A task that is cancelled withdraws what it asked for.
        """
        self._waits.append(wait)
        try:
            with wait.waiting():
                try:
                    yield wait.admit
                except trio.Cancelled:
                    wait.withdraw(StoreError("E_ABORTED", "the caller was cancelled; nothing was stored"))
                    raise
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
