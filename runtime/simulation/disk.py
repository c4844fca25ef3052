"""A disk in memory that can stop before any operation and forget, keep or tear what was not synced.

``inodes`` and ``fates`` state what survives a power cut (R1 to R6). The rest here:

  P1  Operations are counted from 1, in the order of their calls. The hook sees each before it does anything; a cut or
      a fault planned for its number comes next. An operation that was refused in this way changed nothing.
  P2  After a power cut the machine is off: every later operation raises ``PowerCut`` and changes nothing, so that the
      clean-up of a dying program cannot repair what the program left. ``crash`` gives the disk that is found later.
  P3  ``crash`` and ``twin`` leave this disk as it is: many fates of one moment can be looked at.
  P4  When ``capacity_bytes`` is reached a write takes the bytes that still fit, then refuses with ENOSPC. Raised by a
      hook, ``ShortWrite`` does the same anywhere and with any code. A new file is removed again, a part of an
      appended record stays, as with the real disk.
  P5  Modes are obeyed as for an ordinary user (never root); texts and codes of refusals are the real disk's.
  P6  An interruption (EINTR) is met by another try, as the real disk meets it: nobody above ever sees one.
  P7  A system that finds its own structures damaged goes on reading only: with ``is_read_only`` set all that would
      change something is refused with EROFS.

A hook may do more than refuse: wait (a slow disk), draw from a generator (a rate of faults), let others run.
"""

from __future__ import annotations

import contextlib
import errno
import random
import threading
from collections.abc import Callable, Iterator
from typing import final

from ...store import FileKind, FileStat, check_path, disk_refusal
from .disk_parts import PartsOfFiles
from .fates import CrashMode, Fate
from .inodes import FailedSync, FileSystem, Inode
from .walking import existing, find, find_kind, find_parent, find_source, system_error

CHANGES = frozenset("make_folder write_new append cut rename link unlink remove_folder".split())


class PowerCut(BaseException):
    """The machine stopped. No handler for errors may catch it: it ends a simulated process."""


class ShortWrite(OSError):
    """For a hook: of what is to be written only the first bytes are taken, then it is refused with ``code``. (P4)"""

    def __init__(self, code: int, taken_bytes: int) -> None:
        super().__init__(code, system_error(code).strerror)
        self.taken_bytes = taken_bytes


