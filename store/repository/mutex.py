"""One backup of a repository at a time, also beside Pi: ``state-flow-backup.lock`` (store 5.2.2).

Among our processes a kernel lock decides, ``strataflow-backup.lock``, which the kernel frees when its holder dies. Its
holder then puts the file in place that Pi looks for, with its process id in it, and first writes into
``strataflow-backup.json`` which file that is: so one that a dead process of ours has left is recognised by device and
inode, and taken over, while anybody else's stays and is judged by the rule of Pi's lock (store 2.1.3).

    free --kernel lock--> ours among us --link--> ours for everybody --unlink--> ours among us --> free
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, Literal

import attrs

from ..algebra import BackupError, CallError
from ..codec import compact, parse_strict
from ..membership import Ground

MUTEX: Final = "state-flow-backup.lock"
BACKUP_LOCK: Final = "strataflow-backup.lock"
PUSH_LOCK: Final = "strataflow-push.lock"
_RECORD = "strataflow-backup.json"
_PID = re.compile(rb"[1-9][0-9]{0,18}\n?")


@attrs.frozen
class BackupMutex:
    """The file in the common folder of a repository. Every call is blocking, and made with the kernel lock held."""

    ground: Ground
    common_dir: str
    token: str

    @property
    def path(self) -> str:
        """Where Pi looks."""
        return posixpath.join(self.common_dir, MUTEX)

    def take(self) -> Literal["taken", "live"]:
        """Put the file in place, or say that somebody else is at work.

        Raises:
          BackupError: E_REPOSITORY for a lock that names no living process; it stays as it is.
          StoreError: E_DISK.
        """
        disk, path = self.ground.disk, self.path
        if self._is_ours():
            disk.unlink(path)  # of a process of ours: it is dead, since we hold its kernel lock
        stat = disk.stat(path)
        if stat is not None:
            self._judge(stat.kind)
            return "live"
        prepared = posixpath.join(self.common_dir, f"{MUTEX}.{self.token}")
        disk.unlink(prepared)
        disk.write_new(prepared, b"%d\n" % self.ground.table.own().pid)
        try:
            self._note(prepared)
            return "taken" if disk.link(prepared, path) else "live"
        finally:
            disk.unlink(prepared)

    def give_back(self) -> None:
        """Remove the file, if it is ours. Anybody else's is left alone."""
        if self._is_ours():
            self.ground.disk.unlink(self.path)
            # A number of a file is soon used again: nobody must be taken for us by it.
            self.ground.disk.unlink(posixpath.join(self.common_dir, _RECORD))

    def _judge(self, kind: str) -> None:
        """Raise unless a living process holds the lock."""
        if kind == "file":
            data = self.ground.disk.read(self.path)
            if data is None or (_PID.fullmatch(data) and self.ground.table.pid_exists(int(data))):
                return
        text = f"{self.path}: names no process that lives; if no program backs up this repository, remove it"
        raise BackupError("E_REPOSITORY", text, path=self.path)

    def _note(self, prepared: str) -> None:
        disk, path = self.ground.disk, posixpath.join(self.common_dir, _RECORD)
        stat = disk.stat(prepared)
        assert stat is not None
        fresh = posixpath.join(self.common_dir, f"{_RECORD}.{self.token}")
        disk.unlink(fresh)
        disk.write_new(fresh, compact([stat.device, stat.inode, self.ground.table.own().pid]).encode())
        disk.rename(fresh, path)

    def _is_ours(self) -> bool:
        """Whether the file in place is the one that a process of ours noted."""
        disk = self.ground.disk
        stat = disk.stat(self.path)
        noted = disk.read(posixpath.join(self.common_dir, _RECORD))
        if stat is None or stat.kind != "file" or noted is None:
            return False
        try:
            device, inode, pid = parse_strict(noted)
        except (CallError, TypeError, ValueError):
            return False
        return (stat.device, stat.inode) == (device, inode) and disk.read(self.path) == b"%d\n" % pid
