"""The messages that entries of a session tree stand for (host 2.5.4). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Entry = Mapping[str, Any]
_MEMBERS = {
    "custom_message": ("custom", ("customType", "content", "display", "details")),
    "branch_summary": ("branchSummary", ("summary", "fromId")),
    "compaction": ("compactionSummary", ("summary", "tokensBefore")),
}


def message_of(entry: Entry) -> Mapping[str, Any] | None:
    """The message of an entry; None for one that says nothing to a model."""
    kind = entry["type"]
    if kind == "message":
        message = entry.get("message")
        return message if isinstance(message, Mapping) else None
    if kind not in _MEMBERS or (kind == "branch_summary" and not entry.get("summary")):
        return None
    role, members = _MEMBERS[kind]
    own = {name: entry[name] for name in members if name in entry}
    return {"role": role, **own, "timestamp": time_ms(entry.get("timestamp"))}


def role_of(entry: Entry) -> str | None:
    """The role of a ``message`` entry; None for every other type."""
    message = entry.get("message") if entry["type"] == "message" else None
    return message.get("role") if isinstance(message, Mapping) else None


def time_ms(text: object) -> int | None:
    """An entry's time in milliseconds since 1970; None if there is none."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if moment is None:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
