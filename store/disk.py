"""The real ``Disk``: file calls of the operating system that follow no symlink and never mistake trouble for absence.

What every operation keeps:

  D1  No symlink is followed below ``root``: the folders on the way are looked at one by one, the last part is opened
      with O_NOFOLLOW. ``root`` itself comes from ``resolve_root``, which follows links once.
  D2  A descriptor that was opened is asked what it is before it is used: only regular files hold data.
  D3  No descriptor outlives its call or reaches another program, and no call waits for the far end of a pipe.
  D4  Only "nothing has this name" is reported as missing. All else is a StoreError with path, cause and remedy; its
      ``data`` has ``path``, ``operation`` and ``errno`` (a name such as ``"ENOSPC"``), or ``found`` and ``wanted``.
  D5  Interrupted calls are repeated, by Python or by ``uninterrupted``; short writes are completed by the loop here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import final

import attrs

from .algebra.errors import StoreError
from .disk_paths import check_path, disk_refusal, encodable, kind_of, mount_type, refused, uninterrupted, wrong_kind
from .ports import FileKind, FileStat

if sys.platform != "win32":  # importable there too, so that opening a store can refuse by name
    import fcntl
_unless_missing = contextlib.suppress(FileNotFoundError)  # D4
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"))  # D1, D3


def resolve_root(path: str) -> str:
    """The absolute path of an agent directory with all symlinks followed, now and never again (Ours-10).

    What does not exist yet is kept as written. A link that leads nowhere stays and is refused when it is used.

    Raises:
      StoreError: E_UNSUPPORTED on Windows; E_DISK for a loop of links or a folder that may not be entered.
    """
    if sys.platform == "win32":  # Ours-20
        raise StoreError("E_UNSUPPORTED", "strataflow does not run on Windows; use Linux, macOS or WSL", path=path)
    if "\0" in path or not encodable(path):
        raise refused("resolve", path, errno.EINVAL)
    try:
        absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        try:
            return os.path.realpath(absolute, strict=True)
        except FileNotFoundError:
            head, tail = os.path.split(absolute.rstrip("/"))
            # Without strict, realpath would hide a loop or a refusal on the way.
            return os.path.normpath(os.path.join(resolve_root(head), tail))
    except OSError as error:
        raise disk_refusal("resolve", path, error) from error


def _kind_at(path: str) -> FileKind | None:
    with _unless_missing:
        return kind_of(uninterrupted(os.lstat, path).st_mode)
    return None


@contextlib.contextmanager
def translated(operation: str, path: str, wanted: FileKind = "file") -> Iterator[None]:
    """Turn each OSError of the block into the StoreError that says what is wrong with ``path`` (D4)."""
    try:
        yield
    except OSError as error:
        found: FileKind | None = None
        with contextlib.suppress(OSError):
            # The codes for "wrong kind" differ between systems and calls; what lies there is the better witness.
            found = _kind_at(path)
        if found is not None and found != wanted:
            raise wrong_kind(path, found, wanted) from error
        raise disk_refusal(operation, path, error) from error


def open_checked(path: str, flags: int, wanted: FileKind = "file", mode: int = 0o600) -> int:
    """A descriptor of ``path``, known to be of the wanted kind (D2). Raises OSError or StoreError."""
    descriptor = os.open(path, flags | _SAFE, mode)
    try:
        found = kind_of(os.fstat(descriptor).st_mode)
        if found != wanted:
            raise wrong_kind(path, found, wanted)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def opened(path: str, flags: int, wanted: FileKind = "file", mode: int = 0o600) -> Iterator[int]:
    """``open_checked`` for the length of a block."""
    descriptor = open_checked(path, flags, wanted, mode)
    try:
        yield descriptor
    finally:
        with contextlib.suppress(InterruptedError):  # closed all the same; closing again could hit a stranger's
            os.close(descriptor)


def folders_exist(root: str, operation: str, path: str) -> bool:
    """Whether all folders between ``root`` and ``path`` exist. Refuses one that is not a real folder (D1)."""
    check_path(operation, path)
    base = root.rstrip("/")
    start = len(base) + 1 if path.startswith(base + "/") else 1
    end = path.find("/", start)
    while end != -1:
        folder = path[:end]
        try:  # not by translated: this runs several times for each operation
            mode = uninterrupted(os.lstat, folder).st_mode
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_refusal(operation, folder, error) from error
        if not stat.S_ISDIR(mode):
            raise wrong_kind(folder, kind_of(mode), "folder")
        end = path.find("/", end + 1)
    return True


def _read_all(descriptor: int) -> bytes:
    # Files of /proc have no size: the end is where nothing comes any more.
    chunks = [os.read(descriptor, os.fstat(descriptor).st_size + 1)]
    while chunks[-1]:
        chunks.append(os.read(descriptor, 1 << 16))
    return b"".join(chunks)


def read_system_text(path: str) -> str:
    """What a file of /proc says now; empty where it does not exist or may not be read."""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            return os.fsdecode(_read_all(descriptor))
    except (OSError, StoreError):
        return ""


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        if not (written := os.write(descriptor, rest)):
            raise OSError(errno.EIO, "")  # a disk that takes nothing and says nothing would hold us here for ever
        rest = rest[written:]


def _sync(descriptor: int) -> None:
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:  # macOS: plain fsync stops at the cache of the drive
        try:
            fcntl.fcntl(descriptor, full)
            return
        except OSError as error:
            if error.errno == errno.EIO:  # all else: this file system does not know the call
                raise
    os.fsync(descriptor)


@final
@attrs.frozen
class RealDisk:
    """The ``Disk`` of this machine. ``root`` is where looking for symlinks begins: ``"/"`` looks at every folder."""

    root: str = "/"

    def read(self, path: str) -> bytes | None:
        if not folders_exist(self.root, "read", path):
            return None
        with translated("read", path), _unless_missing, opened(path, os.O_RDONLY) as descriptor:
            return _read_all(descriptor)
        return None

    def stat(self, path: str) -> FileStat | None:
        if not folders_exist(self.root, "stat", path):
            return None
        with translated("stat", path), _unless_missing:
            at = uninterrupted(os.lstat, path)
            kind, mode = kind_of(at.st_mode), stat.S_IMODE(at.st_mode)
            return FileStat(kind, at.st_size, mode, at.st_dev, at.st_ino, at.st_mtime_ns, at.st_uid)
        return None

    def identity(self, path: str) -> tuple[int, int] | None:
        # No look at the folders (D1): whatever way leads to the same inode, it is the same file.
        try:
            found = uninterrupted(os.lstat, path)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise disk_refusal("stat", path, error) from error
        return found.st_dev, found.st_ino

    def list(self, path: str) -> list[str] | None:
        if not folders_exist(self.root, "list", path):
            return None
        with translated("list", path, "folder"), _unless_missing, opened(path, os.O_RDONLY, "folder") as descriptor:
            return sorted(uninterrupted(os.listdir, descriptor))
        return None

    def make_folder(self, path: str) -> bool:
        folders_exist(self.root, "make_folder", path)
        with translated("make_folder", path, "folder"):
            try:
                uninterrupted(os.mkdir, path, 0o700)
            except FileExistsError:  # asked afterwards: another process may create it at the same moment
                if _kind_at(path) != "folder":
                    raise
                return False
            return True

    def write_new(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        folders_exist(self.root, "write_new", path)
        created: os.stat_result | None = None
        with translated("write_new", path):
            try:
                with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=mode) as descriptor:
                    created = os.fstat(descriptor)
                    if stat.S_IMODE(created.st_mode) != mode:
                        # The umask took bits that a replaced file had (Ours-14). Refused: no modes are kept here.
                        with contextlib.suppress(PermissionError):
                            os.fchmod(descriptor, mode)
                    _write_all(descriptor, data)
            except BaseException:
                # Half a file under its final name must not stay. Only ours is removed, not what replaced it.
                with contextlib.suppress(OSError):
                    if created is not None and os.path.samestat(created, uninterrupted(os.lstat, path)):
                        uninterrupted(os.unlink, path)
                raise

    def append(self, path: str, data: bytes) -> None:
        folders_exist(self.root, "append", path)
        # After a failure a part may stay: cutting it off could take another appender's record; readers bear torn tails.
        with translated("append", path), opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
            _write_all(descriptor, data)

    def sync_file(self, path: str) -> None:
        folders_exist(self.root, "sync_file", path)
        with translated("sync_file", path), opened(path, os.O_RDONLY) as descriptor:
            _sync(descriptor)

    def sync_folder(self, path: str) -> None:
        folders_exist(self.root, "sync_folder", path)
        with translated("sync_folder", path, "folder"), opened(path, os.O_RDONLY, "folder") as descriptor:
            try:
                _sync(descriptor)
            except OSError as error:
                # "Folders cannot be synced here" says that names are kept in another way. A failed sync is EIO.
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    raise

    def rename(self, source: str, target: str) -> None:
        self._is_file("rename", source, required=True)
        self._is_file("rename", target)  # rename would replace a symlink without a word
        with translated("rename", target):
            uninterrupted(os.rename, source, target)

    def link(self, source: str, target: str) -> bool:
        self._is_file("link", source, required=True)
        folders_exist(self.root, "link", target)
        with translated("link", target), contextlib.suppress(FileExistsError):
            uninterrupted(os.link, source, target, follow_symlinks=False)
            return True
        return False

    def unlink(self, path: str) -> bool:
        if not self._is_file("unlink", path):
            return False
        with translated("unlink", path), _unless_missing:
            uninterrupted(os.unlink, path)
            return True
        return False

    def remove_folder(self, path: str) -> bool:
        if not folders_exist(self.root, "remove_folder", path):
            return False
        with translated("remove_folder", path, "folder"), _unless_missing:
            uninterrupted(os.rmdir, path)
            return True
        return False

    def file_system_type(self, path: str) -> str:
        check_path("file_system_type", path)
        device = ""
        with contextlib.suppress(OSError):
            number = uninterrupted(os.lstat, path).st_dev
            device = f"{os.major(number)}:{os.minor(number)}"
        return mount_type(read_system_text("/proc/self/mountinfo"), path, device)

    def _is_file(self, operation: str, path: str, required: bool = False) -> bool:
        """Whether a regular file has this name; anything else there is refused."""
        with translated(operation, path):
            found = _kind_at(path) if folders_exist(self.root, operation, path) else None
        if found is not None and found != "file":
            raise wrong_kind(path, found, "file")
        if required and found is None:
            raise refused(operation, path, errno.ENOENT)
        return found is not None
