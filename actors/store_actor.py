"""The store actor: the only one that writes. One per store and process.

A round takes everything that waits through the life of a commit (only ``_enter`` moves the phase)::

    IDLE -> TURN -> STAGED -> APPENDING -> IDLE
             |        |           |---- moved, busy ---> TURN   (somebody was faster: follow, stage again)
             |        +-- only refusals and no-ops ----> IDLE   (TURN, if others have written meanwhile)
             |                    +---- outcome unknown -> BROKEN  (this life ends; the next one recovers)
             +-- everybody withdrew -------------------> IDLE

Callers may withdraw until STAGED; from there their work is done whole, whoever is cancelled. The turn is fair among
processes; the call that appends gives it back, since a busy event loop would keep every other process waiting.

Invariants:
  M1  What anyone has been told is accepted is in the journal, in a finished checkpoint, or in ``superseded/``.
  M2  A call is all or nothing.
  M3  Nobody sees a value before it is durable at the chosen level.
  M4  After a failure that leaves the outcome unknown nothing is published or answered until recovery.
  M5  The turn is held only by a round that is under way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, final

import attrs
import trio

from ..store import CheckpointReport, Draft, Journal, MemoryStore, StoreError, StrataflowError
from ..store.repository import Captured, LastBackup, capture
from .batch import Batch
from .checkpointer import Checkpointer
from .envelope import Envelope
from .follower import Follower
from .limits import BATCH_MAX, BUSY_PAUSE_S
from .mailbox import Mailbox
from .pi_guard import guard_pi_lock
from .store_messages import Capture, Checkpoint, CloseScopes, Commit, OpenScopes, Refresh
from .store_world import StoreWorld
from .turn import Turn, take
from .watch_tick import WatchTick


class Phase(enum.Enum):
    """Where a round is; see the drawing."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and each step looks states up

    IDLE = "idle"
    TURN = "turn"
    STAGED = "staged"
    APPENDING = "appending"
    BROKEN = "broken"


