"""What may be asked of the store actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, final

import attrs

from ..store import CallError, CheckpointReport, Draft, Receipt, SessionAddress
from ..store.repository import Captured, LastBackup
from .actor import Request

ReplyT = TypeVar("ReplyT")


@final
@attrs.frozen
class Commit(Request[ReplyT]):
    """Change memory: ``stage`` is called on the running draft and returns the answer, or raises a refusal.

    It may be called again on a later draft, if somebody else was faster. ``look`` is awaited before each staging, with
    the turn held, by those that rest on something outside of memory: it must end by itself, and soon.
    """

    stage: Callable[[Draft], ReplyT]
    look: Callable[[], Awaitable[None]] | None = None


@final
@attrs.frozen
class OpenScopes(Request[SessionAddress]):
    """Find a session and load its three scopes. The answer is where it lies; errors of a scope are kept with it."""

    cwd: str
    session_id: str


@final
@attrs.frozen
class CloseScopes(Request[None]):
    """Forget the scopes of a session that nobody has open any more."""

    address: SessionAddress


@final
@attrs.frozen
class Refresh(Request[None]):
    """Follow what other processes have committed up to now."""

    def stage(self, draft: Draft) -> None:
        """Nothing to stage: a round follows before it stages."""


@final
@attrs.frozen
class Checkpoint(Request[CheckpointReport]):
    """Write everything accepted to the canonical files now."""


@final
@attrs.frozen
class Capture(Request[tuple[CheckpointReport, Captured]]):
    """As ``Checkpoint``, and read the files of that moment for a backup. E_BUSY if the wait exceeds ``patience_s``.

    ``last``: what the last backup holds, if that is known.
    """

    last: LastBackup | None
    patience_s: float


def refusal(error: CallError, request_id: str | None, admit: Callable[[], None]) -> Commit[Receipt]:
    """The message for a call that is at fault before it could be staged, or whose session takes no calls.

    The store has the last word on a call with a request id: an earlier one with that id may have been accepted. Without
    an id this raises ``error``. ``admit`` is called when the answer is decided; it may raise instead.
    """
    if request_id is None:
        raise error

    def stage(draft: Draft) -> Receipt:
        admit()
        return draft.refuse(error, request_id)

    return Commit(stage)
