"""Real runtimes on real folders for tests, quick ones: they do not wait for the disk at every commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.hand_stores import CWD, SESSION
from strataflow.runtime import ConflictError, Mode, Runtime, Session, StrataflowError, open_runtime
from strataflow.runtime.joining import Seams
from strataflow.runtime.opening import open_runtime_in
from strataflow.runtime.sources import FileSources
from strataflow.runtime.threads import open_threads
from strataflow.runtime.world import RandomIds, SystemClock, pause
from strataflow.store import Disk, Durability, FlockLocks, Ground, Journal, Layout, RealDisk, RealProcessTable
from strataflow.store import SqliteJournal as Sqlite


@asynccontextmanager
async def opened(root: Path, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime on the store ``root``, at durability "process" unless the options say otherwise."""
    async with open_runtime(store=str(root), **{"durability": "process", **options}) as runtime:
        yield runtime


@asynccontextmanager
async def session_of(
    root: Path, session_id: str = SESSION, *, cwd: str = CWD, mode: Mode | None = "active", **options: Any
) -> AsyncIterator[Session]:
    """A session in a runtime of its own."""
    async with opened(root, **options) as runtime:
        yield await runtime.open_session(cwd, session_id, mode)


def real_journal(ground: Ground, level: Durability) -> Journal:
    """The journal as the real runtime opens it."""
    return Sqlite(ground.disk, ground.layout, level, pause)


@asynccontextmanager
async def opened_in(
    root: Path,
    *,
    disk: Disk | None = None,
    journal: Callable[[Ground, Durability], Journal] = real_journal,
    history_limit: int | None = None,
    share_with_pi: bool = False,
) -> AsyncIterator[Runtime]:
    """A runtime with another disk or journal in place of the real one."""
    locks = FlockLocks()
    ground = Ground(disk or RealDisk(), locks, RealProcessTable(), Layout(str(root)))
    async with open_threads(locks) as threads:
        seams = Seams(ground, threads, SystemClock(), RandomIds(), journal, FileSources())
        async with open_runtime_in(seams, "process", history_limit, share_with_pi) as runtime:
            yield runtime


@contextmanager
def turn_held(root: Path) -> Iterator[None]:
    """Hold the turn of a store as another process would: whoever wants to write waits meanwhile."""
    lock = FlockLocks().open(str(root / ".strataflow/turn.lock"))
    assert lock.try_acquire()
    try:
        yield
    finally:
        lock.close()


async def value(session: Session, path: str) -> Any:
    """What a session reads at one path."""
    return (await session.read_state(path)).value


async def values(session: Session, *paths: str) -> Any:
    """What a session reads at several paths, in one look."""
    return (await session.read_state(paths=list(paths))).value


@contextmanager
def refused(*codes: str) -> Iterator[pytest.ExceptionInfo[StrataflowError]]:
    """The body must raise an error of ours with one of these codes."""
    with pytest.raises(StrataflowError) as caught:
        yield caught
    assert caught.value.code in codes, caught.value


@contextmanager
def conflicting() -> Iterator[pytest.ExceptionInfo[ConflictError]]:
    """The body must end with a conflict."""
    with pytest.raises(ConflictError) as caught:
        yield caught
    assert caught.value.code == "E_CONFLICT"
