"""How one open session is, as its ``status`` tells it."""

from __future__ import annotations

import attrs

from ..actors import SessionCell
from ..store import SCOPES, Json, MemoryStore, Mode, Status, plane_sizes, status_in


def session_status(cell: SessionCell, state: MemoryStore) -> Json:
    """Mode, revision, step, history depth, sizes in bytes and problems. Off looks at no storage, and tells less."""
    address = cell.address
    if address is None:
        return {"mode": cell.mode, "cwd": cell.cwd, "session": cell.session_id}
    images = state.trio(address)
    session = images[2]
    fence = state.fences.get(address.scope("session"))
    problem = cell.problem or (fence.error if fence else None)
    return {
        "mode": cell.mode,
        "cwd": cell.cwd,
        "session": cell.session_id,
        "revision": state.revision(address),
        "step": session.run.step if session.run else 0,
        "history_depth": len(state.boundaries(address)) - 1,
        "history_limit": state.history_limit,
        "sizes": {name: plane_sizes(image.state) for name, image in zip(SCOPES, images, strict=True)},
        "blocked": str(problem) if problem else None,
        "unreadable": {name: str(state.errors[scope]) for name, scope in address.scopes() if scope in state.errors},
    }


def session_overview(cell: SessionCell, state: MemoryStore, root: str) -> Status | None:
    """The whole status of an open session (L35); None in off mode, which has no memory in this process."""
    address = cell.address
    if address is None:
        return None
    fence = state.fences.get(address.scope("session"))
    problem = cell.problem or (fence.error if fence else None)
    # Active memory that can not be read keeps the model away; whatever else is wrong only pauses writing.
    is_blocked = cell.mode == "active" and cell.problem is not None and cell.problem.code != "E_FENCED"
    reason = None if problem is None else str(problem)
    known = cell.artifacts.judge(cell.scopes()).invalidations if cell.artifacts.seen else None
    return attrs.evolve(
        status_in(state, root, address),
        mode=cell.mode,
        invalidations=known,
        pending=pending_mode(cell),
        blocked=reason if is_blocked else None,
        paused=None if is_blocked else reason,
    )


def pending_mode(cell: SessionCell) -> Mode | None:
    """The mode that is being selected while another one holds (L5)."""
    choice = cell.choice
    return choice.mode if choice is not None and not choice.is_done and choice.mode != cell.mode else None