@final
class SimulatedDisk(PartsOfFiles):
    """A ``Disk`` and its ``FileParts`` in memory, safe to call from several threads.

    Attributes:
      operations: how many operations were called so far, refused ones included.
      before_operation: called with the name of the method and its path (``target`` of two) before each operation.
        It may raise PowerCut, or OSError, which is refused as the real disk would.
      capacity_bytes: the sum of the sizes of all files is at most this; None is without limit.
      is_read_only: see P7.
      failed_sync: what programs read after a sync of a file was refused (R2).
      type_name: what ``file_system_type`` answers.
      device, owner_uid: what ``stat`` answers. Two disks of one test should differ in the device.
    """

    def __init__(self, seed: int | random.Random = 0) -> None:
        self.operations = 0
        self.before_operation: Callable[[str, str], None] | None = None
        self.capacity_bytes: int | None = None
        self.is_read_only = False
        self.failed_sync: FailedSync = "stays"
        self.type_name = "ext4"
        self.device = 2049
        self.owner_uid = 1000
        self._chance = seed if isinstance(seed, random.Random) else random.Random(seed)
        self._files = FileSystem()
        self._is_off = False
        self._plan: dict[int, BaseException] = {}
        self._mutex = threading.RLock()

    # Faults

    def cut_power_before(self, operation: int) -> None:
        """Let the power fail before the operation with this number."""
        self._plan[operation] = PowerCut(f"before operation {operation}")

    def fail_operation(self, operation: int, code: int) -> None:
        """Refuse the operation with this number with an ``errno`` code, such as ``errno.EIO``."""
        self._plan[operation] = system_error(code)

    def crash(self, mode: CrashMode = "torn", seed: int | None = None) -> SimulatedDisk:
        """The disk as found after a power cut at this moment; without a seed the disk's own generator decides."""
        chance = self._chance if seed is None else random.Random(seed)
        found = self._with_files(random.Random(chance.getrandbits(64)))
        with self._mutex:
            found._files = self._files.after_power_cut(Fate(mode, chance))
        return found

    def twin(self, seed: int = 0) -> SimulatedDisk:
        """This disk once more, with all that is at risk on it: another future of the same moment."""
        found = self._with_files(random.Random(seed))
        found.is_read_only = self.is_read_only
        with self._mutex:
            found._files = self._files.twin()
        return found

    def _with_files(self, chance: random.Random) -> SimulatedDisk:
        found = SimulatedDisk(chance)
        found.capacity_bytes, found.type_name = self.capacity_bytes, self.type_name
        found.device, found.owner_uid = self.device, self.owner_uid
        found.failed_sync = self.failed_sync
        return found

    # What tests put there and look at: not counted

    def plant(self, path: str, kind: FileKind = "folder", content: bytes = b"", mode: int | None = None) -> None:
        """Put a thing at a path, durable and with all folders above it. A symlink's content is its target."""
        with self._mutex:
            self._files.plant(path, kind, content, mode)

    def change_mode(self, path: str, mode: int) -> None:
        """What ``chmod`` would do."""
        existing(find(self._files, path)).mode = mode

    def contents(self) -> dict[str, bytes]:
        """All files by path, as programs see them now."""
        with self._mutex:
            return self._files.contents()

    # The Disk

    def read(self, path: str) -> bytes | None:
        with self._operation("read", path):
            inode = find_kind(self._files, path, "file", 0o400)
            return None if inode is None else bytes(inode.content)

    def stat(self, path: str) -> FileStat | None:
        with self._operation("stat", path):
            inode = find(self._files, path)
            if inode is None:
                return None
            size, mode = len(inode.content), inode.mode
            return FileStat(inode.kind, size, mode, self.device, inode.number, inode.mtime_ns, self.owner_uid)

    def identity(self, path: str) -> tuple[int, int] | None:
        found = self.stat(path)
        return (found.device, found.inode) if found else None

    def list(self, path: str) -> list[str] | None:
        with self._operation("list", path):
            inode = find_kind(self._files, path, "folder", 0o400)
            return None if inode is None else sorted(inode.names)

    def make_folder(self, path: str) -> bool:
        with self._operation("make_folder", path):
            if find_kind(self._files, path, "folder") is not None:
                return False
            folder, name = find_parent(self._files, path)
            self._files.change_names(folder, (name, self._files.create("folder", 0o700)))
            return True

    def write_new(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        with self._operation("write_new", path) as short:
            if find_kind(self._files, path, "file") is not None:
                raise system_error(errno.EEXIST)
            folder, name = find_parent(self._files, path)
            inode = self._files.create("file", mode)
            self._files.change_names(folder, (name, inode))
            try:
                self._write(inode, data, short)
            except OSError:
                self._files.change_names(folder, (name, None))  # P4
                raise

    def append(self, path: str, data: bytes) -> None:
        with self._operation("append", path) as short:
            inode = find_kind(self._files, path, "file", 0o200)
            if inode is None:
                folder, name = find_parent(self._files, path)
                inode = self._files.create("file", 0o600)
                self._files.change_names(folder, (name, inode))
            self._write(inode, data, short)

    def sync_file(self, path: str) -> None:
        with self._operation("sync_file", path):
            existing(find_kind(self._files, path, "file", 0o400)).sync()

    def sync_folder(self, path: str) -> None:
        with self._operation("sync_folder", path):
            self._files.sync_names(existing(find_kind(self._files, path, "folder", 0o400)))

    def rename(self, source: str, target: str) -> None:
        check_path("rename", source)
        with self._operation("rename", target):
            inode = find_source(self._files, "rename", source)
            old = find_kind(self._files, target, "file")
            from_folder, from_name = find_parent(self._files, source)
            to_folder, to_name = find_parent(self._files, target)
            if old is inode:
                return  # two names of one file: both stay, as POSIX has it
            if from_folder is to_folder:
                self._files.change_names(to_folder, (to_name, inode), (from_name, None))
            else:  # R4
                self._files.change_names(to_folder, (to_name, inode))
                self._files.change_names(from_folder, (from_name, None))

    def link(self, source: str, target: str) -> bool:
        check_path("link", source)
        with self._operation("link", target):
            inode = find_source(self._files, "link", source)
            if find(self._files, target) is not None:
                return False
            folder, name = find_parent(self._files, target)
            self._files.change_names(folder, (name, inode))
            return True

    def unlink(self, path: str) -> bool:
        with self._operation("unlink", path):
            if find_kind(self._files, path, "file") is None:
                return False
            folder, name = find_parent(self._files, path)
            self._files.change_names(folder, (name, None))
            return True

    def remove_folder(self, path: str) -> bool:
        with self._operation("remove_folder", path):
            inode = find_kind(self._files, path, "folder")
            if inode is None:
                return False
            if inode.names:
                raise system_error(errno.ENOTEMPTY)
            folder, name = find_parent(self._files, path)
            self._files.change_names(folder, (name, None))
            return True

    def file_system_type(self, path: str) -> str:
        with self._operation("file_system_type", path):
            return self.type_name

    # Inside

    @contextlib.contextmanager
    def _operation(self, name: str, path: str) -> Iterator[ShortWrite | None]:
        check_path(name, path)
        try:
            short = self._admit(name, path)
            with self._mutex:
                yield short
        except OSError as error:
            raise disk_refusal(name, path, error) from error

    def _admit(self, name: str, path: str) -> ShortWrite | None:
        """Count, and let hook and plan have their say. Returns a refusal that comes in the middle of a write."""
        while True:
            try:
                self._meet(name, path)
                return None
            except PowerCut:
                self._is_off = True
                raise
            except InterruptedError:
                continue  # P6
            except ShortWrite as error:
                if name in ("append", "write_new"):
                    return error
                raise
            except OSError:
                if name == "sync_file":
                    existing(find_kind(self._files, path, "file")).fail_sync(self.failed_sync)
                raise

    def _meet(self, name: str, path: str) -> None:
        with self._mutex:
            if self._is_off:
                raise PowerCut("the machine is off")  # P2
            self.operations += 1
            planned = self._plan.pop(self.operations, None)
        if self.before_operation is not None:  # outside of the mutex: a hook may wait for other threads
            self.before_operation(name, path)
        if planned is not None:
            raise planned
        if self.is_read_only and name in CHANGES:
            raise system_error(errno.EROFS)

    def _write(self, inode: Inode, data: bytes, short: ShortWrite | None) -> None:
        room = len(data) if self.capacity_bytes is None else max(0, self.capacity_bytes - self._files.used_bytes())
        # A write that took everything has not failed.
        taken = room if short is None else min(room, short.taken_bytes, len(data) - 1)
        inode.add(data[:taken])
        inode.mtime_ns = self.operations
        if short is not None:
            raise short
        if taken < len(data):
            raise system_error(errno.ENOSPC)
