"""Sharing a store with a running Pi: our lock is put in Pi's place for a batch and taken away again (Ours-3, J7).

One file per participant is prepared at joining, with its identity recorded in the journal; taking the lock is one hard
link, giving it back one unlink. Whoever calls ``take`` holds the turn lock, so a lock of ours that lies there already
was left on purpose after a failed checkpoint, or by a dead process: it is taken over, together with the duty to write
what is not in the files yet.

    free --link--> held --all rows in the files--> unlink --> free
                     +---- a checkpoint failed ----> stays, tried again by whoever has the turn
"""

from __future__ import annotations

from typing import final

import attrs

from .journal_types import Journal, PiLockRecord
from .membership import Ground, WaitForPi
from .pi_lock import look_at


@final
@attrs.frozen
class SharedPiLock:
    """One participant's prepared lock."""

    ground: Ground
    token: str
    record: PiLockRecord

    @property
    def _prepared(self) -> str:
        return self.ground.layout.private(f"pi.lock.{self.token}")

    def take(self, journal: Journal) -> WaitForPi | None:
        """Put the lock in place, or say for whom to wait. Call it with the turn lock held.

        Raises:
          StoreError: E_LOCK for a dead stranger's lock.
        """
        disk, layout = self.ground.disk, self.ground.layout
        while not disk.link(self._prepared, layout.pi_lock):
            found = look_at(disk, layout, journal.members.pi_locks(), self.ground.table)
            if found.kind in ("live", "pending"):
                return WaitForPi(found.pid)
            if found.kind == "nobody":
                continue
            if not self.is_held():
                # A second name for the prepared file, since a rename takes the name it renames away.
                second = self._prepared + ".take-over"
                disk.unlink(second)
                disk.link(self._prepared, second)
                disk.rename(second, layout.pi_lock)
            return None
        return None

    def is_held(self) -> bool:
        """Whether the file at Pi's path is this very lock."""
        stat = self.ground.disk.stat(self.ground.layout.pi_lock)
        return stat is not None and (stat.device, stat.inode) == (self.record.device, self.record.inode)

    def give_back(self) -> None:
        """Make way for Pi. Somebody else's file is left alone (store 2.1.10)."""
        if self.is_held():
            self.ground.disk.unlink(self.ground.layout.pi_lock)

    def forget(self, journal: Journal) -> None:
        """This participant leaves. A lock that stays in place stays recorded as ours."""
        if not self.is_held():
            # Giving back is not synced. A cut could bring the lock back when nobody knows it as ours any more: Pi and
            # we would wait for a repair by hand.
            self.ground.disk.sync_folder(self.ground.layout.root)
            others = [record for record in journal.members.pi_locks() if record != self.record]
            journal.members.set_pi_locks(others)
        self.ground.disk.unlink(self._prepared)


def prepare_shared(ground: Ground, journal: Journal, token: str) -> SharedPiLock:
    """Prepare a participant's lock: written, synced and recorded before it can ever be seen (J8)."""
    lock = SharedPiLock(ground, token, _written(ground, token))
    journal.members.set_pi_locks([*journal.members.pi_locks(), lock.record])
    return lock


def renew_shared(lock: SharedPiLock, journal: Journal) -> SharedPiLock:
    """The lock for a journal that was opened anew: it may be another one, which does not know it (J9)."""
    if lock.record in journal.members.pi_locks():
        return lock
    lock.ground.disk.unlink(lock.ground.layout.private(f"pi.lock.{lock.token}"))
    return prepare_shared(lock.ground, journal, lock.token)


def _written(ground: Ground, token: str) -> PiLockRecord:
    process = ground.table.own()
    path = ground.layout.private(f"pi.lock.{token}")
    ground.disk.write_new(path, b"%d\n" % process.pid)
    ground.disk.sync_file(path)
    stat = ground.disk.stat(path)
    assert stat is not None
    return PiLockRecord(stat.device, stat.inode, process)
