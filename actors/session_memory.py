"""How a session comes by its memory: loaded as it is now, copied from a parent, let go. Part of the session actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import trio

from ..store import (
    Draft,
    HostPolicy,
    Mode,
    SessionAddress,
    StoreError,
    StrataflowError,
    stage_activation,
    stage_bootstrap,
    stage_fork,
)
from .actor import ActorRef
from .session_cell import SessionCell
from .session_messages import always
from .store_messages import CloseScopes, Commit, OpenScopes


@attrs.define(eq=False)
class SessionMemory:
    """What one life of a session actor has at hand. ``wanted`` is an explicit mode; None takes the session's own,
    ``fresh`` for a new one, ``unreadable`` for one whose files or log do not tell (store 7.4). ``release``: drops
    memory of a session that is not open here. ``check_files``: raises if somebody else has written a
    session's own files.
    """

    cell: SessionCell
    store: ActorRef
    wanted: Mode | None
    fresh: Mode
    unreadable: Mode
    release: Callable[[SessionAddress], None] = lambda address: None
    check_files: Callable[[SessionAddress], Awaitable[None]] | None = None

    async def _fork(self, parent_id: str, admit: Callable[[], None]) -> None:
        """Copy the parent's memory, once (store 6.4)."""
        cell = self.cell
        parent = await self.store.ask(OpenScopes(cell.cwd, parent_id))
        child = await self.store.ask(OpenScopes(cell.cwd, cell.session_id))

        def stage(draft: Draft) -> None:
            admit()
            stage_fork(draft, parent, child)
            cell.may_be_copied = True

        try:
            if self.check_files is not None:
                await self.check_files(parent)  # store 6.4.5
            await self.store.ask(Commit(stage))
        except StrataflowError as error:
            self.forget(child)
            cell.may_be_copied = error.code == "E_BROKEN"
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
        admit: Callable[[], None] = always,
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
