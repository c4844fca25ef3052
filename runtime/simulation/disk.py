"""A disk in memory that can stop before any operation and forget, keep or tear what was not synced.

``inodes`` states what survives a power cut (R1 to R6). The rest here:

  P1  Operations are counted from 1, in the order of their calls. The hook sees each before it does anything; a cut or
      a fault planned for its number comes next. An operation that was refused in this way changed nothing.
  P2  After a power cut the machine is off: every later operation raises ``PowerCut`` and changes nothing, so that the
      clean-up of a dying program cannot repair what the program left. ``crash`` gives the disk that is found later.
  P3  ``crash`` leaves this disk as it is: many fates of one moment can be looked at.
  P4  When ``capacity_bytes`` is reached a write takes the bytes that still fit, then refuses with ENOSPC; a new file is
      removed again, a part of an appended record stays, as with the real disk.
  P5  Modes are obeyed as for an ordinary user (never root); texts and codes of refusals are the real disk's.

A hook may do more than refuse: wait (a slow disk), draw from a generator (a rate of faults), let others run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import final

from ...store import FileKind, FileStat, check_path, disk_refusal, wrong_kind
from .inodes import CrashMode, Fate, FileSystem, Inode

NAME_BYTES_MAX = 255


class PowerCut(BaseException):
    """The machine stopped. No handler for errors may catch it: it ends a simulated process."""


@final
class SimulatedDisk:
    """A ``Disk`` in memory, safe to call from several threads.

    Attributes:
      operations: how many operations were called so far, refused ones included.
      before_operation: called with the name of the method and its path (``target`` of two) before each operation.
        It may raise PowerCut, or OSError, which is refused as the real disk would.
      capacity_bytes: the sum of the sizes of all files is at most this; None is without limit.
      type_name: what ``file_system_type`` answers.
      device, owner_uid: what ``stat`` answers. Two disks of one test should differ in the device.
    """

    def __init__(self, seed: int | random.Random = 0) -> None:
        self.operations = 0
        self.before_operation: Callable[[str, str], None] | None = None
        self.capacity_bytes: int | None = None
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
        self._plan[operation] = OSError(code, os.strerror(code))

    def crash(self, mode: CrashMode = "torn", seed: int | None = None) -> SimulatedDisk:
        """The disk as found after a power cut at this moment; without a seed the disk's own generator decides."""
        chance = self._chance if seed is None else random.Random(seed)
        found = SimulatedDisk(random.Random(chance.getrandbits(64)))
        found.capacity_bytes, found.type_name = self.capacity_bytes, self.type_name
        found.device, found.owner_uid = self.device, self.owner_uid
        with self._mutex:
            found._files = self._files.after_power_cut(Fate(mode, chance))
        return found

    # What tests put there and look at: not counted

    def plant(self, path: str, kind: FileKind = "folder", content: bytes = b"", mode: int | None = None) -> None:
        """Put a thing at a path, durable and with all folders above it. A symlink's content is its target."""
        with self._mutex:
            self._files.plant(path, kind, content, mode)

    def change_mode(self, path: str, mode: int) -> None:
        """What ``chmod`` would do."""
        inode = self._find(path)
        assert inode is not None
        inode.mode = mode

    def contents(self) -> dict[str, bytes]:
        """All files by path, as programs see them now."""
        with self._mutex:
            return self._files.contents()

    # The Disk

    def read(self, path: str) -> bytes | None:
        with self._operation("read", path):
            inode = self._file(path, 0o400)
            return None if inode is None else bytes(inode.content)

    def stat(self, path: str) -> FileStat | None:
        with self._operation("stat", path):
            inode = self._find(path)
            if inode is None:
                return None
            size, mode = len(inode.content), inode.mode
            return FileStat(inode.kind, size, mode, self.device, inode.number, inode.mtime_ns, self.owner_uid)

    def identity(self, path: str) -> tuple[int, int] | None:
        found = self.stat(path)
        return (found.device, found.inode) if found else None

    def list(self, path: str) -> list[str] | None:
        with self._operation("list", path):
            inode = self._folder(path, 0o400)
            return None if inode is None else sorted(inode.names)

    def make_folder(self, path: str) -> bool:
        with self._operation("make_folder", path):
            if self._folder(path, 0) is not None:
                return False
            folder, name = self._parent(path)
            self._files.change_names(folder, (name, self._files.create("folder", 0o700)))
            return True

    def write_new(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        with self._operation("write_new", path):
            if self._file(path, 0) is not None:
                raise _error(errno.EEXIST)
            folder, name = self._parent(path)
            inode = self._files.create("file", mode)
            self._files.change_names(folder, (name, inode))
            try:
                self._write(inode, data)
            except OSError:
                self._files.change_names(folder, (name, None))  # P4
                raise

    def append(self, path: str, data: bytes) -> None:
        with self._operation("append", path):
            inode = self._file(path, 0o200)
            if inode is None:
                folder, name = self._parent(path)
                inode = self._files.create("file", 0o600)
                self._files.change_names(folder, (name, inode))
            self._write(inode, data)

    def sync_file(self, path: str) -> None:
        with self._operation("sync_file", path):
            self._existing(self._file(path, 0o400)).sync()

    def sync_folder(self, path: str) -> None:
        with self._operation("sync_folder", path):
            self._files.sync_names(self._existing(self._folder(path, 0o400)))

    def rename(self, source: str, target: str) -> None:
        with self._operation("rename", target):
            inode = self._source("rename", source)
            old = self._file(target, 0)
            from_folder, from_name = self._parent(source)
            to_folder, to_name = self._parent(target)
            if old is inode:
                return  # two names of one file: both stay, as POSIX has it
            if from_folder is to_folder:
                self._files.change_names(to_folder, (to_name, inode), (from_name, None))
            else:  # R4
                added = self._files.change_names(to_folder, (to_name, inode))
                self._files.change_names(from_folder, (from_name, None), requires=added)

    def link(self, source: str, target: str) -> bool:
        with self._operation("link", target):
            inode = self._source("link", source)
            if self._find(target) is not None:
                return False
            folder, name = self._parent(target)
            self._files.change_names(folder, (name, inode))
            return True

    def unlink(self, path: str) -> bool:
        with self._operation("unlink", path):
            if self._file(path, 0) is None:
                return False
            folder, name = self._parent(path)
            self._files.change_names(folder, (name, None))
            return True

    def remove_folder(self, path: str) -> bool:
        with self._operation("remove_folder", path):
            inode = self._folder(path, 0)
            if inode is None:
                return False
            if inode.names:
                raise _error(errno.ENOTEMPTY)
            folder, name = self._parent(path)
            self._files.change_names(folder, (name, None))
            return True

    def file_system_type(self, path: str) -> str:
        with self._operation("file_system_type", path):
            return self.type_name

    # Inside

    @contextlib.contextmanager
    def _operation(self, name: str, path: str) -> Iterator[None]:
        check_path(name, path)
        try:
            self._admit(name, path)
            with self._mutex:
                yield
        except OSError as error:
            raise disk_refusal(name, path, error) from error

    def _admit(self, name: str, path: str) -> None:
        with self._mutex:
            if self._is_off:
                raise PowerCut("the machine is off")  # P2
            self.operations += 1
            planned = self._plan.pop(self.operations, None)
        try:
            if self.before_operation is not None:  # outside of the mutex: a hook may wait for other threads
                self.before_operation(name, path)
            if planned is not None:
                raise planned
        except PowerCut:
            self._is_off = True
            raise
        except OSError:
            if name == "sync_file":
                self._existing(self._file(path, 0)).fail_sync()
            raise

    def _find(self, path: str) -> Inode | None:
        inode = self._files.inodes[FileSystem.ROOT]
        reached = ""
        for name in path.split("/")[1:] if path != "/" else ():
            if inode.kind != "folder":
                raise wrong_kind(reached, inode.kind, "folder")
            if not inode.mode & 0o100:
                raise _error(errno.EACCES)
            if len(os.fsencode(name)) > NAME_BYTES_MAX:
                raise _error(errno.ENAMETOOLONG)
            number = inode.names.get(name)
            if number is None:
                return None
            inode = self._files.inodes[number]
            reached += "/" + name
        return inode

    def _file(self, path: str, mode: int) -> Inode | None:
        return self._of_kind(path, "file", mode)

    def _folder(self, path: str, mode: int) -> Inode | None:
        return self._of_kind(path, "folder", mode)

    def _of_kind(self, path: str, kind: FileKind, mode: int) -> Inode | None:
        inode = self._find(path)
        if inode is not None and inode.kind != kind:
            raise wrong_kind(path, inode.kind, kind)
        if inode is not None and inode.mode & mode != mode:
            raise _error(errno.EACCES)
        return inode

    def _source(self, operation: str, path: str) -> Inode:
        check_path(operation, path)
        try:
            return self._existing(self._file(path, 0))
        except OSError as error:  # the message must name this path, not the target
            raise disk_refusal(operation, path, error) from error

    def _parent(self, path: str) -> tuple[Inode, str]:
        """The folder whose names an operation will change, and the name."""
        head, _, name = path.rpartition("/")
        folder = self._existing(self._folder(head or "/", 0o300))
        return folder, name

    @staticmethod
    def _existing(inode: Inode | None) -> Inode:
        if inode is None:
            raise _error(errno.ENOENT)
        return inode

    def _write(self, inode: Inode, data: bytes) -> None:
        free = len(data) if self.capacity_bytes is None else max(0, self.capacity_bytes - self._files.used_bytes())
        inode.add(data[:free])
        inode.mtime_ns = self.operations
        if free < len(data):
            raise _error(errno.ENOSPC)


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
