"""``session.log``: who changed what this session can read, from the transitions that the journal retains."""

from __future__ import annotations

from typing import Any, Final

from ..actors import StoreWorld
from ..store import CallError, LogEntry, SessionAddress, log_of_session, shown

LOG_LIMIT_DEFAULT: Final = 20


async def session_log(world: StoreWorld, address: SessionAddress, path: Any, limit: Any) -> list[LogEntry]:
    """See ``Session.log``. The journal is asked in a worker thread."""
    if path is not None and type(path) is not str:
        raise CallError("E_SHAPE", f"the path is a string, not {shown(path)}")
    if type(limit) is not int or limit < 1:
        raise CallError("E_SHAPE", f"the limit is a number from 1 on, not {shown(limit)}")
    return await world.threads.work(lambda: log_of_session(world.journal, address, path, limit))
