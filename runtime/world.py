"""The real clock and the real ids."""

from __future__ import annotations

import os
import time
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
        # As uuid.uuid4 makes them, without its objects: each commit needs one.
        digits = os.urandom(16).hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def pause() -> None:
    """Wait a moment in a worker thread while SQLite is busy: about as long as somebody else's sync takes."""
    time.sleep(0.001)
