"""A handle of a session, without its calls: whose session it is, and whether it may still be used."""

from __future__ import annotations

import attrs

from ..actors import ActorRef, SessionCell
from ..store import MemoryStore, Mode, StoreError, shown
from .changes import Changes
from .lifetime import Lifetime
from .owned_tree import OwnedTree
from .transactions import Home
from .watching import Sight


@attrs.frozen(eq=False, repr=False)
class SessionHandle:
    """What the calls of ``Session`` stand on."""

    _cell: SessionCell
    _store: ActorRef
    _actor: ActorRef
    _state: MemoryStore
    _lifetime: Lifetime
    _changes: Changes = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: Changes(self._cell, self._store, self._actor, self._lifetime.prompts.diagnostics),
            takes_self=True,
        ),
    )

    _owned_tree: OwnedTree | None = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: None if self._cell.tree is None else OwnedTree(self._cell.tree, self._actor, self._check),
            takes_self=True,
        ),
    )

    def __repr__(self) -> str:
        # Never what it remembers: that is private, and may be large.
        state = " closed" if self._cell.is_closed else ""
        return f"<{type(self).__name__} {shown(self.session_id)} in {shown(self.cwd)} {self.mode}{state}>"

    @property
    def cwd(self) -> str:
        """The absolute working directory."""
        return self._cell.cwd

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._cell.session_id

    @property
    def mode(self) -> Mode:
        """The selected mode."""
        return self._cell.mode

    @property
    def indicator(self) -> str | None:
        """The session's state in one word for a status bar: ``state-flow active (blocked)``; None in off mode (L34)."""
        cell = self._cell
        if cell.mode == "off":
            return None
        is_blocked = cell.mode == "active" and cell.problem is not None
        return f"state-flow {cell.mode}{' (blocked)' if is_blocked else ''}"

    @property
    def tree(self) -> OwnedTree | None:
        """The session's tree, if it was opened with one (see ``Runtime.open_session``); else None."""
        return self._owned_tree

    def _check(self) -> None:
        self._lifetime.check()
        cell = self._cell
        if cell.is_closed:
            raise StoreError("E_CLOSED", f"session {shown(cell.session_id)} of {cell.cwd} is closed; open it again")

    def _sight(self) -> Sight:
        return Sight(self._cell, self._state, self._lifetime.hub, self._check)

    def _home(self) -> Home:
        return Home(self._cell, self._store, self._state, self._lifetime.desk, self._check)
