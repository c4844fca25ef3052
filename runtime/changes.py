"""The calls of a session that change something, on their way to the actors: checked, withdrawable, asked once.

A call that is refused here has nobody to wait for, unless it has a request id: then the store is asked first, since
an earlier call with that id may have been accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

import attrs
import trio

from ..actors import (
    AcceptResponse,
    ActorRef,
    CloseScopes,
    Commit,
    SelectMode,
    SessionCell,
    Sources,
    Wait,
    refusal,
    updates_for_nobody,
)
from ..store import (
    MODES,
    SCOPES,
    CallError,
    Draft,
    Mode,
    Receipt,
    StoreError,
    StrataflowError,
    check_patch_arguments,
    compact,
    found_by,
    shown,
    with_updates,
)
from ..store.artifacts import NO_READS, Compilation, source_changed
from ..store.projection import AcceptedCall
from .call_arguments import response_text
from .diagnostics import Diagnostics
from .requests import check_request_id

Admit = Callable[[], None]
# Rows 12 to 15 of T9.
_AFTER_SOURCES = ("E_JSON", "E_PLANE", "E_PLANE_SHAPE", "E_PROVENANCE")


def always() -> None:
    """Nobody withdraws."""


@final
@attrs.frozen(eq=False)
class Changes:
    """Of one session. ``admit``: see ``Session.call``."""

    _cell: SessionCell
    _store: ActorRef
    _actor: ActorRef
    _diagnostics: Diagnostics
    _sources: Sources

    async def patch(self, arguments: Any, admit: Admit, request_id: str | None, call_id: str | None = None) -> Receipt:
        """``patch_state`` with the arguments as a model gives them."""
        check_request_id(request_id)
        if not self._diagnostics.is_on:
            return await self._patch(arguments, admit, request_id, call_id)
        with self._diagnostics.of_patch(self._cell, arguments, call_id):
            return await self._patch(arguments, admit, request_id, call_id)

    async def _patch(self, arguments: Any, admit: Admit, request_id: str | None, call_id: str | None) -> Receipt:
        cell = self._cell
        reads = cell.artifacts.compilation()
        try:
            address = cell.writable()
            patches = check_patch_arguments(arguments)
        except CallError as error:
            error = await self._changed_first(error, reads) if reads.sources else error
            return await self._store.ask(refusal(error, request_id, admit))
        is_remembered, is_staged, wait = False, False, Wait("patch")
        sources = [*reads.rests_on(patches)] if reads is not NO_READS else []
        compilation = reads

        async def look() -> None:
            nonlocal compilation
            compilation = attrs.evolve(reads, seen=await self._sources.inspect(sources))

        def stage(draft: Draft) -> Receipt:
            nonlocal is_remembered, is_staged
            admit()
            wait.admit()
            present = cell.writable()
            if present is not address and present != address:  # T9 row 10
                raise CallError("E_SELECTION", "the session's memory was selected anew meanwhile; call again")
            count = len(draft.rows)
            receipt = draft.stage_patch(address, patches, request_id, compilation)
            is_remembered = request_id is not None and len(draft.rows) == count
            is_staged = not is_remembered
            cell.context.note_own(receipt.transition_id)
            return receipt

        try:
            receipt = await cell.waits.ask(wait, self._store, Commit(stage, look if sources else None))
        except StrataflowError as error:
            is_staged = False
            if error.code == "E_SOURCE_CHANGED":
                cell.artifacts.drop(error.data["paths"])
            raise
        finally:
            # Also for a caller that was cancelled: what was staged is completed whole.
            if is_staged and reads is not NO_READS:
                cell.artifacts.consume(reads, patches)
                cell.artifacts.note_some(compilation.seen)
        if receipt.changed:
            cell.note_accepted()
        if is_remembered and cell.context.carried.projection_id is None:
            return receipt  # the first outcome once more, and nobody was told anything to set right
        return self._reconciled(receipt, patches, call_id)

    async def _changed_first(self, error: CallError, reads: Compilation) -> CallError:
        """What a patch is refused for that is at fault (T9): a changed source comes before rows 12 to 15."""
        if error.code in _AFTER_SOURCES:
            changed = attrs.evolve(reads, seen=await self._sources.inspect([*reads.sources])).changed({})
            if changed:
                self._cell.artifacts.drop(changed)
                return source_changed(changed)
        return error

    def _reconciled(self, receipt: Receipt, patches: Any, call_id: str | None) -> Receipt:
        """The receipt with what it tells besides. Without a prompt that was told anything, only when it is asked."""
        cell = self._cell
        context, mode, after = cell.context, cell.mode, cell.states()
        if after is None:
            return receipt

        def call() -> AcceptedCall:
            scopes = dict(zip(SCOPES, after, strict=True))
            before = found_by(receipt) or scopes
            hints = cell.artifacts.judge(scopes).hints
            return AcceptedCall(patches, before, scopes, receipt.cascaded, hints, mode=mode, call_id=call_id)

        if context.carried.projection_id is None:
            return with_updates(receipt, lambda: updates_for_nobody(call(), compact))
        updates = context.acknowledge(call(), compact)
        return with_updates(receipt, lambda: updates)

    async def respond(self, arguments: Any, admit: Admit, request_id: str | None) -> Receipt:
        """``accept_response`` with the arguments as a program gives them. A waiting older answer gives way (L20)."""
        check_request_id(request_id)
        cell = self._cell
        with self._diagnostics.of_answer(cell, arguments):
            try:
                text = response_text(arguments)
            except CallError as error:
                return await self._store.ask(refusal(error, request_id, admit))
            newer = StoreError("E_ABORTED", "a newer answer superseded this one; it was not stored")
            cell.waits.withdraw(newer, "answer")
            wait = Wait("answer")
            with cell.waits.begin(wait):
                return await self._actor.ask(AcceptResponse(text, admit, request_id, wait, cell.context.run))

    async def select(self, mode: Any, admit: Admit) -> Mode:
        """``set_mode``: off holds at once and asks nobody, passive holds before it is stored, active afterwards."""
        if mode not in MODES:
            raise CallError("E_SHAPE", f"mode {shown(mode)} is not one of {', '.join(MODES)}")
        cell = self._cell
        if mode == "off":
            admit()
            address = cell.address
            cell.turn_off()
            if address is not None:
                with suppress(trio.WouldBlock, StoreError):
                    self._store.tell_nowait(CloseScopes(address))
            await trio.lowlevel.checkpoint()
            return cell.mode
        choice = cell.choose(mode)
        if mode == "passive":
            cell.go_passive()
        choice.askers += 1
        try:
            return await self._actor.ask(SelectMode(mode, admit, choice))
        except trio.Cancelled:
            # Passive holds already, so it is stored all the same, also if the actor had not begun with it. Active is
            # given up if nobody else waits for it.
            if mode == "passive" and not choice.is_done:
                with suppress(trio.WouldBlock, StoreError):
                    self._actor.tell_nowait(SelectMode(mode, choice=choice, is_told=True))
            elif choice.askers == 1 and mode == "active":
                choice.wait.withdraw(StoreError("E_ABORTED", "the caller was cancelled; nothing was stored"))
            raise
        finally:
            choice.askers -= 1
