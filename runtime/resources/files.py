"""The only place where resources meet the disk. Links are followed, since people share skills and context by links.

What has no name is None; whatever is there and cannot be used is an ``Unreadable`` with its cause (Ours-13).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import attrs

from .diagnoses import ResourceDiagnosis

T = TypeVar("T")

# No file has a name like this: looking for one is not trouble.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class Unreadable(Exception):
    """Something lies at ``path`` and cannot be read; ``cause`` says why."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"{path} cannot be read: {cause}")
        self.path = path
        self.cause = cause


@attrs.frozen
class Found:
    """A name in a folder, and what is behind it once links are followed."""

    name: str
    path: str
    kind: Literal["file", "folder"]


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"it is no UTF-8 at byte {error.start}") from error


def kind_at(path: str) -> Literal["file", "folder", "other"] | None:
    """What lies at ``path``. None: nothing, also where a link leads nowhere."""
    with _explained(path):
        try:
            mode = os.stat(path).st_mode
        except ValueError:
            return None  # a NUL or a lone surrogate: no file can have this name
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def read_text(path: str) -> str | None:
    """The text of a file, without a byte order mark. None: there is no such file.

    Raises:
      Unreadable: no permission, a failing disk, no regular file, a link to nowhere, no UTF-8.
    """
    with _explained(path):
        try:
            # Without waiting: a pipe under the name of a file must not hang its reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            if os.path.islink(path):
                raise Unreadable(path, "it is a link that leads nowhere") from error
            return None
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(path, "it is no regular file")
            return file.read().decode("utf-8-sig")


def list_folder(path: str) -> list[Found] | None:
    """The files and folders in a folder by name; broken links and devices are left out. None: there is no such folder.

    Raises:
      Unreadable: no permission, a failing disk, no folder.
    """
    if kind_at(path) is None:
        return None
    found = []
    with _explained(path):
        for name in sorted(os.listdir(path)):
            inner = os.path.join(path, name)
            try:
                kind = kind_at(inner)
            except Unreadable:
                kind = "file"  # whoever wants it by its name is told when reading it
            if kind == "file" or kind == "folder":
                found.append(Found(name, inner, kind))
    return found


def or_tell(look: Callable[[str], T | None], path: str, tell: Callable[[ResourceDiagnosis], None]) -> T | None:
    """``look(path)``; if that is unreadable it is told, and the answer is None."""
    try:
        return look(path)
    except Unreadable as trouble:
        tell(ResourceDiagnosis("unreadable", str(trouble), trouble.path))
        return None


def identity(path: str) -> tuple[int, int] | str:
    """The same for all ways to one file or folder: its device and inode; the path itself if it cannot be asked."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return path
    return found.st_dev, found.st_ino


def absolute(path: str, folder: str, home: str) -> str:
    """``path`` as given by a person in ``folder``: ``~`` is ``home``."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.normpath(os.path.join(folder, path))


def upwards(folder: str) -> list[str]:
    """``folder`` and all above it, nearest first."""
    found = [folder]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found
