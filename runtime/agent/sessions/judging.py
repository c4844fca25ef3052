"""What is to be thought of an answer: pure. When to ask again, and whether its text can be stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ..messages import AssistantMessage

_LONE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def delay_s(first: float, attempt: int) -> float:
    """How long to wait before the attempt with this number, from 1."""
    return float(first * 2 ** (attempt - 1))


def repaired(answer: AssistantMessage) -> tuple[AssistantMessage, int]:
    """The answer without lone surrogates, and how many were replaced; the same object if there were none."""
    counts: list[int] = []
    found = _repaired(answer, counts)
    return (cast(AssistantMessage, found), sum(counts)) if counts else (answer, 0)


def repaired_text(text: str) -> str:
    """A text without lone surrogates."""
    return _LONE.sub(_REPLACEMENT, text)


def _repaired(value: Any, counts: list[int]) -> Any:
    if isinstance(value, str):
        found, count = _LONE.subn(_REPLACEMENT, value)
        if count:
            counts.append(count)
        return found
    if isinstance(value, Mapping):
        return {_repaired(key, counts): _repaired(item, counts) for key, item in value.items()}
    if isinstance(value, list):
        return [_repaired(item, counts) for item in value]
    return value
