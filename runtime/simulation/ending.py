"""How a world ends: faults have stopped, and everything is looked at, by the library and by reading the files.

What became of calls without an answer is asked; the values of all scopes are read by a fresh process; it closes, and
then the canonical files must say the same. Only after that the history is judged.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from ..session import Session
from .canonical_files import read_files
from .history import FinalScope
from .process import Process
from .standing import not_kept
from .world import World

Check = Callable[[Process], Awaitable[None]]

_REVISIONS = re.compile(r"g(\d+)c(\d+)s(\d+)")


async def look_at_everything(world: World, check: Check | None) -> None:
    """Fill in the rest of the history, and note what the library, the files and ``check`` contradict each other in."""
    seen: dict[str, tuple[Any, int]] = {}

    async def look(process: Process) -> None:
        await _ask_outcomes(world, process)
        await _read_all(world, process, seen)
        if check is not None:
            await check(process)
        report = await process.runtime.aclose()
        if report.left_behind or not (report.was_last and report.pi_lock_removed):
            world.found("unclean-close", f"the last process could not close in good order: {report}")

    if not await world.one_life(world.processes, look) and not world.troubles.violations:
        world.found("unexpected-error", "the store could not be opened and read although all faults had ended")
    if not world.troubles.violations:
        world.grounds.note_superseded(world.grounds.rows())
        for text in not_kept(world.grounds.machine):
            world.found("not-kept", text)
        _read_files(world, seen)


async def _ask_outcomes(world: World, process: Process) -> None:
    for call in world.history.calls:
        if call.request_id is not None and call.ending == "unknown":
            outcome = await process.runtime.outcome(call.request_id)
            receipt = outcome.receipt
            world.history.outcomes[call.request_id] = None if receipt is None else receipt.seq


async def _read_all(world: World, process: Process, seen: dict[str, tuple[Any, int]]) -> None:
    for cwd, session_id in sorted({(call.cwd, call.session) for call in world.history.calls if call.session}):
        session = await process.unrecorded.open_session(cwd, session_id, "passive")
        status = await session.status()
        for problem in (*status["unreadable"].values(), *filter(None, [status["blocked"]])):
            world.found("unreadable", f"{cwd} {session_id}: {problem}")
        seen.update(await read_scopes(session))
        await session.aclose()


async def read_scopes(session: Session) -> dict[str, tuple[Any, int]]:
    """Value and revision of the three scopes that a session sees, by their folders."""
    address, numbers = session._cell.address, _REVISIONS.fullmatch((await session.status())["revision"])
    assert address is not None
    assert numbers is not None
    seen: dict[str, tuple[Any, int]] = {}
    for (name, scope), revision in zip(address.scopes(), numbers.groups(), strict=True):
        value, lazy = (await session.read_state(paths=[name, f"{name}.lazy"])).value
        seen[scope] = (value if lazy is None else {**value, "lazy": lazy}, int(revision))
    return seen


def _read_files(world: World, seen: dict[str, tuple[Any, int]]) -> None:
    problem, files = None, {}
    try:
        files = read_files(world.grounds.machine)
    except (ValueError, KeyError) as error:
        problem = f"the canonical files do not parse: {error}"
    for scope, (value, revision) in sorted(seen.items()):
        written = files.get(scope)
        file_value = dict(written.value) if written else None if problem else {}
        world.history.final.append(FinalScope(scope, value, revision, file_value, problem))
        if written is not None and written.revision != revision:
            text = f"{scope or 'global'}: the library says revision {revision}, the files {written.revision}"
            world.found("files-differ", text)
