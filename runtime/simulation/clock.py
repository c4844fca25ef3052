"""A clock of a simulated world: virtual time, a start that the seed chooses, and jumps on demand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import final

import attrs
import trio

# Starts lie within the years 2020 to 2039, on no round number, so that code which counts on one is found.
START_MS_MIN = 1_577_836_800_000
START_MS_MAX = 2_208_988_799_999


@final
@attrs.define(eq=False)
class SeededClock:
    """Runs with ``_time_s``, by default the time of the surrounding trio run, which a MockClock makes virtual.

    Equal seeds and equal times give equal readings. The clock counts from its making.
    """

    seed: int
    _time_s: Callable[[], float] = trio.current_time
    _wall_start_ms: int = attrs.field(init=False)
    _time_start_s: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._wall_start_ms = random.Random(f"clock {self.seed}").randint(START_MS_MIN, START_MS_MAX)
        self._time_start_s = self._time_s()

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, as this world believes."""
        return self._wall_start_ms + math.floor(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        """Seconds since this clock was made. Not touched by ``jump_wall``."""
        return self._time_s() - self._time_start_s

    def jump_wall(self, delta_ms: int) -> None:
        """Somebody sets the clock: wall time moves by ``delta_ms``, in either direction."""
        self._wall_start_ms += delta_ms
