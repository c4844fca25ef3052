"""What a runtime tells of itself: events while it runs, and what closing did."""

from __future__ import annotations

from typing import Final, final

import attrs

from ..store import Json

CLOSE_DEADLINE_S: Final = 10.0
EVENTS_MAX: Final = 1_000


@final
@attrs.frozen
class CloseReport:
    """What closing did.

    Attributes:
      was_last: no other process has the store open.
      pi_lock_removed: Pi may use the store now (always true when it was shared with Pi).
      left_behind: what could not be ended or written in time, in words; empty when all is well.
      duration_s: how long it took.
    """

    was_last: bool
    pi_lock_removed: bool
    left_behind: tuple[str, ...]
    duration_s: float


@final
@attrs.frozen
class RuntimeEvent:
    """Something that operators want to know: a failed checkpoint, a superseded scope, a replaced journal."""

    name: str
    time_ms: int
    data: Json
