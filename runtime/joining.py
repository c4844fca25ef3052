"""Opening a store: folders, journal, membership, recovery (J4, J8, J9), in worker threads, every wait cancellable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from ..actors import PI_POLL_S, Clock, Ids, JournalBell, PollingBell, StoreWorld, Threads, Turn, check_pending
from ..store import (
    CHECKPOINT_LOCK,
    OPEN_LOCK,
    QUEUE_LOCK,
    TURN_LOCK,
    CheckpointReport,
    Disk,
    Durability,
    FileParts,
    FindMissing,
    Ground,
    Journal,
    KernelLock,
    LeaveReport,
    Locks,
    Member,
    MemoryStore,
    Stamp,
    StoreError,
    WaitForPi,
    check_index,
    checkpoint,
    finish_prepared,
    join,
    leave,
    load_for_writing,
    make_folders,
    note_ground,
    nothing_missing,
    prepare_shared,
)

# How long leaving may take after an opening that failed.
_LEAVE_S = 10.0


@attrs.frozen
class TreeGround:
    """What session files stand on. ``folder``: of those of all working directories."""

    disk: Disk
    parts: FileParts
    locks: Locks
    folder: str


OpenJournal = Callable[[Ground, Durability], Journal]


@attrs.frozen
class Seams:
    """The world a runtime lives in: all of it real, or all of it simulated."""

    ground: Ground
    threads: Threads
    clock: Clock
    ids: Ids
    open_journal: OpenJournal
    open_bell: Callable[[Ground], JournalBell] = lambda ground: PollingBell()
    find_missing: FindMissing = nothing_missing
    # Adds a line to the diagnostics log, if the operator wants one.
    append_log: Callable[[bytes], None] | None = None
    # Where session files are; None: this runtime keeps none.
    trees: TreeGround | None = None


@attrs.frozen
class Choices:
    """How a store is opened."""

    durability: Durability
    share_with_pi: bool
    history_limit: int


@asynccontextmanager
async def held(threads: Threads, lock: KernelLock) -> AsyncIterator[None]:
    """Hold a kernel lock for the body. The wait can be cancelled."""
    if not lock.try_acquire():
        await threads.wait_lock(lock)
    try:
        yield
    finally:
        lock.release()


async def join_store(seams: Seams, choices: Choices, report: Callable[..., None]) -> tuple[StoreWorld, MemoryStore]:
    """Join the store as a participant and recover it.

    If it raises Cancelled, nothing is left behind: no lock, no participant. (Folders that were missing stay.)

    Raises:
      StoreError: E_LOCK, E_CORRUPT, E_UNSUPPORTED, E_DISK.
    """
    ground, threads = seams.ground, seams.threads
    token = seams.ids.new_id()
    await threads.work(lambda: make_folders(ground))
    names = (OPEN_LOCK, TURN_LOCK, CHECKPOINT_LOCK, QUEUE_LOCK)
    locks = [ground.locks.open(ground.layout.private(name)) for name in names]
    opened: list[Journal] = []
    try:
        member = await _join(seams, choices, locks[0], opened, token)
        world = StoreWorld(
            ground=ground,
            threads=threads,
            clock=seams.clock,
            ids=seams.ids,
            level=choices.durability,
            member=member,
            open_lock=locks[0],
            turn=locks[1],
            checkpoint_lock=locks[2],
            queue_lock=locks[3],
            open_journal=lambda: seams.open_journal(ground, choices.durability),
            open_bell=lambda: seams.open_bell(ground),
            report=report,
            journal=opened[0],
        )
        state = MemoryStore(
            writer=token,
            history_limit=choices.history_limit,
            on_superseded=lambda scope: report("superseded", scope=scope),
            on_change=world.hub.change,
        )
        try:
            if choices.share_with_pi:
                async with held(threads, world.open_lock):  # J8: the list of our locks is read and written back
                    world.shared_pi = await threads.work(lambda: prepare_shared(ground, opened[0], token))
            await _recover(world, state)
        except BaseException:
            # Without the shield a cancelled opening would leave a participant and its lock towards Pi behind. It ends
            # by its deadline. What the first error was, tells more than why leaving failed too.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LEAVE_S), suppress(StoreError):
                await leave_store(world, state)
            raise
    except BaseException:
        # Closing what was opened here is quick and waits for nobody.
        for journal in opened:
            journal.close()
        for lock in locks:
            lock.close()
        raise
    return world, state


async def _join(seams: Seams, choices: Choices, open_lock: KernelLock, opened: list[Journal], token: str) -> Member:
    ground, threads = seams.ground, seams.threads
    pending_since: float | None = None

    def try_join() -> Member | WaitForPi:
        if not opened:
            check_index(ground)
            opened.append(seams.open_journal(ground, choices.durability))
            note_ground(ground, opened[0])
        return join(ground, opened[0], token, share_with_pi=choices.share_with_pi)

    while True:
        async with held(threads, open_lock):
            found = await threads.work(try_join)
        if isinstance(found, Member):
            return found
        pending_since = check_pending(found, pending_since, ground.layout.pi_lock)
        await trio.sleep(PI_POLL_S)


async def _recover(world: StoreWorld, state: MemoryStore) -> None:
    """Finish what a dead process prepared, then read the journal and the global scope."""
    ground, threads = world.ground, world.threads

    def finish() -> None:
        finish_prepared(ground.disk, ground.layout, world.journal)
        if world.shared_pi is not None:
            checkpoint(ground.disk, ground.layout, world.journal, stamp, history_limit=state.history_limit)
        if world.level == "power":
            # What this process will promise rests on everything so far, and on the names of the journal's files (J4).
            world.journal.sync()
            ground.disk.sync_folder(ground.layout.private())
            ground.disk.sync_folder(ground.layout.root)

    stamp = _stamper(world, state)
    async with _kept_out(world), held(threads, world.checkpoint_lock):
        await threads.work(finish)
    loaded = await threads.work(lambda: load_for_writing(ground, world.journal, (), stamp, after=None))
    state.install(loaded, whole=True)


@asynccontextmanager
async def _kept_out(world: StoreWorld) -> AsyncIterator[None]:
    """Shared with Pi: keep it out for the body, waiting for it as long as it takes (J7)."""
    if world.shared_pi is None:
        yield
        return
    turn = Turn(world, CheckpointReport, lambda outcome: None)
    async with turn.held():
        yield


def _stamper(world: StoreWorld, state: MemoryStore) -> Callable[[], Stamp]:
    return lambda: Stamp(state.writer, world.level, world.clock.wall_ms(), world.ids.new_id())


async def leave_store(world: StoreWorld, state: MemoryStore) -> LeaveReport:
    """Leave the store: the last one writes everything and makes way for Pi. Closes journal and locks.

    If it raises Cancelled, the thread that leaves may still be at work.

    Raises:
      StoreError: E_CLOSED in a forked child, where nothing is touched; E_DISK, E_BROKEN and others: the store is left
        as if this process had been killed.
    """
    if not world.member.lock.is_held:
        # Everything here belongs to the parent: its connection must not even be closed (J11).
        text = f"{world.ground.layout.root}: was opened before this process was forked; the parent leaves it"
        raise StoreError("E_CLOSED", text, path=world.ground.layout.root)
    ground, threads = world.ground, world.threads
    stamp = _stamper(world, state)

    def write() -> CheckpointReport:
        # Shared with Pi, there is something to write only after a failure, and then Pi's lock was kept.
        if world.shared_pi is not None and not world.shared_pi.is_held():
            return CheckpointReport()
        if not world.checkpoint_lock.try_acquire():
            raise StoreError("E_BUSY", "another process is writing the canonical files")
        try:
            return checkpoint(ground.disk, ground.layout, world.journal, stamp, history_limit=state.history_limit)
        finally:
            world.checkpoint_lock.release()

    if not world.open_lock.try_acquire():
        await threads.wait_lock(world.open_lock)
    claim = iter((True,))

    def leave_and_close() -> LeaveReport | None:
        if not next(claim, False):
            return None
        try:
            report = leave(ground, world.journal, world.member, write)
            if world.shared_pi is not None:
                world.shared_pi.forget(world.journal)
            return report
        finally:
            # Here, so that ``open.lock`` is kept to the end of the work, also if nobody waits for it any more: whoever
            # joined meanwhile would lose its lock towards Pi. After an error this participant is dead to the others,
            # and they do for it what it could not do.
            _close(world)

    try:
        report = await threads.work_abandonable(leave_and_close)
    finally:
        if next(claim, False):
            world.open_lock.release()  # cancelled before a thread was free
    assert report is not None
    return report


def _close(world: StoreWorld) -> None:
    world.journal.close()
    for lock in (world.member.lock, world.turn, world.checkpoint_lock, world.queue_lock, world.open_lock):
        lock.close()
