"""Putting a runtime together, and taking it apart: ``open_runtime`` and ``Runtime``."""

from __future__ import annotations

from collections import deque
from typing import Any, final

import attrs
import trio

from ..actors import (
    ActorRef,
    Checkpoint,
    SessionCell,
    StoreWorld,
    Supervisor,
    Waits,
    WatchHub,
)
from ..store import (
    MODES,
    CallError,
    CheckpointReport,
    FlockLocks,
    HostEntries,
    Json,
    LogEntry,
    MemoryStore,
    Mode,
    SessionAddress,
    Settings,
    Status,
    StoreError,
    StrataflowError,
    normalise_cwd,
    shown,
)
from ..store.trace import TraceTree
from .host_log import note_pending_fork
from .inspection import inspect_store, turn_holder
from .joining import leave_store
from .prompt_desk import PromptDesk
from .reports import CLOSE_DEADLINE_S, CloseReport, RuntimeEvent
from .requests import Outcome, ask_outcome
from .session import Session
from .session_log import session_log
from .session_table import Opening, SessionTable
from .transactions_desk import TransactionDesk
from .tree_shelf import TreeShelf, checked_tree


@final
@attrs.define(eq=False, repr=False)
class Runtime:
    """An open store and the actors that serve it. Made by ``open_runtime``."""

    _world: StoreWorld
    _state: MemoryStore
    _supervisor: Supervisor
    _store: ActorRef
    _settings: Settings
    _events: deque[RuntimeEvent]
    _shelf: TreeShelf | None = None
    _closing: trio.Lock = attrs.field(factory=trio.Lock)
    _report: CloseReport | None = None
    _is_closing: bool = False
    _waits: Waits = attrs.field(factory=Waits, init=False)
    prompts: PromptDesk = attrs.Factory(lambda self: PromptDesk(self._world), takes_self=True)
    desk: TransactionDesk = attrs.Factory(lambda self: TransactionDesk(self._world), takes_self=True)
    _sessions: SessionTable = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: SessionTable(
                self._world,
                self._state,
                self._supervisor,
                self._store,
                self._settings,
                self._shelf,
                self.prompts.diagnostics,
            ),
            takes_self=True,
        ),
    )

    def __repr__(self) -> str:
        return f"<Runtime {shown(self.store_path)}{' closed' if self._is_closing else ''}>"

    @property
    def store_path(self) -> str:
        """The absolute path of the store."""
        return self._world.ground.layout.root

    @property
    def settings(self) -> Settings:
        """The operator's settings as they were when the runtime was opened."""
        return self._settings

    @property
    def events(self) -> tuple[RuntimeEvent, ...]:
        """The newest events, oldest first (at most 1,000 are kept)."""
        return tuple(self._events)

    @property
    def hub(self) -> WatchHub:
        """Who waits for changes of memory."""
        return self._world.hub

    async def open_session(
        self,
        cwd: str,
        session_id: str = "main",
        mode: Mode | None = None,
        *,
        entries: HostEntries | None = None,
        tree: TraceTree | bool | None = None,
    ) -> Session:
        """Open a session of this store.

        Args:
          cwd: an absolute working directory; it need not exist.
          session_id: names the session in its directory; an existing folder ``<id>`` or ``*_<id>`` is used.
          mode: selected for this session, also an existing one; None keeps its own, or takes the default for new ones.
          entries: the session's own log, which then says what its mode is; memory adds checkpoints and markers to it.
            Without one its files say it. Not looked at if the session is open already.
          tree: True for a session that keeps its conversation in a session file under its id, which is made or opened
            in ``<agent dir>/sessions``; or a ``SessionTree`` of yours with this id and directory, which belongs to the
            session until that is closed. It is the session's log, and ``session.tree``.

        Always a checkpoint. If it raises Cancelled, the session was not opened; what it needs may have been created.

        Raises:
          CallError: E_SHAPE for an unknown mode, an id that no session file can have, a tree of another session, or a
            tree beside entries.
          StoreError: E_UNSUPPORTED for a bad name, E_BRANCH if the id is ambiguous, or the session is open without this
            tree; E_CORRUPT for a session file that is none; E_DISK, E_CLOSED.
        """
        self.check()
        if mode is not None and mode not in MODES:
            raise CallError("E_SHAPE", f"mode {shown(mode)} is not one of {', '.join(MODES)}")
        place = normalise_cwd(cwd)
        return await self._open(
            place, session_id, Opening(mode, entries, tree=checked_tree(tree, place, session_id, entries))
        )

    async def _open(self, cwd: str, session_id: str, opening: Opening) -> Session:
        cell, actor, is_new = await self._sessions.open(cwd, session_id, opening)
        session = Session(cell, self._store, actor, self._state, self)
        if not is_new and opening.mode is not None and opening.mode != cell.mode:
            await session.set_mode(opening.mode)
        return session

    async def fork_session(self, parent: SessionCell, child_id: str, entries: HostEntries | None) -> Session:
        """See ``Session.fork``."""
        self.check()
        if parent.session_id == child_id:
            raise StoreError("E_BRANCH", f"session {shown(child_id)} can not be forked to itself: name another id")
        if parent.mode == "off" and entries is not None:
            # A later life of the child must know of it too (store 6.4.6).
            note_pending_fork(entries, child_id, parent.session_id, self._world.clock.wall_ms())
        if parent.tree is not None and entries is not None:
            raise CallError("E_SHAPE", "the child of a session with a tree has a tree too; leave out its entries")
        opening = Opening(parent.mode, entries, parent.session_id, fork_tree=parent.tree)
        return await self._open(parent.cwd, child_id, opening)

    async def inspect(self, cwd: str, session_id: str = "main") -> Status:
        """How a session and its store are, looked at from outside, whatever mode it is in: nothing is opened, selected
        or written (L39). What can not be read is part of it, never empty.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          ConfigError, StoreError: the store can not be read at all, or the name is a bad one.
        """
        self.check()
        look, limit = inspect_store(store=self.store_path), self._state.history_limit
        return await self._world.threads.work(lambda: look.status(normalise_cwd(cwd), session_id, limit))

    async def checkpoint(self) -> CheckpointReport:
        """Write everything accepted to the canonical files now.

        If it raises Cancelled, nothing was written, or what was prepared is finished later.

        Raises:
          StoreError: E_DISK, E_BUSY; nothing acknowledged is lost.
        """
        self.check()
        return await self._store.ask(Checkpoint())

    async def outcome(self, request_id: str) -> Outcome:
        """What became of a call with this request id, by whatever process: accepted, refused, or unseen.

        Calls that were staged before are decided first. Always a checkpoint. Cancelled loses nothing.

        Raises:
          CallError: E_SHAPE for what can not be a request id.
          StoreError: E_DISK, E_CORRUPT, E_BROKEN, E_CLOSED.
        """
        self.check()
        return await ask_outcome(self._store, request_id, self._waits)

    def check(self) -> None:
        """Raise StoreError E_CLOSED if this runtime is closed, or belongs to the process this one was forked from."""
        if self._is_closing or not self._world.member.lock.is_held:
            raise StoreError("E_CLOSED", f"{self.store_path}: this runtime is closed, or was forked; open another one")

    async def status(self) -> Json:
        """How the store is: ``lock_holder`` is the process whose turn it is to write, if any.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          StoreError: E_DISK if the turn's lock can not be looked at.
        """
        await trio.lowlevel.checkpoint()
        world = self._world
        # Only of locks that are the kernel's can the kernel tell who holds them.
        is_real = isinstance(world.ground.locks, FlockLocks)
        return {
            "store": self.store_path,
            "lock_holder": await world.threads.work(lambda: turn_holder(world.ground)) if is_real else None,
            "durability": world.level,
            "shared_with_pi": world.member.share_with_pi,
            "waiting": self._store.statistics().depth,
            "unwritten_rows": len(self._state.pending),
            **world.statistics(),
        }

    async def log_for(self, address: SessionAddress, path: str | None, limit: int) -> list[LogEntry]:
        """See ``Session.log``."""
        return await session_log(self._world, address, path, limit)

    def statistics(self) -> Any:
        """Numbers of everything alive."""
        return self._supervisor.statistics()

    async def close_session(self, cell: SessionCell) -> None:
        """Close one session (``Session.aclose``)."""
        await self._sessions.close(cell)

    async def aclose(self, deadline: float = CLOSE_DEADLINE_S) -> CloseReport:
        """Close: accept nothing more, finish what is accepted, write it to the canonical files, leave the store.

        Returns within ``deadline`` seconds from now, also while its task is cancelled, and says what it had to leave
        behind. Idempotent: a second call returns the first report.
        """
        started = trio.current_time()
        self._is_closing = True
        self._sessions.withdraw_all()
        self._waits.withdraw(StoreError("E_CLOSED", f"{self.store_path}: this runtime was closed meanwhile"), "read")
        self.hub.wake()
        left: list[str] = []
        # Shielded, so that a cancelled program still leaves a store that others can use at once. It ends at the
        # deadline, whatever hangs.
        with trio.CancelScope(shield=True, deadline=started + deadline):
            async with self._closing:
                if self._report is None:
                    # It keeps its own time: a loop that comes round late must give up what hangs before it leaves.
                    with trio.CancelScope(shield=True):
                        await self._stop_actors(left, started + deadline / 2, started + deadline)
                    await self._leave(left, started)
        if self._report is None:
            left.append("leaving the store did not end in time: a thread hangs in a system call")
            self._report = CloseReport(False, False, tuple(left), trio.current_time() - started)
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._report

    async def _stop_actors(self, left: list[str], deadline: float, last: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give_up_at, left, (deadline + last) / 2)
            with trio.move_on_at(deadline) as scope:
                try:
                    await self._supervisor.close()
                except StrataflowError as error:
                    left.append(str(error))
            nursery.cancel_scope.cancel()
        if scope.cancelled_caught:
            left.append("work that was accepted did not end in time and was cancelled")
        left.extend(map(str, self._supervisor.take_errors()))

    async def _give_up_at(self, left: list[str], moment: float) -> None:
        await trio.sleep_until(moment)
        count = self._world.threads.give_up()
        left.append(f"{count} threads hang in a system call and were left to themselves")

    async def _leave(self, left: list[str], started: float) -> None:
        try:
            report = await leave_store(self._world, self._state)
        except StrataflowError as error:
            left.append(f"the store could not be left in good order: {error}")
            self._report = CloseReport(False, False, tuple(left), trio.current_time() - started)
            return
        if report.cause:
            left.append(report.cause)
        if not report.pi_lock_removed and report.was_last:
            left.append(f"the lock {self._world.ground.layout.pi_lock} stays until a later close can write everything")
        self._report = CloseReport(report.was_last, report.pi_lock_removed, tuple(left), trio.current_time() - started)
