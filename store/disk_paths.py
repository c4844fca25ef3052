"""What is said about paths: which ones a ``Disk`` takes, and the errors that both of its forms raise.

Here is no file call, so that the simulated disk refuses with the very words of the real one.
"""

from __future__ import annotations

import errno
import functools
import json
import stat
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .algebra.errors import StoreError
from .ports import FileKind

P = ParamSpec("P")
T = TypeVar("T")

PATH_SHOWN_CHARS_MAX = 512

_ACTIONS = {
    "stat": "look at",
    "make_folder": "create the folder",
    "write_new": "create",
    "append": "append to",
    "cut": "cut the end of",
    "sync_file": "sync",
    "sync_folder": "sync the folder",
    "remove_folder": "remove the folder",
    "unlink": "remove",
    "link": "link a file to",
    "rename": "move a file to",
}
# The words of the system for what is refused without asking it.
_REASONS = {
    errno.ENOENT: "No such file or directory",
    errno.EINVAL: "Invalid argument",
}
_REMEDIES = {
    "EACCES": "allow this user to use it",
    "EPERM": "allow this user to use it",
    "ENOSPC": "free some space",
    "EDQUOT": "free some space or raise the quota",
    "EROFS": "make its file system writable",
    "EIO": "check the disk and its cables, then the system log",
    "EMFILE": "raise the limit of open files",
    "ENAMETOOLONG": "use a shorter name",
    "EINVAL": "use an absolute path without '.', '..', NUL and lone surrogates",
}


def uninterrupted(call: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
    """Call until no signal cuts it short. Python does so itself for calls on descriptors, not for calls on paths."""
    while True:
        try:
            return call(*arguments, **more)
        except InterruptedError:
            continue


def kind_of(mode: int) -> FileKind:
    """The kind in the ``st_mode`` of a stat result."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def named(path: str) -> str:
    """A path for an error text: quoted, whole up to 512 characters (a path never grows by being stored again)."""
    text = path if len(path) <= PATH_SHOWN_CHARS_MAX else path[: PATH_SHOWN_CHARS_MAX - 1] + "…"
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def disk_refusal(operation: str, path: str, cause: OSError) -> StoreError:
    """E_DISK for what the system refused to do with ``path``. ``operation`` is the name of a ``Disk`` method."""
    code = cause.errno or errno.EIO
    name = errno.errorcode.get(code, str(code))
    reason = f"{cause.strerror} ({name})" if cause.strerror else name
    text = f"cannot {_ACTIONS.get(operation, operation)} {named(path)}: {reason}"
    remedy = _REMEDIES.get(name, "correct this and try again")
    return StoreError("E_DISK", f"{text}; {remedy}", path=path, operation=operation, errno=name)


def refused(operation: str, path: str, code: int) -> StoreError:
    """``disk_refusal`` for an ``errno`` number that no system call has given."""
    return disk_refusal(operation, path, OSError(code, _REASONS.get(code, "")))


def wrong_kind(path: str, found: FileKind, wanted: FileKind) -> StoreError:
    """E_CORRUPT for a path that holds another kind of thing than it should."""
    names = {"other": "device, pipe or socket"}
    text = f"{named(path)} is a {names.get(found, found)} where a {wanted} should be"
    return StoreError("E_CORRUPT", f"{text}; move it away", path=path, found=found, wanted=wanted)


def check_path(operation: str, path: str) -> None:
    """Refuse (E_DISK, EINVAL) a path that is not absolute, is not in its shortest form or cannot be a file name."""
    if not _is_usable(path):
        raise refused(operation, path, errno.EINVAL)


@functools.lru_cache(1024)  # each commit looks at the same few files
def _is_usable(path: str) -> bool:
    parts = path.split("/")
    usable = parts[0] == "" and len(parts) > 1 and "\0" not in path
    # "/" splits into two empty parts; everywhere else an empty part means a doubled or trailing slash.
    usable = usable and (path == "/" or not any(part in ("", ".", "..") for part in parts[1:]))
    return usable and encodable(path)


def encodable(path: str) -> bool:
    """Whether the path can be written as bytes; a lone surrogate that stands for no byte can not."""
    try:
        path.encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
    except UnicodeEncodeError:
        return False
    return True


def mount_type(mountinfo: str, path: str, device: str) -> str:
    """The file system type that ``mountinfo`` (the text of /proc/self/mountinfo) gives for ``path``, or ``""``.

    The longest mount point above the path wins, of equal ones the last. A mount with the path's own ``device``
    (``"8:1"``, empty if unknown) goes before all others, since a later mount of an upper folder may hide a longer one.
    """
    best: tuple[bool, int] = (False, 0)
    answer = ""
    for line in mountinfo.split("\n"):
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 6:
            continue
        point = _unescaped(fields[4])
        if path != point and not path.startswith(point.rstrip("/") + "/"):
            continue
        rank = (fields[2] == device, len(point))
        if rank >= best:
            best = rank
            answer = right.split(" ")[0]
    return answer


def _unescaped(field: str) -> str:
    """Blanks, tabs, newlines and backslashes of a mount point are written as three octal digits."""
    head, *rest = field.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)
