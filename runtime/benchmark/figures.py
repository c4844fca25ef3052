"""What a run finds: figures, each with the reach it is held against."""

from __future__ import annotations

from typing import Any

import attrs

Json = dict[str, Any]


@attrs.frozen
class Reach:
    """What a figure should be: at least or at most some number. ``text`` is how a table says it."""

    text: str
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        """Whether ``value`` is within reach."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


def at_least(number: float, unit: str = "x") -> Reach:
    """A reach from below."""
    return Reach(f"≥ {number:g} {unit}", at_least=number)


def at_most(number: float, unit: str) -> Reach:
    """A reach from above."""
    return Reach(f"≤ {number:g} {unit}", at_most=number)


@attrs.frozen
class Figure:
    """One line of the report.

    Attributes:
      measure: what was measured, in words.
      unit: of ``ours`` and of the peer's numbers.
      ours, peer, directly: the medians; the peer through a thread, and called on the loop, where there is a peer.
      reach: for ours over the peer's, or for ours where there is no peer.
      directly_reach: for ours over the peer called directly.
      note: what a reader should know besides.
    """

    measure: str
    unit: str
    ours: float
    reach: Reach | None = None
    peer: float | None = None
    directly: float | None = None
    directly_reach: Reach | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's."""
        return self.ours / self.peer if self.peer else None

    @property
    def directly_ratio(self) -> float | None:
        """Ours over the peer's when it is called directly."""
        return self.ours / self.directly if self.directly else None

    @property
    def is_reached(self) -> bool | None:
        """Whether the first reach holds; None where none is set."""
        ratio = self.ratio
        return None if self.reach is None else self.reach.holds(self.ours if ratio is None else ratio)

    @property
    def is_directly_reached(self) -> bool | None:
        """Whether the second one does."""
        ratio = self.directly_ratio
        return None if self.directly_reach is None or ratio is None else self.directly_reach.holds(ratio)

    def to_json(self) -> Json:
        """For the report."""
        return {
            "measure": self.measure,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "peer_directly": self.directly,
            "ratio": self.ratio,
            "reach": self.reach.text if self.reach else None,
            "reached": self.is_reached,
            "ratio_directly": self.directly_ratio,
            "reach_directly": self.directly_reach.text if self.directly_reach else None,
            "reached_directly": self.is_directly_reached,
            "note": self.note,
        }
