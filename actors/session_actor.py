"""The session actor: one per open session. It stores the session's modes and answers, one after another.

Which mode holds, and from when on, is the cell's business (``session_cell``): passive and off hold at once. Handles do
not ask here for off, since it needs nobody. Selecting active or passive accepts the session's files as they are now,
and so ends a fence. Patches and preparations go from the handle to the store actor, in the order they are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs
import trio

from ..store import (
    CallError,
    Draft,
    HostPolicy,
    Mode,
    Receipt,
    StrataflowError,
)
from ..store.projection import Handoff
from .actor import serve
from .mailbox import Mailbox
from .session_cell import Choice
from .session_memory import SessionMemory
from .session_messages import AcceptResponse, MoveTree, SelectMode
from .store_messages import Commit, OpenScopes, refusal
from .tree_actor import TreeAnswer
from .waits import again


@final
@attrs.define(eq=False)
class SessionActor(SessionMemory):
    """One life."""

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Open the session, then serve."""
        await self._attach()
        if self.cell.tree is not None:
            await self.cell.tree.settle()  # whoever looks into the tree finds what memory has noted
        task_status.started()
        await serve(mailbox, self._handle)

    async def _handle(self, message: SelectMode | AcceptResponse | MoveTree) -> Any:
        if isinstance(message, SelectMode):
            return await self._choose(message)
        if isinstance(message, MoveTree):
            return await self._move(message)
        return await self._accept(message)

    async def _accept(self, message: AcceptResponse) -> Receipt:
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
        if cell.tree is not None:
            await cell.tree.look()
        policy = cell.host.policy(self.unreadable)
        if policy is None:
            mode = self.wanted or await self._own_mode()
        elif policy.is_new:
            # A new tree can belong to a session that is older than it, and of which only its memory tells.
            mode = self.wanted or (self.fresh if cell.tree is None else await self._own_mode())
        else:
            mode = self.wanted or policy.mode or self.unreadable
        is_resumed = policy is not None and not policy.is_new
        if policy is not None:
            self._take_over(policy)
        if mode == "off":
            cell.context.attach(is_resumed=is_resumed)
            if policy is not None and policy.mode != "off":
                cell.host.checkpoint(None, "off", None)
            return
        await self._attach_memory(mode, policy, is_explicit=self.wanted is not None)
        record = cell.record
        cell.context.attach(is_resumed=is_resumed or (record is not None and record.step > 0))
        if cell.problem is None:
            cell.note_accepted()
        cell.on_change(cell.watch_name)

    async def _attach_memory(self, mode: Mode, policy: HostPolicy | None, *, is_explicit: bool) -> None:
        """Take the session's memory as it is now."""
        cell = self.cell
        choice = cell.choice
        address, problem = await self._open(mode, is_choice=False, policy=policy)
        if cell.choice is not choice:
            if cell.mode == "off":
                self.forget(address)
                return
            mode = cell.mode  # passive holds at once, active when its turn comes
        cell.address, cell.mode = address, mode
        if policy is not None and policy.fence is not None and not is_explicit:
            problem = CallError("E_FENCED", f"writing is paused ({policy.fence}); select passive or active")
        cell.problem = problem

    async def _move(self, message: MoveTree) -> TreeAnswer:
        """The tree goes to another branch: its policy holds, over memory as it is now (store 6.2.4). Nothing is noted
        in the tree, whose leaf is where its owner sent it."""
        cell = self.cell
        assert cell.tree is not None
        answer = await cell.tree.attempt(message.call)
        if answer.error is not None:
            return answer  # of whatever kind it is, it is the caller's (T4)
        cell.leave_branch()
        await cell.tree.look()
        policy = cell.host.policy(self.unreadable)
        assert policy is not None
        mode = policy.mode or (self.unreadable if policy.is_unavailable else cell.mode)
        cell.context.handoff = None
        self._take_over(policy)
        cell.context.attach(is_resumed=True)
        address = cell.address
        if mode == "off":
            cell.mode, cell.address, cell.problem = "off", None, None
            if address is not None:
                self.forget(address)
        else:
            try:
                await self._attach_memory(mode, policy, is_explicit=False)
            except StrataflowError as error:
                # The tree has moved, and memory could not follow: blocked under the branch's mode, until a mode is
                # selected (L8). Going on under the old one would store what another branch has said.
                cell.address, cell.mode, cell.problem = None, mode, error
        cell.on_change(cell.watch_name)
        return answer

    def _take_over(self, policy: HostPolicy) -> None:
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
