"""The real clock and the real ids."""

from __future__ import annotations

import time
import uuid
from typing import final

import attrs


@final
@attrs.frozen
class SystemClock:
    """The clock of the operating system."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. May jump when somebody sets the clock."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment. Never decreases."""
        return time.monotonic()


@final
@attrs.frozen
class RandomIds:
    """Version 4 UUIDs from the operating system's randomness: distinct across processes that know nothing of each
    other, which a counter or a time could not promise."""

    def new_id(self) -> str:
        """A fresh UUID: 36 characters, lower case."""
        return str(uuid.uuid4())


def pause() -> None:
    """Wait a moment in a worker thread while SQLite is busy: about as long as somebody else's sync takes."""
    time.sleep(0.001)
