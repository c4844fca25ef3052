"""The handle of a runtime for asyncio: the names and contracts of the trio one, whose docstrings count here too.

Arguments are copied before the call leaves for the other thread. Cancelling a task cancels the call there and waits for
its end: nothing was stored, or the change completes whole.
"""

from __future__ import annotations

from typing import Any, final

import attrs

from ...store import (
    CheckpointReport,
    HostEntries,
    Json,
    Mode,
    Settings,
    Status,
)
from ...store.trace import TraceTree
from .. import assembly
from ..reports import CLOSE_DEADLINE_S, CloseReport, RuntimeEvent
from ..requests import Outcome
from .backups import Backups
from .bridge import Bridge
from .session import Session


@final
@attrs.frozen(eq=False, repr=False)
class Runtime:
    """An open store, for asyncio. See ``strataflow.Runtime``."""

    _bridge: Bridge
    _inner: assembly.Runtime

    def __repr__(self) -> str:
        return f"<asyncio {self._inner!r}>"

    @property
    def store_path(self) -> str:
        """See there."""
        return self._inner.store_path

    @property
    def settings(self) -> Settings:
        """See there."""
        return self._inner.settings

    @property
    def events(self) -> tuple[RuntimeEvent, ...]:
        """See there."""
        return self._inner.events

    @property
    def backups(self) -> Backups:
        """See there."""
        return Backups(self._bridge, self._inner.backups)

    async def open_session(
        self,
        cwd: str,
        session_id: str = "main",
        mode: Mode | None = None,
        *,
        entries: HostEntries | None = None,
        tree: TraceTree | bool | None = None,
    ) -> Session:
        """See there. ``entries`` is called in the other thread."""
        inner = self._inner
        found = await self._bridge.call(lambda: inner.open_session(cwd, session_id, mode, entries=entries, tree=tree))
        return Session(self._bridge, found)

    async def checkpoint(self) -> CheckpointReport:
        """See there."""
        return await self._bridge.call(self._inner.checkpoint)

    async def outcome(self, request_id: str) -> Outcome:
        """See there."""
        return await self._bridge.call(lambda: self._inner.outcome(request_id))

    async def inspect(self, cwd: str, session_id: str = "main") -> Status:
        """See there."""
        return await self._bridge.call(lambda: self._inner.inspect(cwd, session_id))

    async def status(self) -> Json:
        """See there."""
        return await self._bridge.call(self._inner.status)

    def statistics(self) -> Any:
        """See there."""
        return self._inner.statistics()

    async def aclose(self, deadline: float = CLOSE_DEADLINE_S) -> CloseReport:
        """See there."""
        return await self._bridge.call(lambda: self._inner.aclose(deadline))
