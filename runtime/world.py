"""The real clock and the real ids."""

from __future__ import annotations

import os
import time
from typing import final

import attrs

_IDS_AT_ONCE = 64


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
@attrs.define(eq=False)
class RandomIds:
    """Version 4 UUIDs from the operating system's randomness: distinct across processes that know nothing of each
    other, which a counter or a time could not promise. Any thread may ask: worker threads name files and rows too.
    """

    # Asking the kernel for each id costs more than all the rest of it; a forked child has no use of this object (J11).
    # Taking from a list is one step that no other thread can come into; a generator would refuse the second thread.
    _drawn: list[str] = attrs.field(factory=list, init=False)

    def new_id(self) -> str:
        """A fresh UUID: 36 characters, lower case."""
        while True:
            try:
                return self._drawn.pop()
            except IndexError:
                self._drawn.extend(_draw())


def _draw() -> list[str]:
    digits = os.urandom(16 * _IDS_AT_ONCE).hex()
    drawn = []
    for start in range(0, len(digits), 32):
        one = digits[start : start + 32]
        variant = "89ab"[int(one[16], 16) & 3]
        drawn.append(f"{one[:8]}-{one[8:12]}-4{one[13:16]}-{variant}{one[17:20]}-{one[20:]}")
    return drawn


def pause() -> None:
    """Wait a moment in a worker thread while SQLite is busy: about as long as somebody else's sync takes."""
    time.sleep(0.001)