_MOVES = {
    Phase.IDLE: {Phase.TURN},
    Phase.TURN: {Phase.STAGED, Phase.IDLE, Phase.BROKEN},
    Phase.STAGED: {Phase.APPENDING, Phase.IDLE, Phase.TURN, Phase.BROKEN},
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
    _batch: Batch = attrs.field(factory=Batch)
    _has_turn: bool = False
    _rounds: int = 0
    _rows: int = 0
    _repeated: int = 0
    _checkpointer: Checkpointer = attrs.field(init=False)
    _turn: Turn = attrs.field(init=False)
    _follower: Follower = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._follower = Follower(self.world, self.state, lambda: self._checkpointer.note_work())
        self._checkpointer = Checkpointer(self.world, self.state, self._follower.stamp, self._follower.refresh)
        self._turn = Turn(self.world, self._checkpointer.write, self._checkpointer.note)
        self._checkpointer.turn = self._turn

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Recover if need be, then serve until the mailbox is closed and empty."""
        mailbox.on_withdrawal = self._turn.look_again
        await self._follower.recover()
        async with trio.open_nursery() as nursery:
            task_status.started()
            nursery.start_soon(self._checkpointer.run)
            nursery.start_soon(WatchTick(self.world, self._follower, lambda: mailbox.ask(Refresh())).run)
            if not self.world.member.share_with_pi:
                nursery.start_soon(guard_pi_lock, self.world)
            while (envelope := await mailbox.receive()) is not None:
                self._sort(envelope, nursery)
                self._collect(mailbox, nursery)
                while self._batch.size:
                    await self._round(mailbox, nursery)
            nursery.cancel_scope.cancel()

    def statistics(self) -> StoreStatistics:
        """Numbers of this moment."""
        return StoreStatistics(self._phase, self._rounds, self._rows, self._repeated, self._batch.size)

    def _kept_out(self) -> AbstractAsyncContextManager[None]:
        """Pi may be half-way through writing what is read, unless it is kept out meanwhile."""
        return self._turn.held() if self.world.shared_pi is not None else nullcontext()

    def _sort(self, envelope: Envelope, nursery: trio.Nursery) -> None:
        match envelope.message:
            case Commit() | Refresh():
                self._batch.add(envelope)
            case OpenScopes(cwd, session_id):
                nursery.start_soon(_answer, envelope, lambda: self._follower.open(cwd, session_id, self._kept_out()))
            case Checkpoint():
                nursery.start_soon(_answer, envelope, self._checkpointer.checkpoint)
            case Capture(last, patience_s):
                nursery.start_soon(_answer, envelope, lambda: self._capture(last, patience_s))
            case CloseScopes(address):
                nursery.start_soon(_answer, envelope, lambda: self._follower.close(address))

    async def _capture(self, last: LastBackup | None, patience_s: float) -> tuple[CheckpointReport, Captured]:
        ground, journal = self.world.ground, self.world.journal
        return await self._checkpointer.checkpoint_and(
            lambda report: capture(ground.disk, ground.layout, journal, last, report), patience_s
        )

    def _collect(self, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        room = BATCH_MAX - self._batch.size
        if room > 0:
            for envelope in mailbox.receive_batch_nowait(room):
                self._sort(envelope, nursery)

    async def _round(self, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        self._rounds += 1
        self._enter(Phase.TURN)
        if not await self._turn.acquire(lambda: self._batch.is_wanted):
            self._batch.drop_withdrawn()
            self._enter(Phase.IDLE)
            return
        self._has_turn = True
        try:
            self._collect(mailbox, nursery)
            await take(self._follower.root)
            try:
                await self._follow_stage_append(self.world.journal)
            finally:
                self._follower.root.release()
        finally:
            if self._has_turn:  # M5
                # Short: an unlock; shared with Pi, one checkpoint. Without the shield a cancellation would leave every
                # other process waiting.
                with trio.CancelScope(shield=True):
                    await self._turn.release()
        if self._phase is Phase.TURN:
            # Not appended, for one reason or another: again, with the same callers and a fresh look.
            self._phase = Phase.IDLE
            self._repeated += 1
            await self._follower.follow_far()

    async def _follow_stage_append(self, journal: Journal) -> None:
        # Alone so far: the append itself tells whether somebody was faster, so nothing needs to be read first.
        is_alone = self._follower.is_alone
        if not is_alone and not await self._follower.follow(journal):
            return
        if self.world.shared_pi is not None:
            await self._follower.compare()
        await self._batch.look()
        draft, answers = self._stage()
        if draft.rows:
            await self._append(journal, draft, answers)
        elif is_alone and journal.rows_since(self.state.head, 1):
            # Refusals and no-ops append nothing that could tell: they must not rest on an old state.
            self._follower.note_others()
            self._enter(Phase.TURN)
        else:
            await self._follower.check_ground(journal)  # J9
            self._enter(Phase.IDLE)
            self._answer(draft, answers)

    def _stage(self) -> tuple[Draft, list[Any]]:
        self._enter(Phase.STAGED)
        draft = self.world.draft(self.state)
        answers = self._batch.stage(draft, self.world.clock)
        refusal = self._checkpointer.refusal()
        if refusal is not None and draft.rows:
            draft, answers = self.world.draft(self.state), [refusal] * len(answers)
        return draft, answers

    def _answer(self, draft: Draft, answers: list[Any]) -> None:
        # Not before: had the head moved, another draft might have accepted what this one refused.
        self.world.refusals.keep(draft.requests.refused())
        self._batch.reply(answers)

    async def _append(self, journal: Journal, draft: Draft, answers: list[Any]) -> None:
        self._enter(Phase.APPENDING)
        head, rows = self.state.head, draft.rows

        def settle(found: tuple[str, bool]) -> None:
            if found == ("appended", True):
                self.state.publish(rows, draft.images)  # M3: durable, then seen
                self._rows += len(rows)
                self._enter(Phase.IDLE)
                self._answer(draft, answers)
                self._checkpointer.note_work()

        self._has_turn = False  # the call gives it back, whatever becomes of it
        try:
            outcome, is_on_ground = await self._turn.run(
                lambda: journal.append(rows, head=head), journal.is_on_its_ground, settle
            )
        except StoreError as error:
            if error.code != "E_DISK":
                self._enter(Phase.BROKEN)
                raise
            # Certainly rolled back: the old state stands, and the next call may find room again (Ours-17).
            self._enter(Phase.IDLE)
            self._batch.reply([error] * len(answers))
            return
        if not is_on_ground:
            self._enter(Phase.BROKEN)
            raise await self._follower.keep_aside(rows)
        if outcome != "appended":
            self._follower.note_others()
            if outcome == "busy":
                await trio.sleep(BUSY_PAUSE_S)
            self._enter(Phase.TURN)

    def _enter(self, phase: Phase) -> None:
        assert phase in _MOVES[self._phase], (self._phase, phase)
        self._phase = phase


async def _answer(envelope: Envelope, handle: Callable[[], Any]) -> None:
    """Handle one request beside the rounds."""
    if not envelope.take():
        return
    try:
        envelope.reply(await handle())
    except StrataflowError as error:
        envelope.fail(error)
        if error.code == "E_BROKEN":
            raise  # the journal itself: this life ends, the next one opens it again
