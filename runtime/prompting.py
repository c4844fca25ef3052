"""Requests to a model: preparing a run, and the messages that a request consists of (L10 to L12, C8 to C20)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import attrs
import trio

from ..actors import ActorRef, Commit, SessionCell, Wait, has_answers, transitions_of
from ..store import CallError, Draft, MemoryStore, Receipt, StrataflowError, compact, shown, stage_preparation
from ..store.artifacts import MISSING
from ..store.projection import ContextRequest, Message, PrefixReport, Transition, compare_requests
from .prompt_desk import PromptDesk
from .transactions_desk import TransactionDesk


@attrs.frozen(eq=False)
class Prompting:
    """What a session's requests need of it. ``check`` raises StoreError E_CLOSED once the session has ended."""

    cell: SessionCell
    store: ActorRef
    state: MemoryStore
    desk: PromptDesk
    looks: TransactionDesk
    check: Callable[[], None]

    async def prepare(self, prompt: str, messages: Sequence[Message]) -> Receipt:
        """Record the prompt of a run and remove cards whose source is gone, before the first request (store 3.5).

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises:
          CallError: E_OFF, E_FENCED, E_ABORTED: another mode was chosen or another run began meanwhile.
          StoreError: as ``Session.patch_state``.
        """
        cell, wait, desk = self.cell, Wait("preparation"), self.desk
        address = cell.writable()
        bootstrap = cell.context.awaits_bootstrap and has_answers(messages)
        gone: list[str] = []

        async def look_again() -> None:
            # Who has come back meanwhile keeps its card.
            seen = await desk.artifacts.sources.inspect(gone)
            gone[:] = [path for path in gone if seen.get(path) == MISSING]

        def stage(draft: Draft) -> Receipt:
            admit()
            receipt = stage_preparation(draft, address, prompt, bootstrap=bootstrap, missing=gone)
            cell.context.note_own(receipt.transition_id)
            return receipt

        try:
            with cell.waits.begin(wait) as admit:
                await desk.artifacts.refresh(cell)
                gone += [path for path, found in cell.artifacts.seen.items() if found == MISSING]
                receipt = await self.store.ask(Commit(stage, look_again if gone else None))
        except StrataflowError as error:
            if wait.refusal is None:
                self.desk.diagnostics.note(cell, "publication-conflict", str(error))
            raise
        cell.context.awaits_bootstrap = False
        cell.note_accepted()
        self.looks.note_look()
        if receipt.changed:
            desk.artifacts.report("artifacts-removed", cwd=cell.cwd, session=cell.session_id, paths=sorted(gone))
        return receipt

    async def project(self, messages: Sequence[Message], *, has_looked: bool = False) -> list[Message]:
        """The messages of the next request of this session, over memory as it is now.

        ``has_looked``: the sources of its cards have just been looked at, for this very request.

        Always a checkpoint. It changes nothing that is stored, so Cancelled loses nothing.

        Raises:
          CallError: E_SHAPE for what is no list of messages.
          StrataflowError: why memory is blocked, in active mode (L8).
        """
        cell, context = self.cell, self.cell.context
        self.check()
        await trio.lowlevel.checkpoint()
        if cell.mode != "off":
            await self.looks.freshen(self.store)
            if cell.mode == "active" and not context.knows_own and cell.address is not None:
                for transition_id in await self.desk.own_transitions(cell.address):
                    context.note_own(transition_id)
                context.knows_own = True
            if not has_looked:
                await self.desk.artifacts.refresh(cell)
            self.check()
        self.refuse_blocked()
        context.observe(messages)
        return context.project(self._request(messages), compact)

    def refuse_blocked(self) -> None:
        """A run must not reach a model while active memory can not be read (L8)."""
        cell = self.cell
        if cell.mode == "active":
            cell.readable()
            if cell.problem is not None and cell.problem.code != "E_FENCED":
                raise type(cell.problem)(cell.problem.code, cell.problem.message, **cell.problem.data)
            if cell.address is not None and self.state.errors:
                for _, scope in cell.address.scopes():
                    error = self.state.errors.get(scope)
                    if error is not None:
                        raise type(error)(error.code, error.message, **error.data)

    def _request(self, messages: Sequence[Message]) -> ContextRequest:
        cell, context = self.cell, self.cell.context
        record = cell.record if cell.mode != "off" else None
        is_active = cell.mode == "active"
        judgement = self.desk.artifacts.judged(cell)
        return ContextRequest(
            mode=cell.mode,
            messages=messages,
            scopes=cell.scopes() if cell.mode != "off" else None,
            time_ms=self.desk.now_ms(),
            new_id=self.desk.new_id(),
            specification=record.specification if record is not None and is_active else None,
            anchor=context.anchor,
            bootstrap=record.bootstrap if record is not None and is_active else False,
            handoff=context.handoff,
            hints=judgement.hints,
            invalidations=judgement.shown,
            phase=context.phase if is_active else None,
            transitions=_OwnTransitions(self.cell, self.state) if is_active else (),
            history_limit=self.state.history_limit,
        )

    def ledger(self) -> PrefixReport | None:
        """How the last request continues the one before it; None before there were two."""
        sent = self.cell.context.sent
        return None if len(sent) < 2 else compare_requests(sent[0], sent[1], rebase=self.cell.context.last_rebase)


@final
@attrs.frozen(eq=False)
class _OwnTransitions(Sequence[Transition]):
    """The session's own transitions, worked out when a head needs them: most requests make none."""

    _cell: SessionCell
    _state: MemoryStore

    def _all(self) -> list[Transition]:
        scopes, address = self._cell.scopes(), self._cell.address
        if scopes is None or address is None:
            return []
        lineage = self._state.lineage(address)
        return transitions_of(scopes, lineage, self._cell.context.own, self._state.history_limit)

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __reversed__(self) -> Iterator[Transition]:
        return reversed(self._all())


def checked_messages(messages: Any) -> Sequence[Message]:
    """The host's messages as they are given.

    Raises:
      CallError: E_SHAPE if they are no list of objects.
    """
    if type(messages) not in (list, tuple):
        raise CallError("E_SHAPE", f"messages are a list, not {shown(messages)}")
    for index, message in enumerate(messages):
        # Whatever it is, most are dicts: to ask an abstract class costs a third of a request.
        if type(message) is not dict and not isinstance(message, Mapping):
            raise CallError("E_SHAPE", f"message {index} is an object, not {shown(message)}")
    checked: Sequence[Message] = messages
    return checked
