"""The real bell: inotify on the store's private folder, through the C library, since Python has no call for it.

What is watched is the folder, by its path: no file of the journal is opened, whose locks a closed file would take away
from SQLite. The kernel tells of every write to a file in it, and of files that are removed; those of the journal ring.
A folder that goes away takes its watch with it, and limits of the system may forbid one: then the bell says so and
whoever listens looks at every beat instead, as on systems that have no inotify.

    RINGING --the folder is gone, the queue can not be read--> BROKEN --close--> CLOSED
       +-----------------------------close-------------------------------------> CLOSED
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from collections.abc import Iterator
from typing import Any, Final, final

import trio

from ..actors import POLL_BEAT_S, JournalBell, PollingBell
from ..store import Ground

# What a bell may miss is a mistake of a file system; this is how long it may stay unnoticed.
BELL_BEAT_S: Final = 2.0

_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_MODIFY, _MOVED_FROM, _DELETE = 0x2, 0x40, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLYDIR = 0x400, 0x800, 0x0100_0000
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_GONE = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_EVENT = struct.Struct("iIII")
_READ_BYTES = 16 << 10
_NAME = b"journal.db"
# The kernel says the same of two limits, one of the user and one of the process.
_LIMITS: Final = {
    errno.EMFILE: "the limit of inotify instances (fs.inotify.max_user_instances) or open files (ulimit -n) is reached",
    errno.ENFILE: "the system's limit of open files is reached",
    errno.ENOSPC: "the limit of watched files (fs.inotify.max_user_watches) is reached",
}


@final
class InotifyBell:
    """Rings when a file of the journal in ``folder`` is written or goes away. It owns one file descriptor."""

    def __init__(self, folder: str) -> None:
        """Begin to listen.

        Raises:
          OSError: this system has no inotify, its limits are reached, or the folder is not there.
        """
        self.trouble = ""
        self._folder = folder
        self._owner = os.getpid()
        self._fd = _call("inotify_init1", _NONBLOCK | _CLOEXEC)
        try:
            mask = _MODIFY | _MOVED_FROM | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
            _call("inotify_add_watch", self._fd, os.fsencode(folder), mask)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def beat_s(self) -> float:
        """See ``JournalBell.beat_s``."""
        return POLL_BEAT_S if self.trouble else BELL_BEAT_S

    async def wait_rung(self) -> None:
        """See ``JournalBell.wait_rung``."""
        # A forked child has the same queue: what it took, its parent would miss (J11).
        while self._fd >= 0 and os.getpid() == self._owner:
            await trio.lowlevel.wait_readable(self._fd)
            if self._take():
                return
        await trio.sleep_forever()

    def _take(self) -> bool:
        """Take what waits in the queue. Whether any of it is a reason to look."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self._break(error.strerror or str(error))
            return True
        is_rung = False
        for mask, name in _events(data):
            if mask & _GONE:
                self._break("the folder was removed or moved away")
                return True
            is_rung |= bool(mask & _OVERFLOW) or name.startswith(_NAME)
        return is_rung

    def _break(self, why: str) -> None:
        self.trouble = f"{self._folder}: {why}; the journal is looked at ten times a second instead"
        self.close()

    def close(self) -> None:
        """See ``JournalBell.close``."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if os.getpid() == self._owner:
                trio.lowlevel.notify_closing(fd)
            os.close(fd)


def open_bell(ground: Ground) -> JournalBell:
    """The best bell that this system has for a store. Never fails."""
    folder = ground.layout.private()
    try:
        return InotifyBell(folder)
    except OSError as error:
        why = _LIMITS.get(error.errno or 0, error.strerror)
        return PollingBell(f"{folder}: {why}; the journal is looked at ten times a second instead")


def _events(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        _, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size + length
        yield mask, data[at - length : at].rstrip(b"\0")


@functools.cache
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    """Call the C library.

    Raises:
      OSError: it has no such function, or the call failed.
    """
    try:
        function = getattr(_library(), name)
    except (AttributeError, OSError):
        raise OSError(errno.ENOSYS, "this system has no inotify") from None
    result: int = function(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
