"""The lock that Pi takes on a store, and ours in its place (Ours-3, J8; store 2.1).

The file holds a decimal process id and a newline; Pi waits while that process lives and refuses when it does not.
Ours is told from anybody else's by device and inode, which the journal recorded before the file was put in place,
never by the id alone: ids are reused.

    nobody's --link--> ours --rename over--> ours, naming another process --unlink--> nobody's
    anybody else's: live -> wait; empty -> pending, wait a little; dead or unreadable -> E_LOCK, never removed
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import attrs

from .algebra import StoreError, shown
from .journal_types import Journal, PiLockRecord
from .layout import Layout
from .ports import Disk, FileStat, ProcessIdentity, ProcessTable

_PID = re.compile(rb"[1-9][0-9]{0,18}")


@attrs.frozen
class PiLockState:
    """What lies at the lock's path.

    ``kind``: nobody's, ours (recorded), or somebody else's that is live or pending. ``pid`` is the id it names.
    """

    kind: Literal["nobody", "ours", "live", "pending"]
    pid: int | None = None
    record: PiLockRecord | None = None
    stat: FileStat | None = None


def look_at(disk: Disk, layout: Layout, records: Sequence[PiLockRecord], table: ProcessTable) -> PiLockState:
    """Judge the lock (store 2.1.3).

    Raises:
      StoreError: E_LOCK for a lock that is not live and not ours; it names the owner and stays as it is.
    """
    path = layout.pi_lock
    stat = disk.stat(path)
    if stat is None:
        return PiLockState("nobody")
    if stat.kind != "file":
        raise StoreError("E_LOCK", f"{path}: is a {stat.kind}, not a lock file; remove it by hand", path=path)
    data = disk.read(path)
    if data is None:
        return PiLockState("nobody")
    content = data.removesuffix(b"\n")
    pid = int(content) if _PID.fullmatch(content) else None
    # The inode proves it is ours; a copied store has other inodes, but the recorded process proves it too. The inode
    # comes first: two records may have one id, and that of the file must be kept while another takes its place.
    named = [record for record in records if record.process.pid == pid]
    same_file = [record for record in named if (record.device, record.inode) == (stat.device, stat.inode)]
    for record in same_file or [record for record in named if _is_recorded_process(record, table)]:
        return PiLockState("ours", pid, record, stat)
    if not data:
        return PiLockState("pending", stat=stat)
    if pid is None:
        raise StoreError(
            "E_LOCK", f"{path}: names no process ({shown(_text(data))}); see `strataflow unlock`", path=path
        )
    if table.pid_exists(pid):
        return PiLockState("live", pid, stat=stat)
    raise StoreError(
        "E_LOCK",
        f"{path}: left by process {pid}, which is gone; if no program uses the store, run `strataflow unlock`",
        path=path,
        pid=pid,
    )


def _text(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace")


def _is_recorded_process(record: PiLockRecord, table: ProcessTable) -> bool:
    """Whether the id belongs to the very process that was recorded, or to none at all."""
    return table.is_alive(record.process) or not table.pid_exists(record.process.pid)


def put_in_place(
    disk: Disk, layout: Layout, journal: Journal, process: ProcessIdentity, token: str, *, over: PiLockState
) -> bool:
    """Put a lock of ours in place, naming ``process``. False if somebody else was faster: look again.

    Recorded durably before it can be seen, so that it can never be mistaken for a stranger's (J8).
    """
    prepared = layout.private(f"pi.lock.{token}")
    disk.unlink(prepared)
    disk.write_new(prepared, b"%d\n" % process.pid)
    disk.sync_file(prepared)
    stat = disk.stat(prepared)
    assert stat is not None
    record = PiLockRecord(stat.device, stat.inode, process)
    known = [over.record] if over.record else []
    journal.members.set_pi_locks([*known, record])
    if over.kind == "ours":
        assert over.stat is not None
        now = disk.stat(layout.pi_lock)
        if now is None or (now.device, now.inode) != (over.stat.device, over.stat.inode):
            disk.unlink(prepared)
            return False
        disk.rename(prepared, layout.pi_lock)
    else:
        placed = disk.link(prepared, layout.pi_lock)
        disk.unlink(prepared)
        if not placed:
            return False
    disk.sync_folder(layout.root)
    journal.members.set_pi_locks([record])
    return True


def remove(disk: Disk, layout: Layout, journal: Journal, table: ProcessTable) -> bool:
    """Remove our lock. False if what lies there is not ours; it is left alone (store 2.1.10)."""
    state = look_at(disk, layout, journal.members.pi_locks(), table)
    if state.kind != "ours":
        return state.kind == "nobody"
    disk.unlink(layout.pi_lock)
    disk.sync_folder(layout.root)
    journal.members.set_pi_locks([])
    return True
