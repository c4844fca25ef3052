"""A session tree in memory, as small as compaction needs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from strataflow.store.trace import message_of


@attrs.frozen
class PlainContext:
    """What a model would get."""

    messages: list[Any]


@attrs.define(eq=False)
class PlainTree:
    """Entries in the order in which they came. ``fails``: raised by the next append, nothing is stored."""

    entries: list[dict[str, Any]] = attrs.field(factory=list)
    leaf: str | None = None
    fails: Exception | None = None

    @classmethod
    def of(cls, entries: Sequence[dict[str, Any]]) -> PlainTree:
        """A tree of these, the last being the leaf."""
        return cls(list(entries), entries[-1]["id"] if entries else None)

    def get_leaf_id(self) -> str | None:
        return self.leaf

    def get_entry(self, entry_id: str, /) -> dict[str, Any] | None:
        return next((entry for entry in reversed(self.entries) if entry["id"] == entry_id), None)

    def get_branch(self, from_id: str | None = None, /) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        at = self.leaf if from_id is None else from_id
        while at is not None and (entry := self.get_entry(at)) is not None:
            found.insert(0, entry)
            at = entry["parentId"]
        return found

    def build_session_context(self) -> PlainContext:
        return PlainContext(context_of(self.get_branch()))

    def append(self, kind: str, **own: Any) -> str:
        if self.fails is not None:
            raise self.fails
        entry_id = f"n{len(self.entries):02}"
        base = {"type": kind, "id": entry_id, "parentId": self.leaf, "timestamp": "2025-02-01T00:00:00.000Z"}
        self.entries.append({**base, **own})
        self.leaf = entry_id
        return entry_id

    def append_message(self, message: dict[str, Any]) -> str:
        return self.append("message", message=message)

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Any = None,
        from_hook: bool = False,
        usage: Any = None,
    ) -> str:
        own = {"summary": summary, "firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        return self.append("compaction", **own, details=details, fromHook=from_hook, usage=usage)

    def append_label_change(self, target_id: str, label: str | None = None, /) -> str:
        return self.append("label", targetId=target_id, label=label)

    def branch(self, entry_id: str, /) -> None:
        assert self.get_entry(entry_id) is not None
        self.leaf = entry_id

    def reset_leaf(self) -> None:
        self.leaf = None

    def branch_with_summary(
        self, entry_id: str | None, summary: str, details: Any = None, from_hook: bool = False, usage: Any = None
    ) -> str:
        old, self.leaf = self.leaf, entry_id
        try:
            own = {"summary": summary, "details": details, "fromHook": from_hook, "usage": usage}
            return self.append("branch_summary", fromId=old, **own)
        except BaseException:
            self.leaf = old
            raise


def context_of(path: Sequence[dict[str, Any]]) -> list[Any]:
    """The messages for the end of a path (host 2.5.4 to 2.5.7)."""
    latest = next((index for index in reversed(range(len(path))) if path[index]["type"] == "compaction"), None)
    if latest is None:
        return [message for entry in path if (message := message_of(entry)) is not None]
    first = path[latest]["firstKeptEntryId"]
    kept = next((index for index in range(latest) if path[index]["id"] == first), latest)
    selected = [path[latest], *path[kept:latest], *path[latest + 1 :]]
    later = [entry for entry in selected[1:] if entry["type"] != "compaction"]
    return [message for entry in [selected[0], *later] if (message := message_of(entry)) is not None]
