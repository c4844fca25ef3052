"""The seams of this layer: everything that touches the world does so through one of these small Protocols.

Each has a real form (``disk.py``, ``lock.py``, ``journal.py``) and a simulated one, and one conformance suite that
both pass. All calls are synchronous; whoever is on an event loop calls them from a worker thread.
"""

from __future__ import annotations

from typing import Literal, Protocol

import attrs

FileKind = Literal["file", "folder", "symlink", "other"]


@attrs.frozen
class FileStat:
    """What ``lstat`` says of a path. ``mode`` holds the permission bits only."""

    kind: FileKind
    size_bytes: int
    mode: int
    device: int
    inode: int
    mtime_ns: int
    owner_uid: int


class Disk(Protocol):
    """Synchronous file operations with explicit sync points.

    Nothing is durable before ``sync_file`` (content) and ``sync_folder`` (names). Every failure is a StoreError that
    names path and cause: E_DISK for what the system refused, E_CORRUPT for a symlink, folder or device where a file
    should be. Missing is an answer (None), never an error; unreadable is an error, never missing.
    """

    def read(self, path: str) -> bytes | None:
        """The whole file, or None if nothing has this name. Symlinks are not followed."""

    def stat(self, path: str) -> FileStat | None:
        """``lstat`` of the path, or None if nothing has this name."""

    def identity(self, path: str) -> tuple[int, int] | None:
        """Device and inode of the path, or None if nothing has this name. Quick: asked after each commit (J9)."""

    def list(self, path: str) -> list[str] | None:
        """The names in a folder, sorted, or None if nothing has this name."""

    def make_folder(self, path: str) -> bool:
        """Create one folder (0700). False if a real folder was there already. The parent must be synced to keep it."""

    def write_new(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Create a file that must not exist. Not durable before ``sync_file`` and ``sync_folder`` of its parent."""

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a regular file, creating it (0600) if nothing has this name.

        A failed append may leave a part of ``data`` at the end.
        """

    def sync_file(self, path: str) -> None:
        """Make the content of a file durable (``fsync``; ``F_FULLFSYNC`` where it exists)."""

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace ``target``. Both are regular files of one file system; the target may be missing."""

    def link(self, source: str, target: str) -> bool:
        """Give the file a second name. False if the target exists already."""

    def unlink(self, path: str) -> bool:
        """Remove a name. False if nothing had it."""

    def remove_folder(self, path: str) -> bool:
        """Remove an empty folder. False if nothing had the name."""

    def file_system_type(self, path: str) -> str:
        """The type of the file system that holds the path, such as ``"ext4"`` or ``"nfs4"``; ``""`` if unknown."""


class FileParts(Protocol):
    """What long files need besides a ``Disk``: to be read in parts, and to lose a torn end. Errors are a ``Disk``'s."""

    def read_part(self, path: str, start: int, size: int) -> bytes | None:
        """``size`` bytes from ``start`` on, fewer only at the end of the file; None if nothing has this name."""

    def cut(self, path: str, size: int) -> None:
        """Let the file end after ``size`` bytes; a shorter one stays as it is. Durable after ``sync_file``."""


class KernelLock(Protocol):
    """An advisory lock on one file that the kernel frees when its holder dies, and that no child inherits."""

    def try_acquire(self) -> bool:
        """Take the lock if it is free. Never waits. Not re-entrant: asking while holding is a programming error."""

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        """Wait for the lock, for use in a worker thread. False if the attempt was abandoned meanwhile.

        An attempt abandoned while the thread waits gives the lock back by itself as soon as it gets it.
        """

    def release(self) -> None:
        """Give the lock back; the file stays. Does nothing in a forked child, which never held it."""

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock now."""

    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file this object opened, or None if it never has."""

    def close(self) -> None:
        """Release and close. The object can not be used afterwards."""


class LockAttempt(Protocol):
    """One wait for a lock that its asker may abandon from another thread."""

    def abandon(self) -> bool:
        """Stop waiting. False if the lock had been obtained already: then the caller holds it."""


class Locks(Protocol):
    """Opens kernel locks."""

    def open(self, path: str) -> KernelLock:
        """The lock on the file at ``path``, created (0600) if missing. Does not take it."""

    def attempt(self) -> LockAttempt:
        """A fresh attempt for ``acquire_blocking``."""


@attrs.frozen
class ProcessIdentity:
    """A process that can not be mistaken for a later one with the same id."""

    pid: int
    start_time: int
    boot_id: str


class ProcessTable(Protocol):
    """Who is alive."""

    def own(self) -> ProcessIdentity:
        """This process."""

    def is_alive(self, process: ProcessIdentity) -> bool:
        """Whether exactly this process still runs (same id, start time and boot)."""

    def pid_exists(self, pid: int) -> bool:
        """Whether some process has this id, also when it may not be signalled."""


class Forgettable(Protocol):
    """Something of the parent's that a forked child must let be (J11)."""

    def forget(self) -> None:
        """In the child: make this object useless without touching what it stands for. Must not wait or raise."""
