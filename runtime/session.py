"""The handle of a session: what authors of agents hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, final

import attrs
import trio

from ..actors import AcceptResponse, ActorRef, Commit, Refresh, Request, SelectMode, SessionCell
from ..store import (
    MODES,
    CallError,
    Draft,
    Json,
    MemoryStore,
    Mode,
    ReadResult,
    Receipt,
    RequestError,
    ScopeName,
    SessionAddress,
    StoreError,
    check_patch_arguments,
    compact,
    read,
    read_shared,
    shown,
)
from .call_arguments import is_text, no_members, only_member, read_arguments
from .lifetime import Lifetime
from .session_status import session_status

ReplyT = TypeVar("ReplyT")


@final
@attrs.frozen(eq=False, repr=False)
class Session:
    """One session of a store, open in this process. Made by ``runtime.open_session``.

    Every method raises StoreError E_CLOSED once the session or its runtime is closed, and in a forked child.
    """

    _cell: SessionCell
    _store: ActorRef
    _actor: ActorRef
    _state: MemoryStore
    _lifetime: Lifetime

    def __repr__(self) -> str:
        # Never what it remembers: that is private, and may be large.
        state = " closed" if self._cell.is_closed else ""
        return f"<Session {shown(self.session_id)} in {shown(self.cwd)} {self.mode}{state}>"

    @property
    def cwd(self) -> str:
        """The absolute working directory."""
        return self._cell.cwd

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._cell.session_id

    @property
    def mode(self) -> Mode:
        """The selected mode."""
        return self._cell.mode

    # -- changing -----------------------------------------------------------------------------------------------

    async def patch_state(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Change memory: the patches of one to three scopes, all of them or none.

        A patch merges objects, replaces arrays and scalars, deletes keys given as ``None`` and edits elements of an
        array through keys such as ``"[0]"``. The arguments are copied at once.

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises:
          CallError: the patch is refused; nothing was stored.
          StoreError: E_CHANGED, E_DISK, E_CORRUPT, E_BROKEN (the outcome is unknown), E_CLOSED.
        """
        given = {"global": global_, "cwd": cwd, "session": session}
        return await self._patch({name: patch for name, patch in given.items() if patch is not None}, _always)

    async def _patch(self, arguments: Any, admit: Callable[[], None]) -> Receipt:
        self._check()
        address = self._cell.writable()
        patches = check_patch_arguments(arguments)
        return await self._store.ask(Commit(_patch(address, patches, admit)))

    async def accept_response(self, text: str) -> Receipt:
        """End the session's run with its final answer ``text``, which becomes the session's ``response``.

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises:
          CallError: E_OFF outside active mode, E_JSON if ``text`` is no plain string.
          StoreError: as ``patch_state``.
        """
        return await self._accept_response(text, _always)

    async def _accept_response(self, text: str, admit: Callable[[], None]) -> Receipt:
        self._check()
        if type(text) is not str or not is_text(text):
            raise CallError("E_JSON", f"the answer must be a plain string, not {shown(text)}", pointer="/text")
        return await self._withdrawable(lambda admit: AcceptResponse(text, admit), admit)

    async def set_mode(self, mode: Mode) -> Mode:
        """Select ``"active"``, ``"passive"`` or ``"off"`` for this session, over its memory as it is now.

        Always a checkpoint. If it raises Cancelled, nothing was changed, or the choice is carried out whole.

        Raises:
          CallError: E_SHAPE for another mode.
          StoreError: E_BUSY, E_DISK, E_BROKEN, E_CLOSED.
        """
        return await self._set_mode(mode, _always)

    async def _set_mode(self, mode: Mode, admit: Callable[[], None]) -> Mode:
        self._check()
        if mode not in MODES:
            raise CallError("E_SHAPE", f"mode {shown(mode)} is not one of {', '.join(MODES)}")
        return await self._withdrawable(lambda admit: SelectMode(mode, admit), admit)

    async def _withdrawable(
        self, message: Callable[[Callable[[], None]], Request[ReplyT]], admit: Callable[[], None]
    ) -> ReplyT:
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

    # -- reading ------------------------------------------------------------------------------------------------

    async def read_state(
        self,
        path: str | None = None,
        *,
        paths: Sequence[str] | None = None,
        projection: Literal["value", "keys", "patch"] = "value",
        fresh: bool = False,
    ) -> ReadResult:
        """Read by path, such as ``"effective.contract"`` or ``"cwd[2].working.list[0:3]"``.

        What comes back is the caller's own copy. With ``fresh`` what other processes have committed is followed first.

        Always a checkpoint. Reading changes nothing, so Cancelled loses nothing.

        Raises:
          ReadError: the arguments, a path, or what it names.
          CallError: E_OFF.
          StoreError: the reason why a scope that is needed can not be read.
        """
        arguments = read_arguments(path, paths, projection)
        await self._before_reading(fresh)
        return read(self._state.view(self._cell.readable()), arguments)

    async def read_json(
        self,
        path: str | None = None,
        *,
        paths: Sequence[str] | None = None,
        projection: Literal["value", "keys", "patch"] = "value",
        fresh: bool = False,
    ) -> str:
        """As ``read_state``, as JSON text without a copy in between."""
        arguments = read_arguments(path, paths, projection)
        await self._before_reading(fresh)
        return compact(read_shared(self._state.view(self._cell.readable()), arguments).to_json())

    async def _before_reading(self, fresh: bool) -> None:
        self._check()
        if fresh:
            await self._store.ask(Refresh())
        else:
            await trio.lowlevel.checkpoint()

    def _check(self) -> None:
        self._lifetime.check()
        cell = self._cell
        if cell.is_closed:
            raise StoreError("E_CLOSED", f"session {shown(cell.session_id)} of {cell.cwd} is closed; open it again")

    # -- as a model calls ---------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: Any, *, admit: Callable[[], None] | None = None) -> Json:
        """One of the tools as a model calls it, arguments unchecked: ``patch_state``, ``read_state``,
        ``accept_response``, ``set_mode`` or ``status``. Returns the JSON of the result.

        ``admit``: called at the moment from which a change can not be withdrawn any more, perhaps several times. If it
        raises a StrataflowError, nothing is stored and the call raises that. Must not wait.

        Cancellation as in the method of that name.

        Raises:
          RequestError: there is no such call.
          StrataflowError: as the method of that name.
        """
        admit = admit or _always
        match name:
            case "patch_state":
                return (await self._patch(arguments, admit)).to_json()
            case "read_state":
                await self._before_reading(False)
                return read(self._state.view(self._cell.readable()), arguments).to_json()
            case "accept_response":
                receipt = await self._accept_response(only_member(arguments, "text"), admit)
                return {"changed": receipt.changed, "step": receipt.step, "revision": receipt.revision}
            case "set_mode":
                return {"mode": await self._set_mode(only_member(arguments, "mode"), admit)}
            case "status":
                no_members(arguments)
                return await self.status()
        raise RequestError("E_REQUEST", f"there is no call {shown(name)}", call=str(name)[:96])

    async def status(self) -> Json:
        """How this session is: mode, revision, step, history depth, sizes in bytes, problems. Changes nothing."""
        await self._before_reading(False)
        return {**session_status(self._cell, self._state), **await self._lifetime.status()}

    async def aclose(self) -> None:
        """Close this session; the store stays open for others. Idempotent.

        If it raises Cancelled, the session goes on closing.
        """
        await self._lifetime.close_session(self._cell)


def _always() -> None:
    """Nobody withdraws."""


def _patch(
    address: SessionAddress, patches: Mapping[ScopeName, Json], admit: Callable[[], None]
) -> Callable[[Draft], Receipt]:
    def stage(draft: Draft) -> Receipt:
        admit()
        return draft.stage_patch(address, patches)

    return stage
