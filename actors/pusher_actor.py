"""The pusher: one per store, it backs up what was accepted and pushes the commits, and holds nobody up.

    backup   IDLE --settled, asked--> WAITING --the locks--> BACKING UP --committed, nothing new, failed--> IDLE
                                         +-- busy: deferred to a later answer; off, closing: silently --> IDLE
    push     FREE --a backup that did not fail--> PUSHING --nothing of it is left running--> FREE
                                                     +-- asked for again meanwhile: dropped

Backups come one after another; whoever asks while one waits shares it. What lasts over lives is in ``PushDesk``.

Invariants:
  U1  At most one push of a store runs in this process, and of a repository on this machine (a kernel lock).
  U2  The slot is free only when nothing of the push is left running.
  U3  A failure is logged, always; of failures of pushes in a row only the first is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import final

import attrs
import trio

from ..store import MemoryStore, StoreError, StrataflowError
from ..store.backup import BackupReport, BackupStatus, Happening, PushReport, warning
from ..store.repository import has_repository, read_record
from .actor import ActorRef, Request
from .backup_step import BackupStep
from .envelope import Envelope
from .git import Git
from .limits import BACKUP_PATIENCE_S
from .mailbox import Mailbox
from .processes import Processes
from .push_step import PushStep
from .store_world import StoreWorld

# Adds a record to the diagnostics log: for whom, and what. False if there is no place for one.
LogFailure = Callable[[str | None, str], bool]


@final
@attrs.frozen
class BackUp(Request[BackupReport]):
    """Back up now, and wait for whoever is at work. ``is_complete``: look at every file. ``pushes``: push afterwards.

    ``scope``: cancelled by an asker who leaves, since nobody else wants it; a commit that is under way is finished.
    """

    is_complete: bool = False
    pushes: bool = True
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, eq=False)


@final
@attrs.frozen
class Settled:
    """An answer was accepted in active mode: back up if something is due. ``owner``: the session's name."""

    owner: str


@final
@attrs.frozen
class Withdraw:
    """The session was turned off: what it has brought about ends."""

    owner: str


@final
@attrs.frozen
class WaitPushed(Request[PushReport | None]):
    """Wait until no push is under way, nor a backup after an answer. The answer is how the last push of this runtime
    ended, if there was one."""


@final
@attrs.frozen
class AskStatus(Request[BackupStatus]):
    """How the backups of the store are."""


@final
@attrs.define(eq=False)
class PushDesk:
    """What lasts over lives of the pusher, and what it stands on.

    Attributes:
      attempted: the head of the journal at the last attempt: nothing is due until it is another one.
      is_failing: whether the last push failed, so that the next failure is no news.
    """

    world: StoreWorld
    state: MemoryStore
    store: ActorRef
    processes: Processes
    log: LogFailure
    attempted: int = 0
    is_failing: bool = False
    last_push: PushReport | None = None


