"""Times that grow: a message is recognised by its time, so no two of a conversation may have the same (C23)."""

from __future__ import annotations

from typing import final

import attrs

from ...actors import Clock


@final
@attrs.define(eq=False)
class Ascending:
    """A clock whose every reading of the wall is later than the one before, and than ``floor_ms``."""

    inner: Clock
    floor_ms: int = 0

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, or a little later."""
        self.floor_ms = max(self.inner.wall_ms(), self.floor_ms + 1)
        return self.floor_ms

    def monotonic_s(self) -> float:
        """As the inner clock."""
        return self.inner.monotonic_s()
