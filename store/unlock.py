"""``strataflow unlock``: remove, on request, a lock towards Pi that its owner left behind (Ours-3, J8; store 2.1).

Nothing does this by itself: whether the other program still uses the store is for a person to say. What can be
known is checked: the process that the lock names is gone, and no process of ours has the store open.
"""

from __future__ import annotations

import attrs

from .algebra import StoreError, shown
from .alone import alone
from .journal_reader import JournalLook
from .journal_types import PiLockRecord
from .membership import Ground, make_folders
from .pi_lock import PiLockState, look_at
from .ports import FileStat

# Pi writes its process id within this time or has died (store 2.1.5).
_PENDING_MS_MAX = 2_000


@attrs.frozen
class UnlockReport:
    """What was done: ``words`` for a person, ``content`` is the text of the lock that was removed."""

    path: str
    is_removed: bool
    words: str
    content: str | None = None


def unlock(ground: Ground, journal: JournalLook, now_ms: int) -> UnlockReport:
    """Remove a dead stranger's lock. ``now_ms`` is the present, to tell an old empty lock from one in the making.

    A lock of ours is left: whoever opens the store next takes it over, and finishes what its owner began.

    Raises:
      StoreError: E_LOCK if its owner lives, it is no lock file, or processes of ours have the store open; E_BUSY if
        it is being made, or somebody joins or leaves right now; E_DISK.
    """
    disk, path = ground.disk, ground.layout.pi_lock
    if disk.stat(path) is None:
        return _free(path)
    make_folders(ground)
    with alone(ground, "unlock"):
        stat = disk.stat(path)
        if stat is None:
            return _free(path)
        state = _judged(ground, stat, _records(journal))
        if state.kind == "ours":
            words = f"{path}: is ours, left by process {state.pid}; open the store once, which takes it over"
            return UnlockReport(path, False, words)
        if state.kind == "live":
            text = f"{path}: process {state.pid} lives and uses the store; end that program, or wait for it"
            raise StoreError("E_LOCK", text, path=path, pid=state.pid)
        if state.kind == "pending" and abs(now_ms - stat.mtime_ns // 1_000_000) < _PENDING_MS_MAX:
            raise StoreError("E_BUSY", f"{path}: is being made at this moment; ask again", path=path)
        return _removed(ground, stat)


def _free(path: str) -> UnlockReport:
    return UnlockReport(path, False, f"{path}: there is no lock, nothing was to be removed")


def _records(journal: JournalLook) -> tuple[PiLockRecord, ...]:
    try:
        facts = journal.facts()
    except StoreError:
        # A damaged journal knows no lock of ours; that nobody of ours lives has been proved by other means.
        return ()
    return facts.pi_locks if facts else ()


def _judged(ground: Ground, stat: FileStat, records: tuple[PiLockRecord, ...]) -> PiLockState:
    """As ``look_at``; a lock that nobody alive stands behind is "nobody's"."""
    try:
        return look_at(ground.disk, ground.layout, records, ground.table)
    except StoreError as error:
        if error.code != "E_LOCK" or stat.kind != "file":
            raise
        return PiLockState("nobody")


def _removed(ground: Ground, stat: FileStat) -> UnlockReport:
    disk, path = ground.disk, ground.layout.pi_lock
    data = disk.read(path) or b""
    now = disk.stat(path)
    if now is None or (now.device, now.inode) != (stat.device, stat.inode):
        raise StoreError("E_BUSY", f"{path}: was replaced at this moment; ask again", path=path)
    disk.unlink(path)
    disk.sync_folder(ground.layout.root)
    content = data.decode("utf-8", "replace")
    owner = content.strip()
    words = f"{path}: removed the lock of process {owner}, which is gone"
    if not owner.isdecimal():
        words = f"{path}: removed a lock that named no process ({shown(content)})"
    return UnlockReport(path, True, words, content)
