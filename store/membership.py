"""Joining and leaving a store: who has it open, and how it is shared with Pi (J7, J8, J9).

Every step here happens with ``open.lock`` held, which is never kept while waiting for Pi. A participant holds a kernel
lock on its own file ``open/<token>`` for life, so that a free one is dead, whatever process ids say.

Invariants:
  P1  While a participant lives in exclusive mode, a lock of ours lies at Pi's path and names a live participant.
  P2  The last one to leave removes it only when every row is in the canonical files.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from .algebra import StoreError
from .journal_types import Journal, Participant, PiLockRecord
from .layout import Layout
from .pi_lock import PiLockState, look_at, put_in_place, remove
from .ports import Disk, KernelLock, Locks, ProcessTable


@attrs.frozen
class Ground:
    """What a store stands on: the real or the simulated world."""

    disk: Disk
    locks: Locks
    table: ProcessTable
    layout: Layout


@attrs.frozen
class WaitForPi:
    """Pi (or another program that follows its rule) holds the store; look again a little later."""

    pid: int | None


@attrs.define(eq=False)
class Member:
    """A participant that has joined: its token and the lock that proves it alive."""

    token: str
    lock: KernelLock
    share_with_pi: bool


def make_folders(ground: Ground) -> None:
    """Create the store and its private folder where they are missing."""
    disk, layout = ground.disk, ground.layout
    missing = []
    folder = layout.root
    while disk.stat(folder) is None:
        missing.append(folder)
        folder = _above(folder)
    if folder != "/" and disk.stat(layout.private()) is None:
        _sync_name(disk, folder)
    for folder in [*reversed(missing), layout.private(), layout.private("open")]:
        if disk.make_folder(folder):
            disk.sync_folder(_above(folder))
    ignore = layout.private(".gitignore")
    if disk.stat(ignore) is None:
        try:
            disk.write_new(ignore, b"*\n")
        except StoreError as error:
            # No lock is held yet: the locks lie in this folder. Another opener was faster.
            if error.data.get("errno") != "EEXIST":
                raise
    # What a writer at level power promises rests on these names too (J4).
    disk.sync_folder(layout.private())
    disk.sync_folder(layout.root)


def _above(folder: str) -> str:
    return folder.rpartition("/")[0] or "/"


def _sync_name(disk: Disk, folder: str) -> None:
    """Another process may have made this folder a moment ago and died before it synced the name."""
    try:
        disk.sync_folder(_above(folder))
    except StoreError as error:
        # Where this user may not even read, no process of theirs has made anything.
        if error.data.get("errno") not in ("EACCES", "EPERM"):
            raise


def restore_folders(ground: Ground) -> None:
    """As ``make_folders``, where somebody removed them under an open store (J9)."""
    if ground.disk.stat(ground.layout.private("open")) is None:
        make_folders(ground)


def note_ground(ground: Ground, journal: Journal) -> None:
    """Tell a copied store from its original: participants recorded in a copy are not here (J9)."""
    stat = ground.disk.stat(ground.layout.private("journal.db"))
    assert stat is not None
    if (journal.members.fact("device"), journal.members.fact("inode")) != (stat.device, stat.inode):
        journal.members.set_participants([], None)
        journal.members.set_facts(device=stat.device, inode=stat.inode)


def live_members(ground: Ground, journal: Journal) -> list[Participant]:
    """The participants that still hold their lock. What dead ones left behind is removed, also of those who died
    before they were recorded."""
    disk, layout = ground.disk, ground.layout
    tokens = {token for token in disk.list(layout.private("open")) or () if not _is_dead(ground, token)}
    for name in disk.list(layout.private()) or ():
        prefix, _, token = name.partition(".lock.")
        if prefix == "pi" and token.partition(".")[0] not in tokens:
            disk.unlink(layout.private(name))
    return [member for member in journal.members.participants() if member.token in tokens]


def _is_dead(ground: Ground, token: str) -> bool:
    """Whether nobody holds the lock of a participant; then its file is removed."""
    path = ground.layout.private("open", token)
    lock = ground.locks.open(path)
    try:
        return lock.try_acquire() and ground.disk.unlink(path)
    finally:
        lock.close()


def join(ground: Ground, journal: Journal, token: str, *, share_with_pi: bool) -> Member | WaitForPi:
    """Join the store, or say for whom to wait. Call it with ``open.lock`` held.

    Raises:
      StoreError: E_LOCK if the store is open the other way, or a dead stranger's lock lies there.
    """
    live = live_members(ground, journal)
    shared = journal.members.share_with_pi()
    if live and shared is not None and shared != share_with_pi:
        ways = {True: "shared with Pi (share_with_pi)", False: "exclusively (the default)"}
        raise StoreError(
            "E_LOCK",
            f"{ground.layout.root}: is open {ways[shared]}, it can not be opened {ways[share_with_pi]} meanwhile; "
            "use the same way or close it there",
            open_as=ways[shared],
            asked=ways[share_with_pi],
            pids=[member.process.pid for member in live],
        )
    if not share_with_pi:
        waiting = ensure_pi_lock(ground, journal, live, token)
        if waiting is not None:
            return waiting
    lock = ground.locks.open(ground.layout.private("open", token))
    assert lock.try_acquire()
    _note_index(ground, token)
    own_entry = Participant(token, ground.table.own())
    journal.members.set_participants([*live, own_entry], share_with_pi)
    return Member(token, lock, share_with_pi)


def _index(ground: Ground) -> bytes:
    found = ground.disk.identity(ground.layout.private("journal.db-shm"))
    return b"%d %d\n" % found if found else b""


def _note_index(ground: Ground, token: str) -> None:
    ground.disk.append(ground.layout.private("open", token), _index(ground))


def check_index(ground: Ground) -> None:
    """Refuse to open the journal while others stand on a ``-shm`` that was removed since (J9).

    SQLite's locks and its index of the ``-wal`` lie in it: with two of them each side overwrites the other's rows. Who
    stands on which is noted in ``open/<token>``, since the journal itself can not be asked any more. Call it with
    ``open.lock`` held.

    Raises:
      StoreError: E_LOCK.
    """
    for token in ground.disk.list(ground.layout.private("open")) or ():
        if _is_dead(ground, token):
            continue
        noted = (ground.disk.read(ground.layout.private("open", token)) or b"").splitlines(keepends=True)
        if noted and noted[-1] != _index(ground):
            path = ground.layout.private("journal.db-shm")
            text = f"{path}: was removed while other programs have the store open; end them, then open it again"
            raise StoreError("E_LOCK", text, path=path)


def rejoin(ground: Ground, journal: Journal, member: Member) -> None:
    """Join again where the journal was opened anew: somebody may have put another one there, which knows nobody (J9).

    Call it with ``open.lock`` held.
    """
    path = ground.layout.private("open", member.token)
    if ground.disk.identity(path) != member.lock.identity():
        lock = ground.locks.open(path)
        assert lock.try_acquire()
        old, member.lock = member.lock, lock
        old.close()
    _note_index(ground, member.token)
    own = ground.table.own()
    others = [other for other in live_members(ground, journal) if other.token != member.token]
    journal.members.set_participants([*others, Participant(member.token, own)], member.share_with_pi)
    if member.share_with_pi:
        return
    records = journal.members.pi_locks()
    if all(record.process != own for record in records):
        # A lock with our name that this journal does not know was put there by us; as a stranger's it would be waited
        # for by everybody, for as long as we live.
        journal.members.set_pi_locks([*records, PiLockRecord(0, 0, own)])
    keep_pi_out(ground, journal, member.token)


def ensure_pi_lock(ground: Ground, journal: Journal, live: list[Participant], token: str) -> WaitForPi | None:
    """See to it that a lock of ours lies at Pi's path and names a live participant or this process. (P1)"""
    processes = {member.process for member in live} | {ground.table.own()}
    while True:
        state = look_at(ground.disk, ground.layout, journal.members.pi_locks(), ground.table)
        if state.kind in ("live", "pending"):
            return WaitForPi(state.pid)
        if state.record is not None and state.record.process in processes and _is_same_file(state):
            return None
        if put_in_place(ground.disk, ground.layout, journal, ground.table.own(), token, over=state):
            return None


