"""The sides of a comparison behind one face: open a folder, then commit patches as one of several sessions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import attrs
import trio

from ..assembly import Runtime
from ..opening import open_runtime
from ..session import Session
from .peer import Peer

SideName = Literal["ours", "peer", "peer directly"]
SIDES: tuple[SideName, ...] = ("ours", "peer", "peer directly")

# Scope name -> patch. The names are those of a session: global, cwd, session.
Patches = Mapping[str, Any]
Commit = Callable[[int, Patches], Awaitable[Any]]

CWD = "/bench/project"


@attrs.frozen
class Opened:
    """A side ready to run: ``commit(session number, patches)``."""

    commit: Commit


@asynccontextmanager
async def opened(side: SideName, folder: str, sessions: range, memory: Patches | None = None) -> AsyncIterator[Opened]:
    """Open a side's store in ``folder``; ``memory`` is what a store that is new begins with."""
    if side == "ours":
        async with opened_runtime(folder) as runtime:
            handles = {number: await open_session(runtime, number) for number in sessions}
            if memory:
                await begin_with(runtime, handles[sessions[0]], memory)
            yield Opened(lambda number, patches: patch(handles[number], patches))
        return
    peer = Peer.open(os.path.join(folder, f"{side.replace(' ', '-')}.db"))
    try:
        for number in sessions:
            for scope in ("global", "cwd", "session"):
                peer.put(_scope(scope, number), (memory or {}).get(scope, {}))
        yield Opened(_threaded(peer) if side == "peer" else _direct(peer))
    finally:
        peer.close()


def opened_runtime(folder: str) -> AbstractAsyncContextManager[Runtime]:
    """Our store in a folder of the benchmark."""
    return open_runtime(store=os.path.join(folder, "ours"))


async def open_session(runtime: Runtime, number: int) -> Session:
    """Session ``number`` of the measured directory."""
    return await runtime.open_session(CWD, f"s{number:04}", "active")


async def patch(session: Session, patches: Patches) -> Any:
    """Patch by scope name."""
    return await session.patch_state(
        global_=patches.get("global"), cwd=patches.get("cwd"), session=patches.get("session")
    )


async def begin_with(runtime: Runtime, session: Session, memory: Patches) -> None:
    """Give a new store its memory, as settled as after a day of work: in the canonical files, out of the history."""
    if (await session.status())["step"]:
        return
    await patch(session, memory)
    for turn in range(runtime.settings.history_limit + 2):
        await patch(session, {name: {"working": {"begun": turn}} for name in memory})
    await runtime.checkpoint()


def _scope(name: str, number: int) -> str:
    return f"{name} {number}" if name == "session" else name


def _direct(peer: Peer) -> Commit:
    async def commit(number: int, patches: Patches) -> None:
        peer.commit({_scope(name, number): value for name, value in patches.items()})
        # The loop must turn here too: a program that never lets others run measures something else.
        await trio.lowlevel.checkpoint()

    return commit


def _threaded(peer: Peer) -> Commit:
    one_at_a_time = trio.CapacityLimiter(1)  # a connection serves one thread at a time

    async def commit(number: int, patches: Patches) -> None:
        scopes = {_scope(name, number): value for name, value in patches.items()}
        await trio.to_thread.run_sync(peer.commit, scopes, limiter=one_at_a_time)

    return commit
