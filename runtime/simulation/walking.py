"""From a path to what lies there, as the calls of a system walk: kinds and modes on the way are obeyed.

Modes are those of an ordinary user who owns everything (never root); texts and codes of refusals are the real disk's.
"""

from __future__ import annotations

import errno
import functools
import os

from ...store import FileKind, disk_refusal, wrong_kind
from .inodes import FileSystem, Inode

NAME_BYTES_MAX = 255


def system_error(code: int) -> OSError:
    """What a system call raises."""
    return OSError(code, os.strerror(code))


@functools.lru_cache(4096)  # a simulated world asks for the same few files over and over
def _parts(path: str) -> tuple[tuple[str, bool], ...]:
    """The names of a path, and whether each can be one."""
    return tuple((name, len(os.fsencode(name)) <= NAME_BYTES_MAX) for name in path.split("/")[1:] if name)


def find(files: FileSystem, path: str) -> Inode | None:
    """What has this name; None if nothing has. Raises OSError or StoreError for what lies on the way."""
    inodes = files.inodes
    inode = inodes[FileSystem.ROOT]
    parts = _parts(path)
    for place, (name, is_possible) in enumerate(parts):
        if inode.kind != "folder":
            raise wrong_kind("".join(f"/{above}" for above, _ in parts[:place]), inode.kind, "folder")
        if not inode.mode & 0o100:
            raise system_error(errno.EACCES)
        if not is_possible:
            raise system_error(errno.ENAMETOOLONG)
        number = inode.names.get(name)
        if number is None:
            return None
        inode = inodes[number]
    return inode


def find_kind(files: FileSystem, path: str, kind: FileKind, mode: int = 0) -> Inode | None:
    """As ``find``; anything of another kind is refused, and so is one that does not allow ``mode``."""
    inode = find(files, path)
    if inode is not None and inode.kind != kind:
        raise wrong_kind(path, inode.kind, kind)
    if inode is not None and inode.mode & mode != mode:
        raise system_error(errno.EACCES)
    return inode


def existing(inode: Inode | None) -> Inode:
    """What was found, or ENOENT."""
    if inode is None:
        raise system_error(errno.ENOENT)
    return inode


def find_source(files: FileSystem, operation: str, path: str) -> Inode:
    """The file that is to be moved or linked. A refusal names its path, not that of the target."""
    try:
        return existing(find_kind(files, path, "file"))
    except OSError as error:
        raise disk_refusal(operation, path, error) from error


def find_parent(files: FileSystem, path: str) -> tuple[Inode, str]:
    """The folder whose names an operation will change, and the name."""
    head, _, name = path.rpartition("/")
    return existing(find_kind(files, head or "/", "folder", 0o300)), name
