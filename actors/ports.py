"""What actors need from the world besides the store's own seams. Each has a real form and a seeded one."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time. Reading it never blocks."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. May jump in both directions: for records, never for measuring."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment. Never decreases: for measuring, never for records."""


class Ids(Protocol):
    """Makes names that nobody else has."""

    def new_id(self) -> str:
        """A fresh UUID in its canonical text form: 36 characters, lower case."""
