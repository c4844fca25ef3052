"""What the requests of all sessions of one runtime share: clock, ids, sources, the journal's past, the log."""

from __future__ import annotations

from typing import final

import attrs

from ..actors import StoreWorld
from ..store import SessionAddress
from .artifacts_desk import ArtifactsDesk
from .diagnostics import Diagnostics

# The journal keeps the newest hundred rows of each scope, and two scopes have rows of others.
_OWN_ROWS = 200


@final
@attrs.define(eq=False)
class PromptDesk:
    """One per runtime."""

    world: StoreWorld
    artifacts: ArtifactsDesk
    diagnostics: Diagnostics = attrs.field(factory=Diagnostics)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.world.clock.wall_ms()

    def new_id(self) -> str:
        """A fresh random id."""
        return self.world.ids.new_id()

    async def own_transitions(self, address: SessionAddress) -> list[str]:
        """The ids of transitions that a session made in the shared scopes, as far as the journal still tells.

        Raises:
          StoreError: the journal can not be read.
        """
        folders = [scope for name, scope in address.scopes() if name != "session"]
        journal = self.world.journal
        rows = await self.world.threads.work(lambda: journal.log_of(folders, _OWN_ROWS))
        return [
            row.content.transition_id
            for row in reversed(rows)
            if row.content.transition_id is not None and row.content.address == address
        ]
