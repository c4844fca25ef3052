"""The trace of a run: every operation of the disk, every fault, every call and answer, one line each.

Two runs are equal if their traces are, byte for byte. A line begins with the virtual time in seconds and who acts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import final

import attrs


@final
@attrs.define(eq=False)
class Trace:
    """Collects lines. ``time_s`` is the virtual clock."""

    time_s: Callable[[], float]
    lines: list[str] = attrs.field(factory=list)

    def note(self, who: str, text: str) -> None:
        """Add a line."""
        self.lines.append(f"{self.time_s():.6f} {who} {text}")

    def text(self) -> str:
        """The whole trace."""
        return "".join(f"{line}\n" for line in self.lines)

    def digest(self) -> str:
        """SHA-256 over the whole trace, in hexadecimal digits."""
        return hashlib.sha256(self.text().encode("utf-8", "backslashreplace")).hexdigest()
