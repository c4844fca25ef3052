"""The session actor: one per open session. It owns the mode and everything that happens one after another in a session.

Modes (only ``_select`` moves them; store 6.1)::

    off <--select--> passive <--select--> active

Off touches no storage at all. Selecting another mode accepts the session's files as they are now, and so ends a fence.
Patches do not pass through here: they go from the handle to the store actor, in the order in which they are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import attrs
import trio

from ..store import CallError, Draft, Mode, Receipt, SessionAddress, StoreError, StrataflowError
from .actor import ActorRef, Request, serve
from .mailbox import Mailbox
from .store_messages import Commit, OpenScopes, refusal


def _always() -> None:
    """Every asker may go on."""


@final
@attrs.frozen
class SelectMode(Request[Mode]):
    """Select a mode. The answer is the mode that holds afterwards. ``admit``: as for ``AcceptResponse``."""

    mode: Mode
    admit: Callable[[], None] = _always


@final
@attrs.frozen
class AcceptResponse(Request[Receipt]):
    """End the current run, or an implicit one, with this answer (store 3.4), unless ``request_id`` was used before.

    ``admit`` is called when the answer is staged; it may raise instead, and then nothing is stored.
    """

    text: str
    admit: Callable[[], None] = _always
    request_id: str | None = None


@final
@attrs.define(eq=False)
class SessionCell:
    """What a session's handles may see without asking: written by the session actor only.

    Attributes:
      address: where the session lies; None in off, which looks at no storage.
      mode: the selected mode.
      problem: why memory can not be written although the mode wants it; the session is blocked.
      is_closed: nobody may use it any more (set by ``close``, which the runtime calls).
      on_change: called with ``watch_name`` when the mode was selected anew and when the session is closed.
    """

    cwd: str
    session_id: str
    mode: Mode = "off"
    address: SessionAddress | None = None
    problem: StrataflowError | None = None
    is_closed: bool = False
    on_change: Callable[[str], None] = lambda _: None

    @property
    def watch_name(self) -> str:
        """What the session's watches listen to beside its scopes, to hear of the session itself. No folder's name."""
        return f"\0{self.cwd}\0{self.session_id}"

    def watched(self) -> list[str]:
        """What those listen to who want to know of every change that this session may see.

        Raises:
          CallError: E_OFF.
        """
        return [*(scope for _, scope in self.readable().scopes()), self.watch_name]

    def close(self) -> None:
        """From now on nobody may use the session."""
        self.is_closed = True
        self.on_change(self.watch_name)

    def writable(self) -> SessionAddress:
        """The address, if memory may be changed (T9 rows 1 and 3).

        Raises:
          CallError: E_OFF, E_FENCED.
        """
        address = self.readable()
        if self.problem is not None and self.problem.code == "E_FENCED":
            raise CallError(self.problem.code, self.problem.message, **self.problem.data)
        return address

    def readable(self) -> SessionAddress:
        """The address, if memory may be read.

        Raises:
          CallError: E_OFF.
        """
        if self.mode == "off" or self.address is None:
            raise CallError("E_OFF", "the memory tools are off in this session; select active or passive first")
        return self.address


@final
@attrs.define(eq=False)
class SessionActor:
    """One life. ``wanted`` is an explicit mode; None takes the session's own, ``fresh`` for a new one, ``unreadable``
    for one whose files do not tell (store 7.4)."""

    cell: SessionCell
    store: ActorRef
    wanted: Mode | None
    fresh: Mode
    unreadable: Mode

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Open the session, then serve."""
        await self._attach()
        task_status.started()
        await serve(mailbox, self._handle)

    async def _handle(self, message: SelectMode | AcceptResponse) -> Mode | Receipt:
        if isinstance(message, SelectMode):
            await self._select(message.mode, message.admit)
            return self.cell.mode
        try:
            address = self.cell.writable()
            if self.cell.mode != "active":
                raise CallError("E_OFF", "answers are kept in active mode only; select it first")
        except CallError as error:
            return await self.store.ask(refusal(error, message.request_id, message.admit))

        def stage(draft: Draft) -> Receipt:
            message.admit()
            return draft.stage_response(address, message.text, message.request_id)

        return await self.store.ask(Commit(stage))

    async def _attach(self) -> None:
        """Find the mode: the explicit one, else what the session was, else what new sessions get (Ours-11)."""
        await self._select(self.wanted or await self._own_mode())

    async def _own_mode(self) -> Mode:
        address = await self.store.ask(OpenScopes(self.cell.cwd, self.cell.session_id))

        def look(draft: Draft) -> Mode:
            return draft.mode_of(address, fresh=self.fresh, unreadable=self.unreadable)

        return await self.store.ask(Commit(look))

    async def _select(self, mode: Mode, admit: Callable[[], None] = _always) -> None:
        if mode == "off":
            admit()
            self.cell.mode, self.cell.problem = "off", None
            self.cell.on_change(self.cell.watch_name)
            return
        address = await self.store.ask(OpenScopes(self.cell.cwd, self.cell.session_id))
        self.cell.address = address

        found: list[StrataflowError | None] = [None]  # returned, it would be raised here as the answer

        def stage(draft: Draft) -> None:
            admit()
            found[0] = draft.problem_of(address)
            if found[0] is None:
                draft.stage_origin(address)
                draft.stage_mode(address, mode)

        # Unreadable memory blocks the session, it does not end it: what is healthy can still be read (Ours-18).
        try:
            await self.store.ask(Commit(stage))
        except StoreError as error:
            if mode != "passive" or error.code != "E_DISK":
                raise  # the choice is refused, and the mode before it holds
            # Passive applies at once, stored or not; then nothing may be written until a choice is (store 4.2.3).
            found[0] = _fence(error)
        self.cell.problem, self.cell.mode = found[0], mode
        self.cell.on_change(self.cell.watch_name)


def _fence(cause: StoreError) -> CallError:
    text = f"writing is paused, since the choice of passive could not be stored ({cause}); select passive or active"
    return CallError("E_FENCED", text, cause=cause.code)
