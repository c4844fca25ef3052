"""The open store of a simulated process, as a server takes it: what goes through its sessions is recorded.

Faults are drawn from the calls that are recorded. A server that was handed the bare runtime would be in a world in
which nothing ever happens, and its tests would pass for that reason alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, final

import attrs

from ...store import HostEntries, Mode
from .recorder import RecordedSession

if TYPE_CHECKING:
    from ..assembly import Runtime


@final
@attrs.frozen(eq=False, repr=False)
class RecordedRuntime:
    """A ``Runtime`` whose sessions are recorded. Everything else goes straight to the runtime."""

    _runtime: Runtime
    _open_session: Callable[[str, str, Mode | None, HostEntries | None, bool | None], Awaitable[RecordedSession]]

    def __repr__(self) -> str:
        return f"<Recorded {self._runtime!r}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    async def open_session(
        self,
        cwd: str,
        session_id: str = "main",
        mode: Mode | None = None,
        *,
        entries: HostEntries | None = None,
        tree: bool | None = None,
    ) -> RecordedSession:
        """See ``Runtime.open_session``."""
        return await self._open_session(cwd, session_id, mode, entries, tree)
