"""Locks and processes of a simulated machine: shared by its processes, lost with them.

A lock belongs to the inode of its file on a ``SimulatedDisk``, as with the real kernel: a file that replaced another
is another lock. Waiters are served in the order of their coming. What differs from the real form: an abandoned wait
ends at once (a real one ends when the lock is free), and a killed process is told so by E_CLOSED in each use of its
locks, since the threads that play its part go on.

All state changes under one condition, which is also what waiters wait on.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import final

import attrs

from ...store import LockAttempt, ProcessIdentity, StoreError
from .disk import SimulatedDisk

_Step = enum.Enum("_Step", ["NEW", "WAITING", "OBTAINED", "ABANDONED"])
_Phase = enum.Enum("_Phase", ["OPEN", "CLOSED", "KILLED"])
Identity = tuple[int, int]


@final
@attrs.define(eq=False)
class SimulatedAttempt:
    """One wait for a lock. Good for one ``acquire_blocking``."""

    _changed: threading.Condition
    step: _Step = attrs.field(default=_Step.NEW, init=False)

    def abandon(self) -> bool:
        with self._changed:
            if self.step is _Step.OBTAINED:
                return False
            self.step = _Step.ABANDONED
            self._changed.notify_all()
            return True


@attrs.define(eq=False)
class _Queue:
    """The lock on one inode: who has it and who waits for it, first come first."""

    holder: SimulatedLock | None = None
    waiters: list[tuple[SimulatedLock, SimulatedAttempt]] = attrs.field(factory=list)

    def serve(self) -> None:
        """Give a free lock to the first who still wants it."""
        while self.holder is None and self.waiters:
            lock, attempt = self.waiters.pop(0)
            if lock.is_open and attempt.step is _Step.WAITING:
                attempt.step = _Step.OBTAINED
                self.holder = lock


@final
@attrs.define(eq=False)
class SimulatedLock:
    """A ``KernelLock`` of one simulated process."""

    _locks: SimulatedLocks
    process: str
    _path: str
    _identity: Identity
    _phase: _Phase = attrs.field(default=_Phase.OPEN, init=False)

    @property
    def is_open(self) -> bool:
        return self._phase is _Phase.OPEN

    @property
    def is_held(self) -> bool:
        return self._queue.holder is self

    @property
    def _queue(self) -> _Queue:
        return self._locks.queue(self._identity)

    def try_acquire(self) -> bool:
        with self._locks.changed:
            self._require_open()
            assert not self.is_held, "the lock is held by this object already"
            if self._queue.holder is not None:
                return False
            self._queue.holder = self
        self._locks.on_obtained(self.process)
        return True

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        assert isinstance(attempt, SimulatedAttempt), "attempts come from the same locks"
        if self._locks.identity_at(self._path) != self._identity:
            text = f"the lock file {self._path} was replaced while it was in use; close the store and open it again"
            raise StoreError("E_LOCK", text, path=self._path)
        changed = self._locks.changed
        with changed:
            self._require_open()
            assert attempt.step in (_Step.NEW, _Step.ABANDONED), "an attempt is good for one wait"
            if attempt.step is _Step.ABANDONED:
                return False
            attempt.step = _Step.WAITING
            waiter = (self, attempt)
            self._queue.waiters.append(waiter)
            self._queue.serve()
            changed.notify_all()
            changed.wait_for(lambda: attempt.step is not _Step.WAITING or not self.is_open)
            if waiter in self._queue.waiters:
                self._queue.waiters.remove(waiter)
            if self._phase is _Phase.KILLED:
                self._require_open()
            return attempt.step is _Step.OBTAINED and self.is_open

    def release(self) -> None:
        with self._locks.changed:
            if self.is_held:
                self._queue.holder = None
                self._queue.serve()
                self._locks.changed.notify_all()
                self._locks.on_released()

    def identity(self) -> Identity | None:
        return self._identity

    def close(self) -> None:
        self._end(_Phase.CLOSED)

    def die(self) -> None:
        """The process is gone: what the kernel does with its locks."""
        self._end(_Phase.KILLED)

    def _end(self, phase: _Phase) -> None:
        with self._locks.changed:
            if self.is_open:
                self._phase = phase
                self.release()
                self._locks.changed.notify_all()

    def _require_open(self) -> None:
        if not self.is_open:
            why = "closed" if self._phase is _Phase.CLOSED else "lost when its process was killed"
            raise StoreError("E_CLOSED", f"the lock {self._path} was {why}; open the store anew", path=self._path)


@final
@attrs.frozen
class ProcessLocks:
    """The ``Locks`` that one simulated process sees."""

    _locks: SimulatedLocks
    process: str

    def open(self, path: str) -> SimulatedLock:
        return self._locks.open(self.process, path)

    def attempt(self) -> SimulatedAttempt:
        return SimulatedAttempt(self._locks.changed)


@final
class SimulatedLocks:
    """All locks of one simulated machine. After a power cut make a new one for the disk that was found.

    Attributes:
      on_obtained: called with the name of the process that got a free lock without waiting.
      on_released: called when a lock was given back, by whatever means.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.on_obtained: Callable[[str], None] = lambda process: None
        self.on_released: Callable[[], None] = lambda: None
        self._disk = disk
        self._queues: dict[Identity, _Queue] = {}
        self._opened: list[SimulatedLock] = []

    def of(self, process: str) -> ProcessLocks:
        """The view of a process. A name may be used again after ``kill``, for a later process."""
        return ProcessLocks(self, process)

    def kill(self, process: str) -> None:
        """Free all that a process holds and end its waits."""
        with self.changed:
            for lock in [lock for lock in self._opened if lock.process == process]:
                lock.die()
            self._opened = [lock for lock in self._opened if lock.is_open]

    def holder(self, path: str) -> str | None:
        """The process that holds the lock on a file, or None."""
        with self.changed:
            lock = self.queue(self.identity_at(path)).holder
            return None if lock is None else lock.process

    def wait_for_waiters(self, path: str, count: int) -> None:
        """Block until so many threads wait for the lock on a file: for tests, instead of sleeping."""
        queue = self.queue(self.identity_at(path))
        with self.changed:
            self.changed.wait_for(lambda: len(queue.waiters) >= count)

    def open(self, process: str, path: str) -> SimulatedLock:
        self._disk.append(path, b"")  # creates it (0600) and refuses whatever is not a file
        lock = SimulatedLock(self, process, path, self.identity_at(path))
        with self.changed:
            self._opened = [old for old in self._opened if old.is_open]
            self._opened.append(lock)
        return lock

    def identity_at(self, path: str) -> Identity:
        found = self._disk.stat(path)
        return (0, 0) if found is None else (found.device, found.inode)

    def queue(self, identity: Identity) -> _Queue:
        return self._queues.setdefault(identity, _Queue())


