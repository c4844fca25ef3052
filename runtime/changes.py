"""The calls of a session that change something, on their way to the actors: checked, withdrawable, asked once.

A call that is refused here has nobody to wait for, unless it has a request id: then the store is asked first, since
an earlier call with that id may have been accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final

import attrs
import trio

from ..actors import AcceptResponse, ActorRef, Commit, Request, SelectMode, SessionCell, refusal
from ..store import (
    MODES,
    CallError,
    Draft,
    Json,
    Mode,
    Receipt,
    ScopeName,
    SessionAddress,
    StoreError,
    check_patch_arguments,
    shown,
)
from .call_arguments import response_text
from .requests import check_request_id

ReplyT = TypeVar("ReplyT")
Admit = Callable[[], None]


def always() -> None:
    """Nobody withdraws."""


@final
@attrs.frozen(eq=False)
class Changes:
    """Of one session. ``admit``: see ``Session.call``."""

    _cell: SessionCell
    _store: ActorRef
    _actor: ActorRef

    async def patch(self, arguments: Any, admit: Admit, request_id: str | None) -> Receipt:
        """``patch_state`` with the arguments as a model gives them."""
        check_request_id(request_id)
        try:
            address = self._cell.writable()
            patches = check_patch_arguments(arguments)
        except CallError as error:
            return await self._store.ask(refusal(error, request_id, admit))
        return await self._store.ask(Commit(_patch(address, patches, admit, request_id)))

    async def respond(self, arguments: Any, admit: Admit, request_id: str | None) -> Receipt:
        """``accept_response`` with the arguments as a program gives them."""
        check_request_id(request_id)
        try:
            text = response_text(arguments)
        except CallError as error:
            return await self._store.ask(refusal(error, request_id, admit))
        return await self._withdrawable(lambda admit: AcceptResponse(text, admit, request_id), admit)

    async def select(self, mode: Any, admit: Admit) -> Mode:
        """``set_mode``."""
        if mode not in MODES:
            raise CallError("E_SHAPE", f"mode {shown(mode)} is not one of {', '.join(MODES)}")
        return await self._withdrawable(lambda admit: SelectMode(mode, admit), admit)

    async def _withdrawable(self, message: Callable[[Admit], Request[ReplyT]], admit: Admit) -> ReplyT:
        """Ask the session's actor. A caller that is cancelled before the change is staged withdraws it (store 3.4.5):
        the actor has begun with the message by then, but the store has not."""
        is_withdrawn = False

        def admit_unless_withdrawn() -> None:
            if is_withdrawn:
                raise StoreError("E_ABORTED", "the caller was cancelled; nothing was stored")
            admit()

        try:
            return await self._actor.ask(message(admit_unless_withdrawn))
        except trio.Cancelled:
            is_withdrawn = True
            raise


def _patch(
    address: SessionAddress, patches: Mapping[ScopeName, Json], admit: Admit, request_id: str | None
) -> Callable[[Draft], Receipt]:
    def stage(draft: Draft) -> Receipt:
        admit()
        return draft.stage_patch(address, patches, request_id)

    return stage
