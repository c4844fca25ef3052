"""When the canonical files are written: off the commit path, soon after work stops, never too late (Ours-1, Ours-17).

    CLEAN --work--> DUE --2 s idle, 30 s, or 4 MiB of rows--> WRITING --done--> CLEAN or DUE
                     ^                                           |
                     +------------- failed: reported, tried again, ever later ---+

A failed checkpoint loses nothing, since the rows stay in the journal. While it keeps failing the journal may grow to a
stated bound; from there commits are refused, so that a full disk does not fill further.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar, final

import attrs
import trio

from ..store import (
    NOTHING,
    CheckpointReport,
    MemoryStore,
    Root,
    Stamp,
    StoreError,
    StrataflowError,
    checkpoint,
)
from .limits import (
    CAPTURE_ROUNDS_MAX,
    CHECKPOINT_BYTES,
    CHECKPOINT_IDLE_S,
    CHECKPOINT_LATEST_S,
    CHECKPOINT_RETRY_S_MAX,
    JOURNAL_BYTES_MAX,
)
from .store_world import StoreWorld

if TYPE_CHECKING:
    from .turn import Turn

T = TypeVar("T")


@final
@attrs.define(eq=False)
class Checkpointer:
    """Decides when, and does it in a worker thread. ``refresh`` follows the journal afterwards."""

    _world: StoreWorld
    _state: MemoryStore
    _stamp: Callable[[], Stamp]
    _refresh: Callable[[], Awaitable[None]]
    _due: trio.Event = attrs.field(factory=trio.Event, init=False)
    _full: trio.Event = attrs.field(factory=trio.Event, init=False)
    _one_at_a_time: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _last_work_s: float = attrs.field(default=0.0, init=False)
    _written_bytes: int = attrs.field(default=0, init=False)
    _failure: StrataflowError | None = attrs.field(default=None, init=False)
    _blocked: dict[str, str] = attrs.field(factory=dict, init=False)
    _is_over_bound: bool = attrs.field(default=False, init=False)
    turn: Turn | None = attrs.field(default=None, init=False)

    def note_work(self) -> None:
        """A commit was appended. Cheap: called after each one."""
        self._last_work_s = trio.current_time()
        if not self._due.is_set():
            self._written_bytes = self._world.journal.appended_bytes
            self._due.set()
        elif self._world.journal.appended_bytes - self._written_bytes > CHECKPOINT_BYTES:
            self._full.set()

    def refusal(self) -> StoreError | None:
        """Why commits must wait: checkpoints fail and the journal has reached its bound."""
        if not self._is_over_bound:
            return None
        why = f"the journal has reached {JOURNAL_BYTES_MAX >> 20} MiB"
        if self._world.shared_pi is not None:
            why = "the store is shared with Pi, which reads only them"
        text = f"the canonical files can not be written ({self._failure}) and {why}; remove the cause"
        return StoreError("E_DISK", text, path=self._world.ground.layout.root)

    async def run(self) -> None:
        """Write when it is due, until cancelled."""
        if self._state.pending:
            # Left by a crash. Whoever has just opened the store goes first: the program may want to work.
            self._last_work_s = trio.current_time()
            self._due.set()
        retry_s = CHECKPOINT_IDLE_S
        # Also where it came to nothing before it began, such as by a disk that refuses our lock in Pi's place.
        has_failed = False
        while True:
            await self._due.wait()
            if not has_failed and self._failure is None:
                await self._wait_for_a_good_moment()
            else:
                await trio.sleep(retry_s)
                retry_s = min(2 * retry_s, CHECKPOINT_RETRY_S_MAX)
            try:
                await self.checkpoint()
                has_failed = False
            except StoreError as error:
                if error.code not in ("E_DISK", "E_BUSY"):
                    raise
                self._world.report("checkpoint-failed", error=error)
                has_failed = True
            if not has_failed and self._failure is None:
                retry_s = CHECKPOINT_IDLE_S

    async def _wait_for_a_good_moment(self) -> None:
        with trio.move_on_after(CHECKPOINT_LATEST_S):
            while not self._full.is_set():
                idle_since = self._last_work_s
                with trio.move_on_at(idle_since + CHECKPOINT_IDLE_S):
                    await self._full.wait()
                if self._last_work_s == idle_since:
                    return

    async def checkpoint(self) -> CheckpointReport:
        """Write now. If it raises Cancelled, nothing was written or a prepared list will be finished by the next one.

        Raises:
          StoreError: E_DISK, E_BUSY; nothing is lost. E_BROKEN, E_CORRUPT: the journal must be opened again.
        """
        report, _ = await self.checkpoint_and(lambda report: report)
        return report

    async def checkpoint_and(
        self, read: Callable[[CheckpointReport], T | None], patience_s: float = math.inf
    ) -> tuple[CheckpointReport, T]:
        """Write now, then ``read`` before anybody else may write: what it sees is of one moment.

        ``read``: None asks for another checkpoint first. ``patience_s``: how long to wait for whoever writes, or keeps
        us out. Cancelled as for ``checkpoint``.

        Raises:
          StoreError: as ``checkpoint``, E_BUSY after the patience or many rounds; what ``read`` raises.
        """
        with trio.move_on_after(patience_s) as waiting:
            async with self._one_at_a_time, self._kept_out():
                lock = self._world.checkpoint_lock
                if not lock.try_acquire():
                    await self._world.threads.wait_lock(lock)
                waiting.deadline = math.inf  # from here on it is work
                try:
                    report, found = await self._rounds(read)
                finally:
                    lock.release()
            if report.superseded:
                await self._refresh()
            if found is not None:
                return report, found
        raise StoreError("E_BUSY", f"{self._world.ground.layout.root}: somebody else is writing the files; ask again")

    async def _rounds(self, read: Callable[[CheckpointReport], T | None]) -> tuple[CheckpointReport, T | None]:
        superseded: tuple[str, ...] = ()
        for _ in range(CAPTURE_ROUNDS_MAX):
            self._due, self._full = trio.Event(), trio.Event()
            report = await self._written(self._state.snapshot())
            self.note(report)
            superseded += report.superseded
            done = report
            found = await self._world.threads.work(lambda: read(done))  # noqa: B023
            if found is not None:
                break
        return attrs.evolve(report, superseded=superseded), found

    async def _written(self, root: Root) -> CheckpointReport:
        try:
            return await self._world.threads.work(lambda: self._write(root))
        except StoreError as error:
            self.note(error)
            raise

    def _kept_out(self) -> AbstractAsyncContextManager[None]:
        """Shared with Pi: the turn and Pi's lock come before the checkpoint's (J7)."""
        assert self.turn is not None
        return self.turn.held() if self._world.shared_pi is not None else nullcontext()

    def note(self, outcome: CheckpointReport | StoreError) -> None:
        """How a checkpoint ended. One that had to leave a scope out is tried again like one that failed."""
        if isinstance(outcome, StoreError):
            self._note_failure(outcome)
            return
        self._state.drop_pending(outcome.through)
        blocked = {scope: str(cause) for scope, cause in outcome.blocked.items()}
        for scope, cause in blocked.items():
            if self._blocked.get(scope) != cause:  # once, and not with each attempt
                self._world.report("checkpoint-blocked", scope=scope, error=cause)
        self._blocked = blocked
        self._failure, self._is_over_bound = None, False
        for error in outcome.blocked.values():
            self._note_failure(error)

    def _note_failure(self, error: StrataflowError) -> None:
        self._failure = error
        # Shared with Pi, everything must be in the files before the next batch (J7).
        self._is_over_bound = self._is_large() or self._world.shared_pi is not None
        self._due.set()

    def _is_large(self) -> bool:
        try:
            return self._world.journal.size_bytes() > JOURNAL_BYTES_MAX
        except StoreError:
            # Noting a failure must not fail itself: a commit that is stored may be waiting for its answer.
            return self._is_over_bound

    def write(self) -> CheckpointReport:
        """Checkpoint in the calling thread, with the turn held: nobody else writes now.

        The files are read, since the root may change while this thread looks at it.
        """
        lock = self._world.checkpoint_lock
        if not lock.try_acquire():
            raise StoreError("E_BUSY", "another process is writing the canonical files; they will be written later")
        try:
            return self._write(NOTHING)
        finally:
            lock.release()

    def _write(self, root: Root) -> CheckpointReport:
        ground, limit = self._world.ground, self._state.history_limit
        return checkpoint(ground.disk, ground.layout, self._world.journal, self._stamp, history_limit=limit, root=root)