@final
@attrs.define(eq=False)
class PusherActor:
    """One life."""

    desk: PushDesk
    _backup: BackupStep = attrs.field(init=False)
    _push: PushStep = attrs.field(init=False)
    _one_at_a_time: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    # Whoever runs on behalf of a session, to be ended when it is turned off.
    _owned: dict[trio.CancelScope, str] = attrs.field(factory=dict, init=False)
    _is_settling: bool = attrs.field(default=False, init=False)
    _is_pushing: bool = attrs.field(default=False, init=False)
    _under_way: int = attrs.field(default=0, init=False)
    _quiet: trio.Event = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        world = self.desk.world
        self._quiet = trio.Event()
        self._quiet.set()
        git = Git(self.desk.processes, world.threads, world.ground)
        self._backup, self._push = BackupStep(world, self.desk.store, git), PushStep(world, git)

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Serve until the mailbox is closed; then end whatever waits or runs."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while (envelope := await mailbox.receive()) is not None:
                self._sort(envelope, nursery)
            nursery.cancel_scope.cancel()

    def _sort(self, envelope: Envelope, nursery: trio.Nursery) -> None:
        match envelope.message:
            case BackUp() as asked:
                nursery.start_soon(self._answer, envelope, lambda: self._back_up(asked, nursery))
            case WaitPushed():
                nursery.start_soon(self._answer, envelope, self._wait_pushed)
            case AskStatus():
                nursery.start_soon(self._answer, envelope, self._status)
            case Settled(owner):
                envelope.take()
                self._enter()
                nursery.start_soon(self._settle, owner, nursery)
            case Withdraw(owner):
                envelope.take()
                for scope in [scope for scope, name in self._owned.items() if name == owner]:
                    scope.cancel()

    async def _answer(self, envelope: Envelope, handle: Callable[[], Awaitable[object]]) -> None:
        if envelope.take():
            try:
                envelope.reply(await handle())
            except StrataflowError as error:
                envelope.fail(error)

    # -- backups --------------------------------------------------------------------------------------------------

    async def _back_up(self, asked: BackUp, nursery: trio.Nursery) -> BackupReport:
        with asked.scope:
            async with self._one_at_a_time:
                return await self._attempt(None, math.inf, nursery, asked.is_complete, asked.pushes)
        raise StoreError("E_ABORTED", "whoever asked for this backup has left")

    async def _settle(self, owner: str, nursery: trio.Nursery) -> None:
        """Back up after an answer, if something is due (store 5.1.1). Never raises what memory does not suffer from."""
        if self._is_settling or self.desk.state.head == self.desk.attempted:
            self._leave()
            return  # the one that waits will take this answer along
        self._is_settling = True
        with trio.CancelScope() as scope:
            self._owned[scope] = owner
            try:
                async with self._one_at_a_time:
                    self._is_settling = False
                    if await self._is_repository():
                        with suppress(StrataflowError):  # it has been told
                            await self._attempt(owner, BACKUP_PATIENCE_S, nursery)
            finally:
                self._is_settling = False
                del self._owned[scope]
                self._leave()

    async def _is_repository(self) -> bool:
        ground = self.desk.world.ground
        try:
            return await self.desk.world.threads.work(lambda: has_repository(ground.disk, ground.layout))
        except StrataflowError:
            return True  # the attempt will tell what is wrong

    async def _attempt(
        self,
        owner: str | None,
        patience_s: float,
        nursery: trio.Nursery,
        is_complete: bool = False,
        pushes: bool = True,
    ) -> BackupReport:
        self.desk.attempted = self.desk.state.head
        try:
            report = await self._backup.run(patience_s=patience_s, is_complete=is_complete)
        except StrataflowError as error:
            if isinstance(error, StoreError) and error.code == "E_BUSY":
                text = "another program is at work; a later answer backs up"
                self.desk.world.report("backup-deferred", reason=text)
                self.desk.attempted = 0
            else:
                await self._note_failure(owner, "backup", str(error))
            raise
        if pushes and report.head is not None:
            self._start_push(owner, report, nursery)
        return report

    # -- pushes ---------------------------------------------------------------------------------------------------

    def _start_push(self, owner: str | None, report: BackupReport, nursery: trio.Nursery) -> None:
        if not self._is_pushing:  # U1
            self._is_pushing = True
            self._enter()
            nursery.start_soon(self._run_push, owner, report)

    async def _run_push(self, owner: str | None, report: BackupReport) -> None:
        assert report.head is not None
        found = PushReport("cancelled", report.head)
        with trio.CancelScope() as scope:
            self._owned[scope] = owner or ""
            try:
                found = await self._push.run(f"refs/heads/{report.branch}", report.head)
            finally:
                del self._owned[scope]
                self.desk.last_push, self._is_pushing = found, False  # U2
                if found.outcome == "cancelled":
                    self._leave()
            await self._note_push(owner, found)
            self._leave()

    async def _note_push(self, owner: str | None, found: PushReport) -> None:
        if found.outcome == "pushed":
            self.desk.is_failing = False
            await self._backup.note(last_push=Happening(self._now_ms(), found.commit, found.remote))
        elif found.outcome == "failed":
            await self._note_failure(owner, "push", found.error)
        elif found.outcome == "skipped":
            self.desk.world.report("push-skipped", reason=found.error)

    async def _note_failure(self, owner: str | None, what: str, text: str) -> None:
        """U3. Where no log can be written the one warning carries what would stand there (store 5.4.7)."""
        is_logged = await self.desk.world.threads.work(lambda: self.desk.log(owner, f"{what}: {text}"))
        if what == "backup":
            self.desk.world.report("backup-failed", error=warning(text))
        elif not self.desk.is_failing:
            self.desk.is_failing = True
            told = "a push failed; the diagnostics log tells more" if is_logged else warning(f"a push failed: {text}")
            self.desk.world.report("push-failed", error=told)
        await self._backup.note(last_failure=Happening(self._now_ms(), what, warning(text)))

    async def _wait_pushed(self) -> PushReport | None:
        while not self._quiet.is_set():
            await self._quiet.wait()
        return self.desk.last_push

    def _enter(self) -> None:
        """Something begins that whoever waits for quiet must wait for."""
        if self._under_way == 0:
            self._quiet = trio.Event()
        self._under_way += 1

    def _leave(self) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self._quiet.set()

    # -- status ---------------------------------------------------------------------------------------------------

    async def _status(self) -> BackupStatus:
        world = self.desk.world
        disk, layout = world.ground.disk, world.ground.layout
        has_one = await world.threads.work(lambda: has_repository(disk, layout))
        record = await world.threads.work(lambda: read_record(disk, layout))
        return BackupStatus(has_one, has_one and record.seen < self.desk.state.head, record, self._is_pushing)

    def _now_ms(self) -> int:
        return self.desk.world.clock.wall_ms()
