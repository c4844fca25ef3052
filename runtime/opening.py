"""Opening a runtime: ``open_runtime``, in the real world or in any other."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from ..actors import Actor, ChildSpec, StoreActor, StoreWorld, open_supervisor
from ..store import (
    HISTORY_LIMIT_MAX,
    ConfigError,
    Durability,
    FlockLocks,
    Ground,
    Journal,
    Layout,
    MemoryStore,
    RealDisk,
    RealProcessTable,
    SqliteJournal,
    read_settings,
    shown,
)
from .assembly import Runtime
from .bell import open_bell
from .diagnostics import Diagnostics, LogFile
from .joining import Choices, Seams, TreeGround, join_store, leave_store
from .places import agent_folder, store_folder
from .prompt_desk import PromptDesk
from .reports import CLOSE_DEADLINE_S, EVENTS_MAX, RuntimeEvent
from .session_trees import SYSTEM_SEAMS, all_sessions
from .sources import missing_sources
from .threads import open_threads
from .tree_shelf import TreeShelf
from .world import RandomIds, SystemClock, pause


@asynccontextmanager
async def open_runtime(
    agent_dir: str | None = None,
    *,
    store: str | None = None,
    durability: Durability = "power",
    history_limit: int | None = None,
    share_with_pi: bool = False,
) -> AsyncIterator[Runtime]:
    """Open a store; it is closed when the body ends.

    Args:
      agent_dir: the agent directory, whose ``state-flow`` is the store; default ``$STRATAFLOW_DIR``, else
        ``~/.strataflow``.
      store: the store's own folder instead.
      durability: ``"power"``: an acknowledged change survives power loss. ``"process"``: it survives the death of
        every process, but not of the machine.
      history_limit: how many transitions stay visible, 0 to 100; default: the root ``config.json``, else 7.
      share_with_pi: work beside a running Pi, slower; otherwise Pi waits while the store is open here.

    While it waits (for another process that opens, for Pi's lock) it can be cancelled; then nothing was changed.

    Raises:
      ConfigError: the root ``config.json`` can not be used.
      StoreError: E_LOCK, E_CORRUPT, E_UNSUPPORTED, E_DISK.
      RuntimeFailed: in the body, when an actor failed again and again.
    """
    if durability not in ("power", "process"):
        raise ConfigError("E_CONFIG", f"durability {shown(durability)} is not 'power' or 'process'")
    root = store_folder(store) if store is not None else store_folder(agent_folder(agent_dir) + "/state-flow")
    above = root.rpartition("/")[0] or "/"
    locks = FlockLocks(above)
    ground = Ground(RealDisk(above), locks, RealProcessTable(), Layout(root))
    async with open_threads(locks) as threads:
        log = LogFile(agent_folder(agent_dir), root)
        trees = TreeGround(SYSTEM_SEAMS.disk, SYSTEM_SEAMS.parts, SYSTEM_SEAMS.locks, all_sessions(agent_dir))
        seams = Seams(
            ground, threads, SystemClock(), RandomIds(), _open_journal, open_bell, missing_sources, log.append, trees
        )
        async with open_runtime_in(seams, durability, history_limit, share_with_pi) as runtime:
            yield runtime


def _open_journal(ground: Ground, level: Durability) -> Journal:
    return SqliteJournal(ground.disk, ground.layout, level, pause)


@asynccontextmanager
async def open_runtime_in(
    seams: Seams, durability: Durability, history_limit: int | None, share_with_pi: bool
) -> AsyncIterator[Runtime]:
    """As ``open_runtime``, in any world."""
    layout = seams.ground.layout
    settings = await seams.threads.work(lambda: read_settings(seams.ground.disk, layout.config))
    limit = settings.history_limit if history_limit is None else history_limit
    if type(limit) is not int or not 0 <= limit <= HISTORY_LIMIT_MAX:
        raise ConfigError("E_CONFIG", f"history limit {shown(limit)} is not an integer from 0 to {HISTORY_LIMIT_MAX}")
    events: deque[RuntimeEvent] = deque(maxlen=EVENTS_MAX)

    def report(name: str, **data: Any) -> None:
        shown_data = {key: str(value) if isinstance(value, Exception) else value for key, value in data.items()}
        events.append(RuntimeEvent(name, seams.clock.wall_ms(), shown_data))

    world, state = await join_store(seams, Choices(durability, share_with_pi, limit), report)
    async with open_supervisor() as supervisor:
        runtime: Runtime | None = None
        try:
            actor = await supervisor.start(ChildSpec("store", _store_starter(world, state)))
            append = seams.append_log if settings.logging else None
            diagnostics = Diagnostics(append, world.clock.wall_ms, report)
            prompts = PromptDesk(world, diagnostics, seams.find_missing)
            shelf = None
            if seams.trees is not None:
                shelf = TreeShelf(
                    seams.trees, seams.threads, seams.clock, seams.ids, durability, seams.ground.disk, layout
                )
            runtime = Runtime(world, state, supervisor, actor, settings, events, shelf, prompts=prompts)
            yield runtime
        finally:
            # Without the shield a cancelled program would leave its lock towards Pi behind. It ends: both calls are
            # bounded, and the deadline holds for whatever hangs.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_DEADLINE_S):
                await (leave_store(world, state) if runtime is None else runtime.aclose())


def _store_starter(world: StoreWorld, state: MemoryStore) -> Callable[[], Actor]:
    return lambda: StoreActor(world, state)
