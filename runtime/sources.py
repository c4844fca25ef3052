"""The real form of ``Sources``: files, looked at in worker threads of their own (A11, A27).

These threads serve nobody else: a network mount that is gone must not take the threads that write files. A look goes
through its paths in slices, so that whoever leaves has nothing left behind soon. A path that does not answer is left to
its thread, and is not looked at again until that has come back; the paths after it go on::

    waiting --> answered
       |------> stuck: nothing is said of it, now and until its thread comes back
       +--the time is over--> nothing is said of it
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, final

import attrs
import trio

from ..store.artifacts import MISSING, Digest, Fingerprint, Seen, Unavailable, is_canonical

T = TypeVar("T")

# Enough that one look, one hash and the look of a patch do not wait for each other; few, since all want the GIL.
SOURCE_THREADS_MAX: Final = 4
# A slice is a few milliseconds of work; beside a loop that never rests each of its system calls may cost five.
SOURCES_SLICE: Final = 256
# How long a slice may last, a whole look, and a hash.
SOURCES_SLICE_S_MAX: Final = 2.0
SOURCES_LOOK_S_MAX: Final = 10.0
SOURCE_HASH_S_MAX: Final = 10.0

_CHUNK = 256 << 10
_SIZE_MAX = 2**53 - 1


@final
class FileSources:
    """Regular files by absolute path. ``lstat``: for tests that need a file system that hangs."""

    def __init__(self, lstat: Callable[[str], os.stat_result] = os.lstat) -> None:
        self._lstat = lstat
        self._threads = trio.CapacityLimiter(SOURCE_THREADS_MAX)
        # Threads that come back take their path out of it again; each step is one of the set's own.
        self._stuck: set[str] = set()

    async def inspect(self, paths: Sequence[str]) -> Mapping[str, Seen]:
        """See ``Sources.inspect``."""
        await trio.lowlevel.checkpoint()
        found: dict[str, Seen] = {}
        waiting = [path for path in paths if path not in self._stuck] if self._stuck else paths
        end, at = trio.current_time() + SOURCES_LOOK_S_MAX, 0
        while at < len(waiting) and trio.current_time() < end:
            look = _Look(waiting[at : at + SOURCES_SLICE], self._lstat, self._stuck)
            is_done = await self._run(look.run, look.leave, SOURCES_SLICE_S_MAX) is not None
            answered = dict(look.found)
            found.update(answered)
            at += len(answered)
            if not is_done:
                if look.take_stuck() is None:
                    break  # no thread was free: all of them hang
                at += 1
        return found

    async def digest(self, path: str) -> Digest:
        """See ``Sources.digest``."""
        await trio.lowlevel.checkpoint()
        if path in self._stuck:
            return Digest(None, problem="its file system does not answer")
        leaving = threading.Event()
        digest = await self._run(lambda: _hash(path, leaving), leaving.set, SOURCE_HASH_S_MAX)
        return digest or Digest(None, problem=f"it could not be read within {SOURCE_HASH_S_MAX:g} s")

    async def _run(self, call: Callable[[], T], leave: Callable[[], object], limit_s: float) -> T | None:
        """What ``call`` returns on a thread; None if that lasts too long. ``leave``: nobody waits for it any more."""
        answer: T | None = None
        with trio.move_on_after(limit_s):
            try:
                answer = await trio.to_thread.run_sync(call, limiter=self._threads, abandon_on_cancel=True)
            except trio.Cancelled:
                leave()
                raise
        return answer


@final
@attrs.define(eq=False)
class _Look:
    """One slice of a look, on its thread; ``leave`` is called on the loop.

    Without a lock, which would cost a quarter of a look: each attribute has one writer, and whichever of the two comes
    last sees what the other one did.
    """

    paths: Sequence[str]
    _lstat: Callable[[str], os.stat_result]
    _stuck: set[str]
    found: dict[str, Seen] = attrs.field(factory=dict, init=False)
    _at: str | None = attrs.field(default=None, init=False)
    _is_left: threading.Event = attrs.field(factory=threading.Event, init=False)
    _has_ended: threading.Event = attrs.field(factory=threading.Event, init=False)

    def run(self) -> bool:
        """Look at one path after the other, until nobody waits any more."""
        lstat, is_left, found = self._lstat, self._is_left.is_set, self.found
        try:
            for path in self.paths:
                self._at = path
                seen = _look_at(path, lstat)
                if is_left():
                    return False
                found[path] = seen
            return True
        finally:
            self._has_ended.set()
            self._stuck.difference_update(self.paths)

    def leave(self) -> None:
        """Nobody waits for it any more."""
        self._is_left.set()

    def take_stuck(self) -> str | None:
        """The path that has not answered for so long that nobody waits any more; None if it was not even begun."""
        at = self._at
        if at is not None:
            self._stuck.add(at)
            if self._has_ended.is_set():
                self._stuck.discard(at)
        return at


def look_at(path: str) -> Seen:
    """What a path is now. Blocks for as long as the file system takes."""
    return _look_at(path, os.lstat)


def _look_at(path: str, lstat: Callable[[str], os.stat_result]) -> Seen:
    if not is_canonical(path):
        return Unavailable("it is no absolute path in its canonical spelling")
    try:
        found = lstat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        return _missing(path, lstat, error)
    except (OSError, ValueError) as error:
        return Unavailable(_reason(error))
    return _fingerprint(found)


def _missing(path: str, lstat: Callable[[str], os.stat_result], error: OSError) -> Seen:
    """Whether nothing is there for certain. A link on the way that leads nowhere hides what may be there: the disk that
    it leads to may only be out of sight."""
    above = os.path.dirname(path)
    while True:
        try:
            mode = lstat(above).st_mode
            if stat.S_ISLNK(mode):
                os.stat(above)
            return MISSING
        except (FileNotFoundError, NotADirectoryError):
            if _is_link(above, lstat):
                return Unavailable(f"the link {above} leads nowhere")
            if above == "/":
                return Unavailable(_reason(error))
            above = os.path.dirname(above)
        except OSError as other:
            return Unavailable(_reason(other))


def _is_link(path: str, lstat: Callable[[str], os.stat_result]) -> bool:
    try:
        return stat.S_ISLNK(lstat(path).st_mode)
    except OSError:
        return False


def _fingerprint(found: os.stat_result) -> Seen:
    if not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "link" if stat.S_ISLNK(found.st_mode) else "special file"
        return Unavailable(f"it is a {kind}")
    if found.st_size > _SIZE_MAX:
        return Unavailable("it is larger than a number in JSON")
    return Fingerprint(found.st_size, found.st_mtime_ns)


def _reason(error: OSError | ValueError) -> str:
    return (os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)).lower()


def _hash(path: str, leaving: threading.Event) -> Digest:
    if not is_canonical(path):
        return Digest(None, problem="it is no absolute path in its canonical spelling")
    try:
        # Not through a link, and without waiting for somebody at the other end of a pipe.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            before = _fingerprint(os.fstat(file.fileno()))
            if not isinstance(before, Fingerprint):
                return Digest(None, problem=before.reason if isinstance(before, Unavailable) else "it is gone")
            found = hashlib.sha256()
            while (chunk := file.read(_CHUNK)) and not leaving.is_set():
                found.update(chunk)
            after = _fingerprint(os.fstat(file.fileno()))
    except OSError as error:
        return Digest(None, problem="it is a link" if error.errno == errno.ELOOP else _reason(error))
    if before != after:
        return Digest(None, problem="it was changed while it was hashed")
    return Digest(f"sha256:{found.hexdigest()}", before)
