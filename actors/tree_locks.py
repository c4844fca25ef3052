"""Locks on session files that nobody blocks on: whoever finds one taken is told, and waits for it on the event loop.

A session tree takes the lock of its file in a worker thread. If another process holds it, perhaps one that is stopped,
the thread must not hang there: the call is given up before it has written anything, the lock is waited for where the
wait can be cancelled, and the call is made again with the lock lent to it::

    call --free--> done
      |  taken: E_ABORTED, ``wanted`` names the file
    wait on the loop --obtained--> the same call once more, which finds the lock ``lent``
"""

from __future__ import annotations

from typing import final

import attrs

from ..store import KernelLock, LockAttempt, Locks


@final
@attrs.define(eq=False)
class PatientLocks:
    """The ``Locks`` of one session tree. ``wanted``: the file whose lock was taken when it was asked for."""

    _inner: Locks
    wanted: str | None = attrs.field(default=None, init=False)
    _lent: KernelLock | None = attrs.field(default=None, init=False)

    def open(self, path: str) -> KernelLock:
        """See ``Locks.open``. A lock that was lent is held already."""
        lent, self._lent = self._lent, None
        return _Lent(lent) if lent is not None else _Asking(self._inner.open(path), self, path)

    def attempt(self) -> LockAttempt:
        """See ``Locks.attempt``."""
        return self._inner.attempt()

    def open_wanted(self) -> KernelLock:
        """The lock that was taken, to be waited for and then lent."""
        assert self.wanted is not None
        path, self.wanted = self.wanted, None
        return self._inner.open(path)

    def lend(self, lock: KernelLock) -> None:
        """Let the next one who asks have this lock, which is held."""
        self._lent = lock

    def take_back(self) -> None:
        """Nobody has asked for what was lent."""
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.close()


@attrs.define(eq=False)
class _Through:
    """A lock that does as the one within it."""

    _lock: KernelLock

    def try_acquire(self) -> bool:
        return self._lock.try_acquire()

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        return self._lock.acquire_blocking(attempt)

    def release(self) -> None:
        self._lock.release()

    @property
    def is_held(self) -> bool:
        return self._lock.is_held

    def identity(self) -> tuple[int, int] | None:
        return self._lock.identity()

    def close(self) -> None:
        self._lock.close()


@final
@attrs.define(eq=False)
class _Asking(_Through):
    """Never waits."""

    _locks: PatientLocks
    _path: str

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        self._locks.wanted = self._path
        return False


@final
@attrs.define(eq=False)
class _Lent(_Through):
    """Held already."""

    def try_acquire(self) -> bool:
        return True
