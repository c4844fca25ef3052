"""Bounds: byte counts that a study holds itself to. Unlike times they are the same on every machine."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class Bound:
    """One bound. ``least`` and ``most`` of what was found; both None if nothing was, which is a miss."""

    name: str
    limit: str
    least: int | None
    most: int | None
    is_kept: bool

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        return {"name": self.name, "limit": self.limit, "least": self.least, "most": self.most, "kept": self.is_kept}


def bound(
    name: str, *values: int, at_most: int | None = None, at_least: int | None = None, exactly: int | None = None
) -> Bound:
    """Hold values against one limit, or against one exact number."""
    least, most = min(values, default=None), max(values, default=None)
    if least is None or most is None:
        return Bound(name, "some", None, None, False)
    if at_most is not None:
        return Bound(name, f"≤ {at_most:,}", least, most, most <= at_most)
    if at_least is not None:
        return Bound(name, f"≥ {at_least:,}", least, most, least >= at_least)
    return Bound(name, f"{exactly:,}", least, most, least == most == exactly)
