"""The error of compactions and branch summaries."""

from __future__ import annotations

from ....store import StrataflowError


class CompactionError(StrataflowError):
    """A session was not summed up, and nothing was stored. The session is as it was before."""

    codes = frozenset({"E_ABORTED", "E_MODEL", "E_MOVED", "E_NOTHING"})
