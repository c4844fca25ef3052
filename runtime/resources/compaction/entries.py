"""What compaction looks at in entries of a session tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Entry = Mapping[str, Any]


def role_of(entry: Entry) -> str | None:
    """The role of a ``message`` entry; None for every other type."""
    message = entry.get("message") if entry["type"] == "message" else None
    return message.get("role") if isinstance(message, Mapping) else None
