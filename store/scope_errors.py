"""Errors about who a scope belongs to and who changed it, each with what to do."""

from __future__ import annotations

from .algebra import StoreError, shown
from .layout import SessionAddress


def owned_by_another(scope: str, owner: str, asking: str) -> StoreError:
    """The error for a directory whose folder name is taken."""
    return StoreError(
        "E_CORRUPT",
        f"{scope}: this folder belongs to {shown(owner)}, not to {shown(asking)}; both have the same folder name, "
        "so only one of them can be kept in this store",
        path=scope,
        owner=owner,
    )


def changed_by_another(address: SessionAddress, seq: int) -> StoreError:
    """The error with which a session is fenced: somebody else changed its private memory at row ``seq``."""
    return StoreError(
        "E_CHANGED",
        f"session {shown(address.session_id)}: another process changed its private memory; select a mode or reopen it",
        seq=seq,
    )
