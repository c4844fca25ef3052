"""What actors need from the world besides the store's own seams. Each has a real form and a seeded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from ..store import KernelLock
from ..store.artifacts import Digest, Seen

T = TypeVar("T")


class Clock(Protocol):
    """Tells the time. Reading it never blocks."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. May jump in both directions: for records, never for measuring."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment. Never decreases: for measuring, never for records."""


class Ids(Protocol):
    """Makes names that nobody else has."""

    def new_id(self) -> str:
        """A fresh UUID in its canonical text form: 36 characters, lower case."""


class JournalBell(Protocol):
    """Tells that somebody writes to the journal, so that nobody has to look all the time.

    It may ring for nothing; what is written when it rings may not be visible yet; now and then it may miss something.
    It never opens a file of the journal.
    """

    @property
    def beat_s(self) -> float:
        """How often one must look although it does not ring. May change whenever it has rung."""

    @property
    def trouble(self) -> str:
        """Why it can not ring, in words, where that is worth a word; else empty."""

    async def wait_rung(self) -> None:
        """Wait until something was written since this returned last. If it raises Cancelled, no ring is lost."""

    def close(self) -> None:
        """Give back what the bell holds of the system. Idempotent; nobody may wait for it any more."""


class Threads(Protocol):
    """Where blocking calls run, so that the event loop never waits for a disk, a lock or the GIL of others."""

    async def commit(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        """Run ``call`` on the one thread kept for appends, and return what it returns.

        ``settle`` gets that on the loop as soon as it is known, before this task is woken: a pass of the loop earlier,
        which may be milliseconds.

        Can not be cancelled: the outcome of an append must be known. It ends, because the call does.
        """

    async def work(self, call: Callable[[], T]) -> T:
        """Run ``call`` on some thread. A cancellation waits for its end and is delivered afterwards."""

    async def work_abandonable(self, call: Callable[[], T]) -> T:
        """As ``work``, but a cancellation leaves at once and the thread to itself: for the last steps of closing."""

    def give_up(self) -> int:
        """Let everybody who waits in ``commit`` or ``work`` go with E_BROKEN, for a runtime that must close now.

        Their threads hang in a system call and are left to themselves. Returns how many.
        """

    async def wait_lock(self, lock: KernelLock) -> None:
        """Wait until ``lock`` is held. If it raises Cancelled, the lock is not held, or is given back by itself."""


class Sources(Protocol):
    """The sources of artifact cards, looked at from outside, by exact path (A11).

    Nothing is opened but to be hashed, no folder is listed, no link followed at the end of a path. Both calls always
    end, also where a file system does not answer. If one raises Cancelled, nothing of it goes on that anybody would
    notice.
    """

    async def inspect(self, paths: Sequence[str]) -> Mapping[str, Seen]:
        """What each path is now, by its metadata. Of a path that did not answer in time nothing is said.

        Always a checkpoint. No error of a file is raised: it is an ``Unavailable``.
        """

    async def digest(self, path: str) -> Digest:
        """The SHA-256 of the bytes at a path, and the metadata of the file they are from.

        Always a checkpoint. What goes wrong is in the answer.
        """
