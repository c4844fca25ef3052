"""The session actor: one per open session. It stores the session's modes and answers, one after another.

Which mode holds, and from when on, is the cell's business (``session_cell``): passive and off hold at once. Handles do
not ask here for off, since it needs nobody. Selecting active or passive accepts the session's files as they are now,
and so ends a fence. Patches and preparations go from the handle to the store actor, in the order they are sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import final

import attrs
import trio

from ..store import (
    CallError,
    Draft,
    HostPolicy,
    Mode,
    Receipt,
    SessionAddress,
    StoreError,
    StrataflowError,
    stage_activation,
    stage_bootstrap,
    stage_fork,
)
from ..store.projection import Handoff
from .actor import ActorRef, Request, serve
from .mailbox import Mailbox
from .session_cell import Choice, SessionCell
from .store_messages import CloseScopes, Commit, OpenScopes, refusal
from .waits import Wait, again


def _always() -> None:
    """Every asker may go on."""


@final
@attrs.frozen
class SelectMode(Request[Mode]):
    """Carry out a choice of a mode. The answer is the mode that holds afterwards, which may be that of a later choice.

    ``choice``: None begins one. ``admit``: as for ``AcceptResponse``. ``is_told``: nobody waits for the answer.
    """

    mode: Mode
    admit: Callable[[], None] = _always
    choice: Choice | None = None
    is_told: bool = False


@final
@attrs.frozen
class AcceptResponse(Request[Receipt]):
    """End the current run, or an implicit one, with this answer (store 3.4), unless ``request_id`` was used before.

    ``admit`` is called when the answer is staged; it may raise instead, and then nothing is stored. ``wait``: to be
    withdrawn by, from outside. ``run``: the run that it ends.
    """

    text: str
    admit: Callable[[], None] = _always
    request_id: str | None = None
    wait: Wait = attrs.field(factory=lambda: Wait("answer"))
    run: object | None = None


@final
@attrs.define(eq=False)
class SessionActor:
    """One life. ``wanted`` is an explicit mode; None takes the session's own, ``fresh`` for a new one, ``unreadable``
    for one whose files or log do not tell (store 7.4). ``release``: drops memory of a session that is not open here.
    ``check_files``: raises if somebody else has written a session's own files."""

    cell: SessionCell
    store: ActorRef
    wanted: Mode | None
    fresh: Mode
    unreadable: Mode
    release: Callable[[SessionAddress], None] = lambda address: None
    check_files: Callable[[SessionAddress], Awaitable[None]] | None = None

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Open the session, then serve."""
        await self._attach()
        task_status.started()
        await serve(mailbox, self._handle)

    async def _handle(self, message: SelectMode | AcceptResponse) -> Mode | Receipt:
        if isinstance(message, SelectMode):
            return await self._choose(message)
        try:
            address = self.cell.writable()
            if self.cell.mode != "active":
                raise CallError("E_OFF", "answers are kept in active mode only; select it first")
        except CallError as error:
            return await self.store.ask(refusal(error, message.request_id, message.admit))

        def stage(draft: Draft) -> Receipt:
            message.admit()
            message.wait.admit()
            receipt = draft.stage_response(address, message.text, message.request_id)
            self.cell.context.note_own(receipt.transition_id)
            return receipt

        with message.wait.waiting():
            receipt = await self.store.ask(Commit(stage))
        # Here and not in the caller's task, which may be cancelled while the answer is being accepted.
        had_handoff = self.cell.context.handoff is not None
        self.cell.answered(message.run, had_handoff=had_handoff)
        return receipt

    # -- attaching ----------------------------------------------------------------------------------------------

    async def _attach(self) -> None:
        """Find the mode: the explicit one, else what the session was, else what new sessions get (Ours-11)."""
        cell = self.cell
        policy = cell.host.policy(self.unreadable)
        if policy is None:
            mode = self.wanted or await self._own_mode()
        elif policy.is_new:
            mode = self.wanted or self.fresh
        else:
            mode = self.wanted or policy.mode or self.unreadable
        is_resumed = policy is not None and not policy.is_new
        if policy is not None:
            self._take_over(policy, mode)
        if mode == "off":
            cell.context.attach(is_resumed=is_resumed)
            if policy is not None and policy.mode != "off":
                cell.host.checkpoint(None, "off", None)
            return
        address, problem = await self._open(mode, is_choice=False, policy=policy)
        cell.address, cell.mode = address, mode
        if policy is not None and policy.fence is not None and self.wanted is None:
            problem = CallError("E_FENCED", f"writing is paused ({policy.fence}); select passive or active")
        cell.problem = problem
        record = cell.record
        cell.context.attach(is_resumed=is_resumed or (record is not None and record.step > 0))
        if problem is None:
            cell.note_accepted()
        cell.on_change(cell.watch_name)

    def _take_over(self, policy: HostPolicy, mode: Mode) -> None:
        context = self.cell.context
        context.has_conversation = policy.has_conversation
        if policy.is_fork_pending and self.cell.fork_from is None:
            self.cell.fork_from = policy.fork_parent
        if policy.left_active_at is not None:
            context.handoff = Handoff(policy.left_active_at, keeps_context=policy.keeps_context)

    async def _own_mode(self) -> Mode:
        address = await self.store.ask(OpenScopes(self.cell.cwd, self.cell.session_id))

        def look(draft: Draft) -> Mode:
            return draft.mode_of(address, fresh=self.fresh, unreadable=self.unreadable)

        return await self.store.ask(Commit(look))

    # -- choices ------------------------------------------------------------------------------------------------

    async def _choose(self, message: SelectMode) -> Mode:
        cell = self.cell
        if message.mode == "off":
            message.admit()
            address = cell.address
            cell.turn_off()
            if address is not None:
                self.forget(address)
            return cell.mode
        choice = message.choice or cell.choose(message.mode)
        if not choice.is_done:
            try:
                with choice.wait.waiting():
                    await self._carry_out(choice, message.admit)
            except StrataflowError as error:
                # A choice that gave way to another is no trouble of anybody (L29): the later one says what holds.
                reason = choice.wait.refusal
                choice.settle(None if reason is not None and reason.code != "E_CLOSED" else error)
            else:
                choice.settle()
        if choice.error is not None and not message.is_told:
            raise again(choice.error)
        return cell.mode

    async def _carry_out(self, choice: Choice, admit: Callable[[], None]) -> None:
        cell, mode = self.cell, choice.mode
        if mode == "active" and cell.is_in_order:
            # Nothing is stored, also in the middle of a run (L24). Memory is accepted as it is now all the same:
            # another process may have written it, which this one has not seen yet.
            await self.store.ask(OpenScopes(cell.cwd, cell.session_id))
            admit()
            return

        def admit_both() -> None:
            admit()
            choice.wait.admit()

        if mode == "passive":
            cell.go_passive()
        try:
            address, problem = await self._open(mode, admit=admit_both)
        except StrataflowError as error:
            if mode != "passive" or choice.wait.refusal is not None or error.code in ("E_CLOSED", "E_ABORTED"):
                raise  # the choice is refused, and the mode before it holds
            cell.fence(error)
            return
        if cell.choice is not choice and cell.mode == "off":
            self.forget(address)  # off was chosen while this was being stored
            return
        if problem is not None and mode == "active":
            raise again(problem)
        was = cell.mode
        cell.address, cell.mode = address, mode
        if problem is not None:
            cell.fence(problem)
            return
        cell.problem = None
        if mode == "active":
            context = cell.context
            context.change_mode("active")
            context.awaits_bootstrap = was != "active" and not context.has_conversation
        cell.note_accepted()
        cell.on_change(cell.watch_name)

    async def _fork(self, parent_id: str, admit: Callable[[], None]) -> None:
        """Copy the parent's memory, once (store 6.4)."""
        cell = self.cell
        parent = await self.store.ask(OpenScopes(cell.cwd, parent_id))
        child = await self.store.ask(OpenScopes(cell.cwd, cell.session_id))

        def stage(draft: Draft) -> None:
            admit()
            stage_fork(draft, parent, child)

        try:
            if self.check_files is not None:
                await self.check_files(parent)  # store 6.4.5
            await self.store.ask(Commit(stage))
        except StrataflowError:
            self.forget(child)
            raise
        finally:
            self.release(parent)
        cell.fork_from = None

    def forget(self, address: SessionAddress) -> None:
        """Nobody looks at this memory any more. Asks for nothing, and never waits."""
        with suppress(trio.WouldBlock, StoreError):
            self.store.tell_nowait(CloseScopes(address))

    async def _open(
        self,
        mode: Mode,
        *,
        admit: Callable[[], None] = _always,
        is_choice: bool = True,
        policy: HostPolicy | None = None,
    ) -> tuple[SessionAddress, StrataflowError | None]:
        """Load the session's memory as it is now and store the mode. Gives why it can not be used, if it can not: that
        blocks the session, it does not end it, since what is healthy can still be read (Ours-18)."""
        if self.cell.fork_from is not None:
            await self._fork(self.cell.fork_from, admit)
        address = await self.store.ask(OpenScopes(self.cell.cwd, self.cell.session_id))
        found: list[StrataflowError | None] = [None]  # returned, it would be raised here as the answer
        context = self.cell.context
        bootstrap = context.has_conversation

        def stage(draft: Draft) -> None:
            admit()
            found[0] = draft.problem_of(address)
            if found[0] is not None:
                return
            draft.stage_origin(address)
            if is_choice and mode == "active":
                stage_activation(draft, address, bootstrap=bootstrap)
            else:
                draft.stage_mode(address, mode)
            run = draft.readable(address)[2].run
            if policy is not None and policy.has_news and mode == "active" and run and run.specification is None:
                stage_bootstrap(draft, address)  # L6

        try:
            await self.store.ask(Commit(stage))
        except StoreError as error:
            if is_choice or mode != "passive" or error.code != "E_DISK":
                raise
            # Passive applies at once, stored or not; then nothing may be written until a choice is (store 4.2.3).
            self.cell.mode = "passive"
            self.cell.fence(error)
            found[0] = self.cell.problem
        return address, found[0]
