"""What a session tells of itself: how it is, and who changed what."""

from __future__ import annotations

import attrs
import trio

from ..actors import Refresh, Wait
from ..store import Json, LogEntry, Status
from .session_log import LOG_LIMIT_DEFAULT
from .session_runs import SessionRuns
from .session_status import pending_mode, session_overview, session_status


@attrs.frozen(eq=False, repr=False)
class SessionReports(SessionRuns):
    """What ``Session`` offers to those who look after it."""

    async def log(self, path: str | None = None, limit: int = LOG_LIMIT_DEFAULT) -> list[LogEntry]:
        """Who changed what this session can read: the newest ``limit`` transitions that are retained, only those that
        touched ``path`` if there is one, the newest last. Private memory of other sessions is not in it.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          CallError: E_OFF; E_SHAPE for another limit than a number from 1 on.
          ReadError: E_PATH; E_READ_SHAPE for a path with an offset or of a stored record.
          StoreError: E_DISK, E_CORRUPT, E_CLOSED.
        """
        await self._before_reading(False)
        return await self._lifetime.log_for(self._cell.readable(), path, limit)

    async def status(self) -> Json:
        """How this session is: mode, revision, step, history depth, sizes in bytes, problems, and how the store is.
        Changes nothing; in off mode it looks at nothing, and tells the mode alone."""
        await self._before_reading(False)
        if self._cell.mode == "off":
            return session_status(self._cell, self._state)
        return {**session_status(self._cell, self._state), **await self._lifetime.status()}

    async def inspect(self) -> Status:
        """This session and its memory at one moment, as data (``to_json``) and as lines for a person (``lines``).

        No file is looked at, except in off mode: there the files are read once, from outside, and nothing of it is
        kept (L39).

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          StoreError: E_CLOSED; in off mode as ``Runtime.inspect``.
        """
        await self._before_reading(False)
        found = session_overview(self._cell, self._state, self._lifetime.store_path)
        if found is not None:
            return found
        cell = self._cell
        return attrs.evolve(
            await self._lifetime.inspect(cell.cwd, cell.session_id), mode=cell.mode, pending=pending_mode(cell)
        )

    async def _before_reading(self, fresh: bool) -> None:
        self._check()
        if fresh:
            self._cell.readable()  # off asks nobody (L3)
            await self._cell.waits.ask(Wait("read"), self._store, Refresh())
        else:
            await trio.lowlevel.checkpoint()
