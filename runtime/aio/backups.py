"""Backups for asyncio: the calls of ``strataflow.Backups``, whose docstrings count here too."""

from __future__ import annotations

from typing import final

import attrs

from ...store.backup import BackupReport, BackupStatus, PushReport
from .. import backups
from .bridge import Bridge


@final
@attrs.frozen(eq=False, repr=False)
class Backups:
    """Backups of an open store, for asyncio. See ``strataflow.Backups``."""

    _bridge: Bridge
    _inner: backups.Backups

    async def now(self, *, complete: bool = False, push: bool = True) -> BackupReport:
        """See there."""
        return await self._bridge.call(lambda: self._inner.now(complete=complete, push=push))

    async def wait_pushed(self) -> PushReport | None:
        """See there."""
        return await self._bridge.call(self._inner.wait_pushed)

    async def status(self) -> BackupStatus:
        """See there."""
        return await self._bridge.call(self._inner.status)
