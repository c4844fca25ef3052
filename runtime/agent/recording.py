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


def recorded_at_start(
    *, has_messages: bool, has_level: bool, model: tuple[str, str] | None, level: str
) -> list[NewEntry]:
    """What a session begins with, or what is added when one with messages is resumed without a level (2.7.1).

    ``model`` is provider and id, or None if it is not known.
    """
    found: list[NewEntry] = []
    if not has_messages and model is not None:
        found.append(NewEntry("model_change", {"provider": model[0], "modelId": model[1]}))
    if not has_level:
        found.append(NewEntry("thinking_level_change", {"thinkingLevel": level}))
    return found


def recorded_level(old: str, new: str) -> NewEntry | None:
    """A change of the thinking level, if it is one (2.7.4)."""
    return None if old == new else NewEntry("thinking_level_change", {"thinkingLevel": new})
