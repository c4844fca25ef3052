"""Times that grow: a message is recognised by its time, so no two of a conversation may have the same (C23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import attrs


@final
@attrs.define(eq=False)
class Ascending:
    """Reads ``inner``, milliseconds since the Unix epoch; each reading is later than that before and ``floor_ms``."""

    inner: Callable[[], int]
    floor_ms: int = 0

    def __call__(self) -> int:
        """The time, or a little later."""
        self.floor_ms = max(self.inner(), self.floor_ms + 1)
        return self.floor_ms