def keep_pi_out(ground: Ground, journal: Journal, token: str) -> str:
    """As ``ensure_pi_lock``, while the store is open: the process that the lock names may have died.

    Cheap while all is well. Call it with ``open.lock`` held. Returns what is wrong, in words, or "".
    """
    try:
        state = look_at(ground.disk, ground.layout, journal.members.pi_locks(), ground.table)
        if state.record is not None and _is_same_file(state) and ground.table.is_alive(state.record.process):
            return ""
        waiting = ensure_pi_lock(ground, journal, live_members(ground, journal), token)
    except StoreError as error:
        return str(error)
    if waiting is None:
        return ""
    return f"{ground.layout.pi_lock}: another program took it while the store was open here (process {waiting.pid})"


def _is_same_file(state: PiLockState) -> bool:
    assert state.stat is not None
    assert state.record is not None
    return (state.record.device, state.record.inode) == (state.stat.device, state.stat.inode)


@attrs.frozen
class LeaveReport:
    """What leaving did: whether this was the last participant, and whether Pi's way is free again."""

    was_last: bool
    pi_lock_removed: bool
    cause: str = ""


def leave(ground: Ground, journal: Journal, member: Member, checkpoint: Callable[[], object]) -> LeaveReport:
    """Leave the store. Call it with ``open.lock`` held; ``checkpoint`` is run if this is the last participant. (P2)"""
    live = [other for other in live_members(ground, journal) if other.token != member.token]
    report = LeaveReport(bool(not live), False)
    if not live:
        cause = ""
        try:
            checkpoint()
        except StoreError as error:
            cause = str(error)
        removed = False
        if not member.share_with_pi and not cause and not _is_unwritten(journal):
            removed = remove(ground.disk, ground.layout, journal, ground.table)
        elif not cause and _is_unwritten(journal):
            cause = "some changes could not be written to the canonical files yet"
        report = LeaveReport(True, removed or member.share_with_pi, cause)
    elif not member.share_with_pi:
        _name_another(ground, journal, member, live)
    journal.members.set_participants(live, member.share_with_pi if live else None)
    ground.disk.unlink(ground.layout.private("open", member.token))
    member.lock.close()
    return report


def _is_unwritten(journal: Journal) -> bool:
    view = journal.view(None)
    return bool(view.prepared) or any(row.touches() for row in view.rows)


def _name_another(ground: Ground, journal: Journal, member: Member, live: list[Participant]) -> None:
    """Pi's lock may name this process; it must name one that stays. (P1)"""
    state = look_at(ground.disk, ground.layout, journal.members.pi_locks(), ground.table)
    stays = {other.process for other in live}
    if state.kind == "ours" and (state.record is None or state.record.process not in stays):
        put_in_place(ground.disk, ground.layout, journal, live[0].process, member.token, over=state)
