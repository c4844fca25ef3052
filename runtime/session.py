"""The handle of a session: what authors of agents hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, final

import attrs

from ..store import (
    Mode,
    ReadResult,
    Receipt,
    RequestError,
    compact,
    read,
    read_shared,
    shown,
)
from .call_arguments import no_members, only_member, read_arguments
from .changes import always
from .session_sources import SessionSources
from .transactions import Transaction, TransactionContext
from .transactions_again import TRANSACT_ATTEMPTS, Transacting
from .watching import Watch, begin_watch, wait_for

T = TypeVar("T")


@final
@attrs.frozen(eq=False, repr=False)
class Session(SessionSources):
    """One session of a store, open in this process. Made by ``runtime.open_session``.

    Every method raises StoreError E_CLOSED once the session or its runtime is closed, and in a forked child.
    """

    # -- changing -----------------------------------------------------------------------------------------------

    async def patch_state(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        call_id: str | None = None,
    ) -> Receipt:
        """Change memory: the patches of one to three scopes, all of them or none.

        A patch merges objects, replaces arrays and scalars, deletes keys given as ``None`` and edits elements of an
        array through keys such as ``"[0]"``. The arguments are copied at once.

        ``request_id``: your own name for this call, 1 to 200 characters that no other call of the store has. Asking
        again with it returns the first outcome, whatever else is given: see ``Runtime.outcome``.

        What the author could not foresee is in ``receipt.state_updates`` and counts as told to the model. ``call_id``:
        of the tool call whose result carries it; if that is missing in the next request, the request tells it.

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises:
          CallError: the patch is refused; nothing was stored.
          StoreError: E_CHANGED, E_DISK, E_CORRUPT, E_BROKEN (the outcome is unknown), E_CLOSED.
        """
        given = {"global": global_, "cwd": cwd, "session": session}
        self._check()
        patches = {name: patch for name, patch in given.items() if patch is not None}
        return await self._changes.patch(patches, always, request_id, call_id)

    async def accept_response(self, text: str, *, request_id: str | None = None) -> Receipt:
        """End the session's run with its final answer ``text``, which becomes the session's ``response``.

        ``request_id``: as for ``patch_state``.

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises:
          CallError: E_OFF outside active mode, E_JSON if ``text`` is no plain string.
          StoreError: as ``patch_state``.
        """
        self._check()
        return await self._changes.respond({"text": text}, always, request_id)

    async def set_mode(self, mode: Mode) -> Mode:
        """Select ``"active"``, ``"passive"`` or ``"off"`` for this session, over its memory as it is now.

        Always a checkpoint. If it raises Cancelled, nothing was changed, or the choice is carried out whole.

        Raises:
          CallError: E_SHAPE for another mode.
          StoreError: E_BUSY, E_DISK, E_BROKEN, E_CLOSED.
        """
        self._check()
        return await self._changes.select(mode, always)

    def transaction(self, *, request_id: str | None = None) -> TransactionContext:
        """Read and change memory as one step: the body of ``async with session.transaction() as tx`` works on memory
        as it was when it began, and what it patched is accepted at its end, all of it as one transition, if everything
        that it read is still so. A body that raises stores nothing. Nothing is locked meanwhile.

        ``request_id``: as for ``patch_state``. With an id that was accepted before the end changes nothing.

        The end is a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises, at the beginning CallError E_OFF and StoreError E_CHANGED, E_CLOSED; at the end
          ConflictError: something that was read is not so any more; nothing was stored.
          CallError, StoreError: as ``patch_state``.
        """
        return TransactionContext(self._home(), request_id)

    async def transact(
        self,
        fn: Callable[[Transaction], Awaitable[T] | T],
        *,
        attempts: int = TRANSACT_ATTEMPTS,
        request_id: str | None = None,
        or_else: Callable[[Transaction], Awaitable[T] | T] | None = None,
    ) -> T:
        """Run ``fn(tx)`` as a transaction, and again after each conflict, and return what it returns.

        ``fn`` may be async. It should do nothing that must not happen twice. ``await tx.retry()`` in it waits until
        something that it has read changes, by whomever, and then runs it again. With ``or_else``, that function is
        tried before any wait, on the same moment. What the one that does not retry has patched is stored.

        ``attempts``: how many conflicts in a row end it. ``request_id``: as for ``transaction``.

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.

        Raises:
          ConflictError: of the last attempt.
          CallError, StoreError: as ``transaction``; whatever a function raises, and then nothing was stored.
        """
        functions = (fn,) if or_else is None else (fn, or_else)
        return await Transacting(self._home(), functions, attempts, request_id).run()

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

    # -- watching -----------------------------------------------------------------------------------------------

    def watch(self, *paths: str) -> Watch:
        """Changes from now on of what ``paths`` give when they are read: an async iterator of ``Change``.

        Without a path every plane of every scope is watched. Changes that nobody has asked for yet become one, at most
        one for each scope; what was changed back is none. Other processes are seen too. Nothing is locked, and a watch
        that is dropped needs no end. See ``Watch`` for how it ends.

        Raises:
          ReadError: a path that can never give anything.
          CallError: E_OFF; E_SHAPE for too many paths.
          StoreError: E_CLOSED.
        """
        return begin_watch(self._sight(), paths)

    async def wait_for(self, path: str, predicate: Callable[[Any], Any]) -> Any:
        """Wait until ``predicate`` is true of the value at ``path``, and return that value, the caller's own.

        The predicate is called at once and after each change of the value, with a copy; with None where nothing is.
        What it raises is raised here.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          ReadError: a path that can never give anything.
          CallError: E_OFF; E_SHAPE for a predicate that is async.
          StoreError: the reason why a scope can not be read; E_CLOSED when the session or the runtime ends meanwhile.
        """
        return await wait_for(self._sight(), path, predicate)

    # -- as a model calls ---------------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        arguments: Any,
        *,
        admit: Callable[[], None] | None = None,
        request_id: str | None = None,
        call_id: str | None = None,
    ) -> Any:
        """One of the calls of the tool protocol, arguments unchecked: ``patch_state`` and ``read_state`` as a model
        makes them, ``accept_response``, ``set_mode``, ``status``, ``begin_run``, ``context``, ``preflight``,
        ``fork``, ``note_read``, ``registered_skills``, ``invalidations``. Returns the JSON of the result.

        ``admit``: called at the moment from which a change can not be withdrawn any more, perhaps several times. If it
        raises a StrataflowError, nothing is stored and the call raises that. Must not wait.

        ``request_id``, ``call_id``: as for ``patch_state``; the first for ``patch_state`` and ``accept_response`` only.

        Cancellation as in the method of that name.

        Raises:
          RequestError: there is no such call, or it takes no request id.
          StrataflowError: as the method of that name.
        """
        self._check()
        admit = admit or always
        match name:
            case "patch_state":
                return (await self._changes.patch(arguments, admit, request_id, call_id)).to_json()
            case "accept_response":
                receipt = await self._changes.respond(arguments, admit, request_id)
                return {"changed": receipt.changed, "step": receipt.step, "revision": receipt.revision}
            case _ if request_id is not None:
                text = f"the call {shown(name)} takes no request id; only patch_state and accept_response do"
                raise RequestError("E_REQUEST", text, call=str(name)[:96])
            case "read_state":
                await self._before_reading(False)
                return read(self._state.view(self._cell.readable()), arguments).to_json()
            case "set_mode":
                return {"mode": await self._changes.select(only_member(arguments, "mode"), admit)}
            case "status":
                no_members(arguments)
                return await self.status()
            case "begin_run" | "context" | "preflight" | "fork":
                return await self._call_run(name, arguments)
            case "note_read" | "registered_skills" | "invalidations":
                return await self._call_sources(name, arguments)
        raise RequestError("E_REQUEST", f"there is no call {shown(name)}", call=str(name)[:96])

    async def aclose(self) -> None:
        """Close this session; the store stays open for others. Idempotent.

        If it raises Cancelled, the session goes on closing.
        """
        await self._lifetime.close_session(self._cell)