@final
@attrs.frozen
class SimulatedProcess:
    """The ``ProcessTable`` as one process sees it."""

    _table: SimulatedProcessTable
    _identity: ProcessIdentity

    def own(self) -> ProcessIdentity:
        return self._identity

    def is_alive(self, process: ProcessIdentity) -> bool:
        return process in self._table.running.values()

    def pid_exists(self, pid: int) -> bool:
        return any(process.pid == pid for process in self._table.running.values())


@final
class SimulatedProcessTable:
    """The processes of one simulated machine, which has been on ``boots`` times."""

    def __init__(self, boots: int = 1) -> None:
        self.running: dict[str, ProcessIdentity] = {}
        self._boots = boots
        self._started = 0

    def start(self, name: str, pid: int | None = None) -> SimulatedProcess:
        """Begin a process. With ``pid`` it gets the id of one that has ended."""
        assert name not in self.running, f"{name} runs already"
        self._started += 1
        pid = 1000 + self._started if pid is None else pid
        assert not any(process.pid == pid for process in self.running.values()), f"{pid} is in use"
        identity = ProcessIdentity(pid, self._started, f"boot-{self._boots}")
        self.running[name] = identity
        return SimulatedProcess(self, identity)

    def kill(self, name: str) -> None:
        del self.running[name]

    def after_kill(self) -> SimulatedProcessTable:
        """A twin in which nothing runs any more. Later processes are not taken for those that ended."""
        twin = SimulatedProcessTable(self._boots)
        twin._started = self._started
        return twin

    def reboot(self) -> None:
        """End all processes; later ones have another boot id, and start times count anew."""
        self.running.clear()
        self._boots += 1
        self._started = 0
