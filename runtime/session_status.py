"""How one open session is, as its ``status`` tells it."""

from __future__ import annotations

from ..actors import SessionCell
from ..store import SCOPES, Json, MemoryStore, plane_sizes


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
