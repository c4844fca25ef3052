"""Messages as the projection sees them: plain dicts of a host, and the few synthetic ones that are added to them.

A host's message has a ``role``, ``content`` (a string or a list of blocks) and a ``timestamp`` in milliseconds;
anything else in it is the host's. Messages are looked at and passed on, never changed. Whoever passes a message must
not change it in place afterwards: what was sent once must stay what it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

Message = dict[str, Any]
# Compact JSON of a value: no spaces, members in the given order, non-ASCII as it is (C7).
Dump = Callable[[Any], str]

# Messages with these roles belong to no turn: they stay whatever part of a conversation is chosen.
STANDING_ROLES = frozenset({"custom", "system"})


@attrs.frozen
class Synthetic:
    """A message of ours: a user message of text blocks. It is handed out as a copy, so that nobody can change it."""

    blocks: tuple[str, ...]
    timestamp: float

    def message(self) -> Message:
        """The message, the caller's own."""
        content = [{"type": "text", "text": text} for text in self.blocks]
        return {"role": "user", "content": content, "timestamp": self.timestamp}


def text_of(message: Message) -> str:
    """The text of a message: its string, or its text blocks joined without separator. Images have none."""
    content = message.get("content")
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    found = [block.get("text") for block in content if type(block) is dict and block.get("type") == "text"]
    return "".join(text for text in found if type(text) is str)


def is_moment(timestamp: Any) -> bool:
    """Whether this can be the time of a message: a finite number."""
    # Every int is finite; one that is too large for a float can not be asked.
    return type(timestamp) is int or (type(timestamp) is float and math.isfinite(timestamp))
