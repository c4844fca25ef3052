"""Tokens and what they cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ..agent.messages import Cost, Usage
from ..agent.model_stream import Model

Part = Literal["input", "output", "cacheRead", "cacheWrite"]
PARTS: Final[tuple[Part, ...]] = ("input", "output", "cacheRead", "cacheWrite")
_MILLION: Final = 1_000_000


def no_usage() -> Usage:
    """Nothing used."""
    free: Cost = {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0}
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": free}


def usage_of(model: Model, tokens: Mapping[str, int]) -> Usage:
    """Usage of an answer of ``model``: a part that is not counted is 0, one that has no price costs nothing."""
    usage = no_usage()
    for part in PARTS:
        usage[part] = max(tokens.get(part, 0), 0)
        usage["cost"][part] = usage[part] * model.cost.get(part, 0.0) / _MILLION
    usage["totalTokens"] = sum(usage[part] for part in PARTS)
    usage["cost"]["total"] = sum(usage["cost"][part] for part in PARTS)
    return usage


def tokens(value: object) -> int | None:
    """A number of tokens as a server gave it; None if it gave none."""
    return value if type(value) is int and value >= 0 else None
