"""The store actor: the only one that writes. One per store and process.

A round takes everything that waits through the life of a commit (only ``_enter`` moves the phase)::

    IDLE -> TURN -> STAGED -> APPENDING -> IDLE
             |        |           |---- moved, busy ---> TURN   (somebody was faster: follow, stage again)
             |        +-- only refusals and no-ops ----> IDLE
             |                    +---- outcome unknown -> BROKEN  (this life ends; the next one recovers)
             +-- everybody withdrew -------------------> IDLE

Callers may withdraw until STAGED; from there their work is done whole, whoever is cancelled. The turn lock is fair
among processes and is given back by the very call that appends: were it given back on the event loop, a busy program
would keep every other process waiting.

Invariants:
  M1  What anyone has been told is accepted is in the journal, in a finished checkpoint, or in ``superseded/``.
  M2  A call is all or nothing.
  M3  Nobody sees a value before it is durable at the chosen level.
  M4  After a failure that leaves the outcome unknown nothing is published or answered until recovery.
  M5  The turn is held only by a round that is under way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar, final

import attrs
import trio

from ..store import (
    CheckpointReport,
    Draft,
    Journal,
    Loaded,
    MemoryStore,
    NewRow,
    SessionAddress,
    Stamp,
    StoreError,
    StrataflowError,
    Wanted,
    changed_scopes,
    check_old_formats,
    find_session,
    load_for_writing,
    wanted_scopes,
    write_aside,
)
from .actor import Request
from .checkpointer import Checkpointer
from .envelope import Envelope
from .limits import BATCH_MAX, BUSY_PAUSE_S, FOLLOW_SLICE, STAGING_S_MAX
from .mailbox import Mailbox
from .store_world import StoreWorld
from .turn import Turn

ReplyT = TypeVar("ReplyT")


@final
@attrs.frozen
class Commit(Request[ReplyT]):
    """Change memory: ``stage`` is called on the running draft and returns the answer, or raises a refusal."""

    stage: Callable[[Draft], ReplyT]


@final
@attrs.frozen
class OpenScopes(Request[SessionAddress]):
    """Find a session and load its three scopes. The answer is where it lies; errors of a scope are kept with it."""

    cwd: str
    session_id: str


@final
@attrs.frozen
class CloseScopes(Request[None]):
    """Forget the scopes of a session that nobody has open any more."""

    address: SessionAddress


@final
@attrs.frozen
class Refresh(Request[None]):
    """Follow what other processes have committed up to now."""


@final
@attrs.frozen
class Checkpoint(Request[CheckpointReport]):
    """Write everything accepted to the canonical files now."""


class Phase(enum.Enum):
    """Where a round is; see the drawing."""

    IDLE = "idle"
    TURN = "turn"
    STAGED = "staged"
    APPENDING = "appending"
    BROKEN = "broken"


_MOVES = {
    Phase.IDLE: {Phase.TURN},
    Phase.TURN: {Phase.STAGED, Phase.IDLE, Phase.BROKEN},
    Phase.STAGED: {Phase.APPENDING, Phase.IDLE, Phase.BROKEN},
    Phase.APPENDING: {Phase.IDLE, Phase.TURN, Phase.BROKEN},
    Phase.BROKEN: frozenset[Phase](),
}


@final
@attrs.frozen
class StoreStatistics:
    """Numbers of the store actor: rounds and rows appended, appends that had to be repeated, callers waiting now."""

    phase: Phase
    rounds: int
    rows: int
    repeated: int
    waiting: int


@final
@attrs.define(eq=False)
class StoreActor:
    """One life. ``world`` and ``state`` outlive it; the journal is opened anew by each life after the first."""

    world: StoreWorld
    state: MemoryStore
    _phase: Phase = Phase.IDLE
    _waiting: list[Envelope] = attrs.field(factory=list)
    _taken: list[Envelope] = attrs.field(factory=list)
    # Held while the root changes, so that what was loaded elsewhere is not installed in the middle of an append.
    _root: trio.Lock = attrs.field(factory=trio.Lock)
    _rounds: int = 0
    _rows: int = 0
    _repeated: int = 0
    _checkpointer: Checkpointer = attrs.field(init=False)
    _turn: Turn = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._checkpointer = Checkpointer(self.world, self.state, self._stamp, self._refresh)
        self._turn = Turn(self.world, self._checkpointer.write, self._checkpointer.note)
        self._checkpointer.turn = self._turn

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Recover if need be, then serve until the mailbox is closed and empty."""
        await self._recover()
        async with trio.open_nursery() as nursery:
            task_status.started()
            nursery.start_soon(self._checkpointer.run)
            while (envelope := await mailbox.receive()) is not None:
                self._sort(envelope, nursery)
                self._collect(mailbox, nursery)
                while self._waiting or self._taken:
                    await self._round(mailbox, nursery)
            nursery.cancel_scope.cancel()

    def statistics(self) -> StoreStatistics:
        """Numbers of this moment."""
        return StoreStatistics(self._phase, self._rounds, self._rows, self._repeated, len(self._waiting))

    # -- requests -----------------------------------------------------------------------------------------------

    def _sort(self, envelope: Envelope, nursery: trio.Nursery) -> None:
        match envelope.message:
            case Commit() | Refresh():
                self._waiting.append(envelope)
            case OpenScopes(cwd, session_id):
                nursery.start_soon(_answer, envelope, lambda: self._open(cwd, session_id))
            case Checkpoint():
                nursery.start_soon(_answer, envelope, self._checkpointer.checkpoint)
            case CloseScopes(address):
                nursery.start_soon(_answer, envelope, lambda: self._close(address))

    def _collect(self, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        room = BATCH_MAX - len(self._waiting) - len(self._taken)
        if room > 0:
            for envelope in mailbox.receive_batch_nowait(room):
                self._sort(envelope, nursery)

    # -- a round ------------------------------------------------------------------------------------------------

    async def _round(self, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        self._rounds += 1
        self._enter(Phase.TURN)
        if not await self._turn.acquire(self._is_wanted):
            self._waiting.clear()
            self._enter(Phase.IDLE)
            return
        try:
            self._collect(mailbox, nursery)
            async with self._root:
                await self._follow_stage_append(self.world.journal)
        finally:
            if self._turn.is_held:  # M5
                await self._turn.release()
        if self._phase is Phase.TURN:
            # Not appended, for one reason or another: again, with the same callers and a fresh look.
            self._phase = Phase.IDLE
            self._repeated += 1
            await self._follow_far()

    def _is_wanted(self) -> bool:
        return bool(self._taken) or any(not envelope.is_withdrawn for envelope in self._waiting)

    async def _follow_stage_append(self, journal: Journal) -> None:
        if not await self._follow(journal):
            return
        if self.world.shared_pi is not None:
            await self._compare()
        draft, answers = self._stage()
        if draft.rows:
            await self._append(journal, draft, answers)
        else:
            self._enter(Phase.IDLE)
            self._reply(answers)

    async def _compare(self) -> None:
        """Shared with Pi: what Pi wrote since we looked wins (store 2.2). The root and Pi's lock are held."""
        ground, journal, wanted = self.world.ground, self.world.journal, self.state.wanted()
        changed = await self.world.threads.work(lambda: changed_scopes(ground, journal, wanted))
        if changed:
            await self._reload(changed)

    def _stage(self) -> tuple[Draft, list[Any]]:
        """Stage who was taken before, then who waits, until staging has lasted too long. No checkpoint in here."""
        self._enter(Phase.STAGED)
        draft = Draft(self.state, self.world.level, self.world.clock.wall_ms(), self.world.ids.new_id)
        answers: list[Any] = [_staged(envelope, draft) for envelope in self._taken]
        started = self.world.clock.monotonic_s()
        count = 0
        for envelope in self._waiting:
            count += 1
            if envelope.take():
                self._taken.append(envelope)
                answers.append(_staged(envelope, draft))
                if self.world.clock.monotonic_s() - started > STAGING_S_MAX:
                    break
        del self._waiting[:count]
        refusal = self._checkpointer.refusal()
        if refusal is not None and draft.rows:
            draft, answers = Draft(self.state, self.world.level, 0, self.world.ids.new_id), [refusal] * len(answers)
        return draft, answers

    async def _append(self, journal: Journal, draft: Draft, answers: list[Any]) -> None:
        self._enter(Phase.APPENDING)
        head, rows = self.state.head, draft.rows

        def append() -> tuple[str, bool]:
            outcome = journal.append(rows, head=head)
            return outcome, journal.is_on_its_ground()

        try:
            outcome, is_on_ground = await self._turn.run(append)
            if not is_on_ground:
                await self._keep_aside(rows)
        except StoreError as error:
            if error.code != "E_DISK":
                self._enter(Phase.BROKEN)
                raise
            # Certainly rolled back: the old state stands, and the next call may find room again (Ours-17).
            self._enter(Phase.IDLE)
            self._reply([error] * len(answers))
            return
        if outcome != "appended":
            if outcome == "busy":
                await trio.sleep(BUSY_PAUSE_S)
            self._enter(Phase.TURN)
            return
        self.state.publish(rows, draft.images)  # M3: durable, then seen
        self._rows += len(rows)
        self._enter(Phase.IDLE)
        self._reply(answers)
        self._checkpointer.note_work()

    def _reply(self, answers: Sequence[Any]) -> None:
        taken, self._taken = self._taken, []
        for envelope, answer in zip(taken, answers, strict=True):
            if isinstance(answer, StrataflowError):
                envelope.fail(answer)
            else:
                envelope.reply(answer)

    async def _keep_aside(self, rows: Sequence[NewRow]) -> None:
        """Somebody replaced the files under the journal: nothing is acknowledged, everything is kept aside (J9)."""
        self._enter(Phase.BROKEN)
        kept = [*self.state.pending, *(row.at(self.state.head + 1 + n) for n, row in enumerate(rows))]
        ground, stamp = self.world.ground, self._stamp()
        path = await self.world.threads.work(lambda: write_aside(ground.disk, ground.layout, kept, None, stamp))
        self.world.report("journal-replaced", path=path)
        raise StoreError(
            "E_BROKEN",
            f"{ground.layout.private()}: the journal's files were replaced while the store was open; "
            f"what they may not hold is kept in {path}",
            path=path,
        )

    def _enter(self, phase: Phase) -> None:
        assert phase in _MOVES[self._phase], (self._phase, phase)
        self._phase = phase

    # -- following others ---------------------------------------------------------------------------------------

    async def _follow_far(self) -> None:
        """Far behind: catch up in slices without the turn, so that nobody waits for it."""
        while len(rows := self.world.journal.rows_since(self.state.head, FOLLOW_SLICE)) == FOLLOW_SLICE:
            async with self._root:
                await self._apply(self.world.journal, rows)

    async def _follow(self, journal: Journal) -> bool:
        """What others have appended; with the turn held, that is all there is. False: far behind, give it back."""
        rows = journal.rows_since(self.state.head, FOLLOW_SLICE)
        if len(rows) == FOLLOW_SLICE:
            return False
        if rows:
            await self._apply(journal, rows)
        if self.state.stale:
            await self._reload([*self.state.stale])
        return True

    async def _apply(self, journal: Journal, rows: Sequence[Any]) -> None:
        if rows[0].seq <= self.state.head:
            rows = [row for row in rows if row.seq > self.state.head]
        if not rows:
            return
        if rows[0].seq != self.state.head + 1:
            # Rows in between have been pruned: they are in the files by now (J1).
            await self._reload(None)
            return
        if self.world.level == "power" and rows[-1].content.level == "process":
            await self.world.threads.commit(journal.sync)  # M3
        self.state.follow(rows)
        self._checkpointer.note_work()

    async def _refresh(self) -> None:
        await self._follow_far()
        async with self._root:
            await self._follow(self.world.journal)

    async def _reload(self, scopes: Sequence[str] | None) -> None:
        """Read scopes anew from files and rows; None: everything. The root must be held."""
        whole = scopes is None
        wanted = [item for item in self.state.wanted() if scopes is None or item.scope in scopes]
        while True:
            loaded = await self._load(wanted, None if whole else self.state.head)
            if self.state.install(loaded, whole=whole):
                return

    async def _load(self, wanted: Sequence[Wanted], after: int | None) -> Loaded:
        ground, journal = self.world.ground, self.world.journal

        def load() -> Loaded:
            loaded = load_for_writing(ground, journal, wanted, self._stamp, after=after)
            if self.world.level == "power" and any(row.content.level == "process" for row in loaded.view.rows):
                journal.sync()  # M3
            return loaded

        return await self.world.threads.work(load)

    async def _recover(self) -> None:
        """After a life that broke: open the journal again; SQLite's own recovery says what the disk holds (M4)."""
        if self.world.is_used:
            await self.world.reconnect()
            async with self._root:
                await self._reload(None)
        self.world.is_used = True

    # -- sessions -----------------------------------------------------------------------------------------------

    async def _open(self, cwd: str, session_id: str) -> SessionAddress:
        ground, pending = self.world.ground, tuple(self.state.pending)

        def find() -> SessionAddress:
            address = find_session(ground, cwd, session_id, pending)
            check_old_formats(ground, address)
            return address

        address = await self.world.threads.work(find)
        # Pi may be half-way through writing what is read here, unless it is kept out meanwhile.
        async with self._turn.held() if self.world.shared_pi is not None else nullcontext():
            while True:
                await self._refresh()
                loaded = await self._load(self._missing(address), self.state.head)
                async with self._root:
                    if self.state.install(loaded):
                        break
        self.state.accept(address)
        return address

    def _missing(self, address: SessionAddress) -> list[Wanted]:
        """What must be read to open a session: what is not known yet, or not as this process may use it."""
        return [
            item
            for item in wanted_scopes(address)
            if item.scope not in self.state.images or item.scope in self.state.fences or item.scope in self.state.errors
        ]

    async def _close(self, address: SessionAddress) -> None:
        async with self._root:
            self.state.release(address)

    def _stamp(self) -> Stamp:
        world = self.world
        return Stamp(self.state.writer, world.level, world.clock.wall_ms(), world.ids.new_id())


def _staged(envelope: Envelope, draft: Draft) -> Any:
    """The answer to one call, or its refusal."""
    if isinstance(envelope.message, Refresh):
        return None
    try:
        return envelope.message.stage(draft)
    except StrataflowError as error:
        return error


async def _answer(envelope: Envelope, handle: Callable[[], Any]) -> None:
    """Handle one request beside the rounds."""
    if not envelope.take():
        return
    try:
        envelope.reply(await handle())
    except StrataflowError as error:
        envelope.fail(error)
