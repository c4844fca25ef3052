"""What an application records of a conversation (host 2.7): pure rules, in the words of session files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .messages import AgentMessage, json_of, role_of

_CUSTOM_KEYS = ("customType", "content", "display", "details")


@attrs.frozen
class NewEntry:
    """An entry to be appended: its type, and its own members."""

    type: str
    members: Mapping[str, Any]


def recorded_as(message: AgentMessage) -> NewEntry | None:
    """The entry of a finished message, or None for a role that is stored where it arises (2.7.2)."""
    whole = json_of(message)
    match role_of(message):
        case "user" | "assistant" | "toolResult":
            return NewEntry("message", {"message": whole})
        case "custom":
            return NewEntry("custom_message", {key: whole[key] for key in _CUSTOM_KEYS if key in whole})
        case _:
            return None
