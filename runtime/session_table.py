"""The sessions that a runtime has open: each has one cell and one actor, however many handles there are.

::

    unknown --open--> opening --attached--> open --close--> closing --the actor has ended--> unknown

Opening and closing one session happen one after another, so that it is never started twice. Sessions do not wait for
each other: one may wait for another process, and the next be off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, final

import attrs
import trio

from ..actors import (
    Actor,
    ActorRef,
    ChildSpec,
    CloseScopes,
    HostRecorder,
    SessionActor,
    SessionCell,
    StoreWorld,
    Supervisor,
    TreeActor,
    TreeCell,
)
from ..store import (
    HostEntries,
    MemoryStore,
    Mode,
    SessionAddress,
    Settings,
    StoreError,
    check_session_id,
    load,
    shown,
    wanted_scopes,
)
from ..store.trace import TraceTree
from .diagnostics import Diagnostics
from .host_log import note_pending_fork
from .tree_shelf import TreeShelf

# Working directory and id of a session.
Key = tuple[str, str]


@attrs.frozen
class Opening:
    """How a session is opened.

    Attributes:
      fork_from: whose memory it begins with.
      tree: the caller's, or True for the session's own file.
      fork_tree: whose tree it begins with.
    """

    mode: Mode | None = None
    entries: HostEntries | None = None
    fork_from: str | None = None
    tree: TraceTree | Literal[True] | None = None
    fork_tree: TreeCell | None = None


@final
@attrs.define(eq=False)
class SessionTable:
    """One per runtime. ``is_closing``: the runtime is, and drops all memory at once."""

    _world: StoreWorld
    _state: MemoryStore
    _supervisor: Supervisor
    _store: ActorRef
    _settings: Settings
    _shelf: TreeShelf | None = None
    _diagnostics: Diagnostics = attrs.field(factory=Diagnostics)
    is_closing: bool = False
    # Who is opening a session, and which.
    _attaching: dict[trio.CancelScope, Key] = attrs.field(factory=dict, init=False)
    # Who opens or closes a session, one at a time.
    _turns: dict[Key, trio.Lock] = attrs.field(factory=dict, init=False)
    _cells: dict[Key, tuple[SessionCell, ActorRef]] = attrs.field(factory=dict)

    async def open(self, cwd: str, session_id: str, opening: Opening) -> tuple[SessionCell, ActorRef, bool]:
        """The session's cell and actor, and whether it was opened just now.

        Raises:
          StoreError: as ``Runtime.open_session``; E_BRANCH for a fork of a session that is open.
        """
        check_session_id(session_id)
        with trio.CancelScope() as scope:
            self._attaching[scope] = cwd, session_id
            try:
                async with self._turn((cwd, session_id)):
                    return await self._open(cwd, session_id, opening)
            finally:
                del self._attaching[scope]
        raise StoreError("E_CLOSED", f"session {shown(session_id)} was not opened: the runtime was closed meanwhile")

    async def _open(self, cwd: str, session_id: str, opening: Opening) -> tuple[SessionCell, ActorRef, bool]:
        found = self._cells.get((cwd, session_id))
        if found is not None and found[0].is_closed:
            # Whoever closed it was cancelled meanwhile.
            await self._end(found[0])
            found = None
        if found is not None:
            if opening.fork_from is not None:
                text = f"session {shown(session_id)} is open already: fork to an id that nobody has used"
                raise StoreError("E_BRANCH", text)
            refuse_other_tree(found[0], opening.tree)
            return (*found, False)
        cell = self._new_cell(cwd, session_id, opening)
        starter = self._starter(cell, opening.mode)
        if opening.tree is None and opening.fork_tree is None:
            actor = await self._supervisor.start(ChildSpec(_name(cell), starter))
        else:
            actor = await self._start_with_tree(cell, opening, starter)
        self._cells[cwd, session_id] = (cell, actor)
        return cell, actor, True

    async def _start_with_tree(self, cell: SessionCell, opening: Opening, starter: Callable[[], Actor]) -> ActorRef:
        """Start the actors of a session's tree and of the session itself, in this order: both or none."""
        tree = await self._tree_for(cell, opening)
        owned = TreeCell(
            cell.session_id,
            cell.cwd,
            tree,
            self._world.threads,
            self._world.report,
            lambda text: self._diagnostics.note(cell, "session-tree", text),
        )
        try:
            owned.ref = await self._supervisor.start(ChildSpec(_tree_name(cell), lambda: TreeActor(owned)))
            cell.tree = cell.host.entries = owned
            cell.context.on_run = owned.follow_run
            if opening.fork_from is not None and opening.mode == "off":
                note_pending_fork(owned, cell.session_id, opening.fork_from, self._world.clock.wall_ms())
            return await self._supervisor.start(ChildSpec(_name(cell), starter))
        except BaseException:
            # Without the shield a cancelled opening would leave an actor that nobody asked for, or the file of a child
            # that was not made. It ends: the actor is idle, or has one call to end, and the file takes one more.
            with trio.CancelScope(shield=True):
                await self._supervisor.stop_child(_tree_name(cell))
                if self._shelf is not None and opening.fork_tree is not None and not cell.may_be_copied:
                    with suppress(StoreError):
                        await self._shelf.discard(tree)
            raise

    async def _tree_for(self, cell: SessionCell, opening: Opening) -> TraceTree:
        if opening.tree is not None and opening.tree is not True:
            return opening.tree
        if self._shelf is None:
            raise StoreError("E_UNSUPPORTED", "this runtime keeps no session files")
        if opening.fork_tree is not None:
            return await self._shelf.fork(opening.fork_tree, cell.session_id)
        return await self._shelf.open(cell.cwd, cell.session_id, reads_store=opening.mode != "off")

    def _new_cell(self, cwd: str, session_id: str, opening: Opening) -> SessionCell:
        world = self._world
        host = HostRecorder(session_id, opening.entries, world.clock.wall_ms, world.report)
        return SessionCell(
            cwd,
            session_id,
            on_change=world.hub.wake_those_of,
            fork_from=opening.fork_from,
            memory=self._state,
            host=host,
        )

    def _starter(self, cell: SessionCell, mode: Mode | None) -> Callable[[], Actor]:
        settings = self._settings
        fresh = settings.mode or "off"
        return lambda: SessionActor(
            cell, self._store, mode, fresh, settings.inactive_mode, self.release, self._check_files
        )

    def release(self, address: SessionAddress) -> None:
        """Drop the memory of a session, unless it is open here. Never waits."""
        is_opening = (address.cwd, address.session_id) in self._attaching.values()
        if not is_opening and all(cell.address != address for cell, _ in self._cells.values()):
            with suppress(trio.WouldBlock, StoreError):
                self._store.tell_nowait(CloseScopes(address))

    async def _check_files(self, address: SessionAddress) -> None:
        """Raise E_CHANGED if a session's own files are not what the journal knows of them (store 6.4.5)."""
        ground, journal, scope = self._world.ground, self._world.journal, address.scope("session")
        wanted = [item for item in wanted_scopes(address) if item.scope == scope]
        loaded = await self._world.threads.work(
            lambda: load(ground.disk, ground.layout, journal, wanted, after=None).scopes[scope]
        )
        if loaded.error is not None:
            raise loaded.error
        if loaded.is_foreign:
            raise StoreError(
                "E_CHANGED",
                f"{ground.layout.folder(scope)}: somebody else changed the files of this session; nothing was copied. "
                "Write a checkpoint, which takes them over, then fork again",
            )

    async def close(self, cell: SessionCell) -> None:
        """Close one session (``Session.aclose``)."""
        # At once and for all handles; whoever opens the session again meanwhile waits for the end of this.
        cell.close()
        async with self._turn((cell.cwd, cell.session_id)):
            await self._end(cell)

    @asynccontextmanager
    async def _turn(self, key: Key) -> AsyncIterator[None]:
        turn = self._turns.setdefault(key, trio.Lock())
        try:
            async with turn:
                yield
        finally:
            if not turn.locked():
                self._turns.pop(key, None)

    async def _end(self, cell: SessionCell) -> None:
        """End what serves a session. Until that is done the session stays known, so that nobody starts it twice."""
        known = self._cells.get((cell.cwd, cell.session_id))
        if known is None or known[0] is not cell:
            return
        await self._supervisor.stop_child(_name(cell))
        if cell.tree is not None:
            await self._supervisor.stop_child(_tree_name(cell))
        if cell.address is not None and not self.is_closing:
            await self._store.ask(CloseScopes(cell.address))
        del self._cells[cell.cwd, cell.session_id]

    def withdraw_all(self) -> None:
        """The runtime closes: what waits for other processes is withdrawn (L33)."""
        self.is_closing = True
        for scope in self._attaching:
            scope.cancel()
        for cell, _ in self._cells.values():
            cell.withdraw_all()


def _name(cell: SessionCell) -> str:
    return f"session {cell.session_id} in {cell.cwd}"


def _tree_name(cell: SessionCell) -> str:
    return f"tree of {_name(cell)}"


def refuse_other_tree(cell: SessionCell, wanted: TraceTree | Literal[True] | None) -> None:
    """Raise E_BRANCH if a session is open without the tree that is wanted."""
    owned = cell.tree
    if wanted is None or (owned is not None and (wanted is True or wanted is owned.tree)):
        return
    what = "without a tree" if owned is None else "with another tree"
    text = f"session {shown(cell.session_id)} of {cell.cwd} is open {what}; close it first"
    raise StoreError("E_BRANCH", text)
