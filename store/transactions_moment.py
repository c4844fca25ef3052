"""Memory as one session sees it at one moment, for a transaction: what the store does later never reaches it.

Values are never mutated once they are published, so a moment is three references and no copy. It says too whether
another moment is the same one, which takes no look at any value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from .algebra import ScopeName, ScopeState, StoreError, StrataflowError, View
from .draft_rows import Trio
from .image import ScopeImage, session_lineage
from .layout import SessionAddress
from .memory_store import ABSENT, MemoryStore


@final
@attrs.frozen(eq=False)
class Moment:
    """One moment.

    Attributes:
      address: the session.
      images: its scopes, in the order global, cwd, session.
      view: what is read then; the past of that moment included.
      head: the newest row of the journal that is in it.
    """

    address: SessionAddress
    images: Trio
    view: View
    head: int
    _made_of: tuple[object, ...]

    def is_same_as(self, other: Moment) -> bool:
        """Whether everything reads the same in both. False may mean that nobody has compared."""
        return all(mine is theirs for mine, theirs in zip(self._made_of, other._made_of, strict=True))


def moment_of(store: MemoryStore, address: SessionAddress, drafted: Mapping[str, ScopeImage] | None = None) -> Moment:
    """The published root as a session sees it, with images that a draft has changed laid over it.

    Raises:
      StoreError: E_CHANGED for a fenced session, whose view is no longer what is stored; E_CLOSED; of a draft E_BUSY.
    """
    fence = store.fences.get(address.scope("session"))
    if fence is not None:
        raise StoreError(fence.error.code, fence.error.message, **fence.error.data)
    images: list[ScopeImage] = []
    scopes: dict[ScopeName, ScopeState] = {}
    unreadable: dict[ScopeName, StrataflowError] = {}
    for name, scope in address.scopes():
        image = drafted.get(scope) if drafted else None
        if image is None:
            image = store.images.get(scope)
        if scope in store.errors:
            # Reads of it fail; what is healthy can still be read, and the effective view has its last image (Ours-18).
            unreadable[name] = store.errors[scope]
            if image is not None and image.state is not None:
                scopes[name] = image.state
        elif image is None:
            raise StoreError("E_CLOSED", f"{scope or 'global'}: the session was closed meanwhile; open it again")
        elif drafted is not None and scope in store.stale:
            raise StoreError("E_BUSY", f"{scope or 'global'}: its files were replaced by others; ask again")
        else:
            scopes[name] = image.state or ABSENT
        images.append(image or ScopeImage(scope))
    trio = (images[0], images[1], images[2])
    lineage = session_lineage(trio[2], trio[0], trio[1]) or store.lineage(address)
    states, limit = [image.state for image in images if image.state is not None], store.history_limit
    view = View(scopes, lambda: lineage.boundaries(states or [ABSENT], limit), limit, unreadable)
    made_of = (*(image.state for image in images), *(unreadable.get(name) for name, _ in address.scopes()), lineage)
    return Moment(address, trio, view, store.head, made_of)
