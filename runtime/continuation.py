"""Which session to continue when an agent starts: looking at sessions, and advice. Nothing here decides or writes.

::

    list_sessions -> headers --inspect_session--> candidates --recommend--> new | continue one | let the user choose
    resolve_startup: an explicit wish goes first, then the recommendation, then the user's choice among several
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, final

import attrs

from ..store import CallError, RealDisk, StoreError, StrataflowError, normalise_cwd, resolve_root, shown
from ..store.trace import HEADER_BYTES_MAX, read_head, time_ms
from .inspection import Inspector
from .session_trees import SYSTEM_SEAMS


@final
@attrs.frozen
class SessionHeader:
    """The first line of a session's file. ``active_ms``: when it was begun, epoch milliseconds."""

    file: str
    session_id: str
    cwd: str
    active_ms: float


@final
@attrs.frozen
class Here:
    """Where the agent starts. What is not known is None, and then does not count."""

    cwd: str
    profile: str = ""
    transport: str = ""
    git_common_dir: str | None = None
    work_tree: str | None = None
    branch: str | None = None


@final
@attrs.frozen
class Candidate:
    """A session that might be continued.

    Attributes:
      here: where it was last used.
      enabled: its mode is active.
      restorable: nothing keeps its memory from being used; else ``reason`` says what.
    """

    header: SessionHeader
    here: Here
    enabled: bool
    restorable: bool
    reason: str | None = None
    is_open: bool = True
    is_opted_out: bool = False


@final
@attrs.frozen
class Startup:
    """What to do: ``new``, ``resume`` this ``candidate``, or ``choose`` among ``choices``, in order of their files."""

    kind: Literal["new", "resume", "choose"]
    candidate: Candidate | None = None
    choices: tuple[Candidate, ...] = ()


def read_header(path: str) -> SessionHeader:
    """The header of a session's file: at most 64 KiB of it are looked at. Blocking.

    Raises:
      StoreError: E_CORRUPT for a link, a folder or no header, also where nothing is; E_DISK.
    """
    folder, name = os.path.split(os.path.abspath(path))
    root = resolve_root(folder)
    place = os.path.join(root, name)
    stat = RealDisk(root).stat(place)
    if stat is None or stat.kind != "file" or place != os.path.realpath(place):
        raise StoreError("E_CORRUPT", f"{place}: is no regular file of a session", path=place)
    header = read_head(SYSTEM_SEAMS, place, min(stat.size_bytes, HEADER_BYTES_MAX))
    try:
        session_id, cwd, begun = header["id"], header["cwd"], time_ms(header["timestamp"])
        if not session_id or begun is None:
            raise ValueError
        return SessionHeader(place, session_id, normalise_cwd(cwd), begun)
    except (CallError, StoreError, LookupError, TypeError, ValueError):
        raise StoreError("E_CORRUPT", f"{place}: its first line is no header of a session", path=place) from None


def list_sessions(folder: str) -> tuple[list[SessionHeader], list[tuple[str, StrataflowError]]]:
    """The headers of a folder's ``.jsonl`` files in the order of their names, and apart from them what is broken.

    A folder that does not exist holds none. Blocking.
    """
    root = resolve_root(os.path.abspath(folder))
    found: list[SessionHeader] = []
    broken: list[tuple[str, StrataflowError]] = []
    for name in RealDisk(root).list(root) or []:
        if name.endswith(".jsonl"):
            path = os.path.join(root, name)
            try:
                found.append(read_header(path))
            except StrataflowError as error:
                broken.append((path, error))
    return found, broken


def inspect_session(store: Inspector, header: SessionHeader, here: Here) -> Candidate:
    """A session as a candidate (6.5.2): its memory is looked at, without a lock and without a trace. Blocking."""

    def candidate(enabled: bool, reason: str | None = None) -> Candidate:
        return Candidate(header, here, enabled, reason is None, reason)

    try:
        if not store.exists:
            return candidate(False)
        status = store.status(header.cwd, header.session_id)
    except StrataflowError as error:
        return candidate(True, str(error))
    failure = next(iter(status.errors.values()), status.trouble)
    if failure is not None:
        return candidate(True, str(failure))
    return candidate(status.run is not None and status.run.mode == "active")


def recommend(candidates: Sequence[Candidate], here: Here) -> Startup:
    """What to do by itself (6.5.3): the latest session of this place if it can be continued; never an older one."""
    fitting = [
        candidate
        for candidate in candidates
        if candidate.is_open and not candidate.is_opted_out and _is_same_place(candidate.here, here)
    ]
    fitting = [candidate for candidate in fitting if candidate.header.active_ms == candidate.header.active_ms]
    if not fitting:
        return Startup("new")
    latest = max(candidate.header.active_ms for candidate in fitting)
    usable = sorted(
        (
            candidate
            for candidate in fitting
            if candidate.header.active_ms == latest and candidate.enabled and candidate.restorable
        ),
        key=lambda candidate: candidate.header.file,
    )
    if not usable:
        return Startup("new")
    return Startup("resume", usable[0]) if len(usable) == 1 else Startup("choose", choices=tuple(usable))


async def resolve_startup(
    candidates: Sequence[Candidate],
    here: Here,
    *,
    wish: Startup | None = None,
    choose: Callable[[tuple[Candidate, ...]], Awaitable[int | None]] | None = None,
) -> Startup:
    """What to do at a start: the explicit ``wish``, else the recommendation; among several ``choose`` gives the index
    of one, or None for a new session.

    If it raises Cancelled, nothing was decided; what ``choose`` raises is raised here.

    Raises:
      CallError: E_SHAPE for an index that none of the choices has.
    """
    if wish is not None:
        return wish
    found = recommend(tuple(candidates), here)
    if found.kind != "choose" or choose is None:
        return found
    index = await choose(found.choices)
    if index is None:
        return Startup("new")
    if type(index) is not int or not 0 <= index < len(found.choices):
        raise CallError("E_SHAPE", f"{shown(index)} is not the number of a choice, 0 to {len(found.choices) - 1}")
    return Startup("resume", found.choices[index])


def _is_same_place(candidate: Here, here: Here) -> bool:
    if (candidate.cwd, candidate.profile, candidate.transport) != (here.cwd, here.profile, here.transport):
        return False
    known = ((candidate.git_common_dir, here.git_common_dir), (candidate.work_tree, here.work_tree))
    return all(None in pair or pair[0] == pair[1] for pair in (*known, (candidate.branch, here.branch)))
