"""Kernel locks (``flock``) that can be waited for and given up, and the table of processes.

One attempt to get a lock by waiting; every arrow is taken under the gate, so asker and worker agree on the outcome::

    NEW --acquire_blocking--> WAITING --the kernel gave it--> OBTAINED   (the asker holds the lock)
     |                           |
     +---------abandon-----------+----> ABANDONED                        (whoever gets the lock gives it back)

  L1  A wait has a descriptor of its own. A blocked ``flock`` cannot be interrupted; if it shared the descriptor of the
      lock object, its late success and the giving back would free a lock that the object took in the meantime.
  L2  The kernel ties the lock to what was opened, not to a process: a copy of the descriptor in a child keeps it.
      Descriptors are close-on-exec, a forked child closes its copies at once, and release says LOCK_UN, which works
      whatever copies there are. A child never says LOCK_UN: that would free the lock of its parent (J11).
  L3  All this state changes under one gate, which a fork waits for: a child sees no descriptor that is not written
      down. Nothing waits while it holds the gate. Per-lock mutexes lost: a child could inherit one that is taken.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import sys
import threading
import warnings
import weakref
from typing import final

import attrs

from .algebra.errors import StoreError
from .disk import folders_exist, open_checked, read_system_text, translated
from .disk_paths import named
from .ports import Forgettable, LockAttempt, ProcessIdentity

if sys.platform != "win32":  # importable there too, so that opening a store can refuse by name
    import fcntl

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_gate = threading.RLock()  # re-entrant, since the collector may call __del__ of one lock inside a call of another

_open: weakref.WeakSet[Forgettable] = weakref.WeakSet()


def forget_in_child(item: Forgettable) -> None:
    """Have ``item.forget()`` called in every child that is forked while the item is alive (J11)."""
    with _gate:
        _open.add(item)


def _after_fork_in_child() -> None:
    for item in list(_open):
        item.forget()
    _gate.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_after_fork_in_child)

_Step = enum.Enum("_Step", ["NEW", "WAITING", "OBTAINED", "ABANDONED"])
_Phase = enum.Enum("_Phase", ["OPEN", "CLOSED", "FORKED"])


@final
@attrs.define(eq=False)
class FlockAttempt:
    """One wait for a lock. Good for one ``acquire_blocking``."""

    _step: _Step = attrs.field(default=_Step.NEW, init=False)

    def abandon(self) -> bool:
        with _gate:
            if self._step is _Step.OBTAINED:
                return False
            self._step = _Step.ABANDONED
            return True

    def begin(self) -> bool:
        """Start to wait. False if it was abandoned before."""
        with _gate:
            assert self._step in (_Step.NEW, _Step.ABANDONED), "an attempt is good for one wait"
            if self._step is _Step.ABANDONED:
                return False
            self._step = _Step.WAITING
            return True

    def settle(self) -> bool:
        """The kernel gave the lock: whether somebody still wants it."""
        with _gate:
            if self._step is _Step.ABANDONED:
                return False
            self._step = _Step.OBTAINED
            return True


@final
@attrs.define(eq=False)
class FlockLock:
    """A ``KernelLock``. Made by ``FlockLocks.open``; its owner must close it."""

    _path: str
    _descriptor: int
    _identity: tuple[int, int]
    _held: bool = attrs.field(default=False, init=False)
    _phase: _Phase = attrs.field(default=_Phase.OPEN, init=False)
    _waiting: set[int] = attrs.field(factory=set, init=False)

    def try_acquire(self) -> bool:
        with _gate:
            self._require_open()
            assert not self._held, "the lock is held by this object already"
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._refusal(error) from error
            self._held = True
            return True

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        assert isinstance(attempt, FlockAttempt), "attempts come from FlockLocks.attempt"
        with _gate:
            self._require_open()
            if not attempt.begin():
                return False
            descriptor = self._open_again()  # L1
            self._waiting.add(descriptor)
        kept = False
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                raise self._refusal(error) from error
            with _gate:
                # A lock object that was closed meanwhile has nobody left who could release it.
                kept = self._phase is _Phase.OPEN and attempt.settle()
                if kept:
                    old, self._descriptor, self._held = self._descriptor, descriptor, True
                    self._waiting.discard(descriptor)
                    os.close(old)
        finally:
            if not kept:
                with _gate:
                    self._waiting.discard(descriptor)
                    _unlock_and_close(descriptor)
        return kept

    def release(self) -> None:
        with _gate:
            if not self._held:
                return
            self._held = False
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # L2
            except OSError as error:
                raise self._refusal(error) from error

    @property
    def is_held(self) -> bool:
        return self._held

    def identity(self) -> tuple[int, int] | None:
        return self._identity

    def close(self) -> None:
        with _gate:
            if self._phase is not _Phase.OPEN:
                return
            self._phase, self._held = _Phase.CLOSED, False
            _open.discard(self)
            # Descriptors in _waiting belong to their threads: closing one under a blocked flock would let the number
            # be used again while the kernel still works on it.
            _unlock_and_close(self._descriptor)

    def forget(self) -> None:
        """In a forked child: close the copies and never use this object again (L2)."""
        self._phase, self._held = _Phase.FORKED, False
        for descriptor in (self._descriptor, *self._waiting):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._waiting.clear()

    def __del__(self) -> None:
        if self._phase is _Phase.OPEN:
            warnings.warn(f"the lock {self._path} was never closed", ResourceWarning, stacklevel=2)
            self.close()

    def _open_again(self) -> int:
        with translated("lock", self._path):
            descriptor = open_checked(self._path, os.O_RDWR)
        if _identity_of(descriptor) != self._identity:
            os.close(descriptor)
            text = (
                f"the lock file {named(self._path)} was replaced while it was in use; close the store and open it again"
            )
            raise StoreError("E_LOCK", text, path=self._path)
        return descriptor

    def _require_open(self) -> None:
        if self._phase is not _Phase.OPEN:
            why = "closed" if self._phase is _Phase.CLOSED else "made before this process was forked"
            raise StoreError(
                "E_CLOSED", f"the lock {named(self._path)} was {why}; open the store anew", path=self._path
            )

    def _refusal(self, error: OSError) -> StoreError:
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        text = f"cannot lock {named(self._path)}: {error.strerror} ({name}); keep the store on a local file system"
        return StoreError("E_LOCK", text, path=self._path, errno=name)


@final
@attrs.frozen
class FlockLocks:
    """Opens ``flock`` locks below ``root``, under which no symlink is followed. Counts on local file systems only."""

    root: str = "/"

    def open(self, path: str) -> FlockLock:
        folders_exist(self.root, "lock", path)
        with _gate:
            with translated("lock", path):
                descriptor = open_checked(path, os.O_RDWR | os.O_CREAT)
            lock = FlockLock(path, descriptor, _identity_of(descriptor))
            _open.add(lock)
            return lock

    def attempt(self) -> FlockAttempt:
        return FlockAttempt()


def _identity_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _unlock_and_close(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # closing the last copy frees it as well
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def lock_holder_pid(device: int, inode: int) -> int | None:
    """The process that took the ``flock`` on a file, as /proc/locks tells; None if nobody did or it is not known."""
    file_id = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    for line in read_system_text("/proc/locks").split("\n"):
        # "1: FLOCK  ADVISORY  WRITE 4711 fd:01:5678 0 EOF"; who waits has "->" as second field. A process outside of
        # our container has the id 0 or -1.
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == file_id:
            return int(fields[4]) if int(fields[4]) > 0 else None
    return None


def _start_and_state(pid: int) -> tuple[int, str]:
    """Start time in clock ticks after boot and the letter of the state; ``(0, "")`` if the system does not tell."""
    # The name in brackets may hold blanks and brackets: only what follows the last bracket is in columns. The state
    # is field 3, the start time field 22.
    fields = read_system_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[19]), fields[0]) if len(fields) > 19 else (0, "")


@final
@attrs.frozen
class RealProcessTable:
    """Processes as the kernel shows them. Without /proc (macOS) a reused id cannot be told apart."""

    def own(self) -> ProcessIdentity:
        pid = os.getpid()
        return ProcessIdentity(pid, _start_and_state(pid)[0], read_system_text(_BOOT_ID).strip())

    def is_alive(self, process: ProcessIdentity) -> bool:
        """Unknown details count for life: waiting for a dead process is repaired by hand, robbing a living one is not.

        A zombie is dead: it runs no code any more, and its locks are free.
        """
        boot_id = read_system_text(_BOOT_ID).strip()
        if boot_id and process.boot_id and boot_id != process.boot_id:
            return False
        start_time, state = _start_and_state(process.pid)
        if start_time and process.start_time and start_time != process.start_time:
            return False
        return state not in ("Z", "X", "x") and self.pid_exists(process.pid)

    def pid_exists(self, pid: int) -> bool:
        """As a signal would see it: zombies have an id too."""
        if pid <= 0:  # a signal to 0 or below goes to whole groups
            return False
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        except (ProcessLookupError, OverflowError):
            return False
        return True
