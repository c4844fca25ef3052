"""The inference barrier of active mode: after a patch the model looks at the memory again before it acts (L14 to L17).

A response that holds one ``patch_state`` runs nothing else; one that holds several runs nothing at all. What was
planned beside the patch was planned on memory that the patch is about to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ..algebra import Json
from .section import Mode

PATCH_TOOL = "patch_state"
_RECONSIDER = (
    "patch_state runs alone: reconsider this call once the patch is acknowledged and memory is refreshed, "
    "then make it again if it still fits"
)
_EXACTLY_ONE = "a response may hold exactly one patch_state: join the patches in one call and send it alone"


@attrs.frozen
class ToolCall:
    """One call of an assistant message."""

    id: str
    name: str


@attrs.frozen
class Verdict:
    """Whether a call is held back, and why. ``batch`` names the tools of its message in order, for a log."""

    id: str
    name: str
    reason: str | None
    batch: tuple[str, ...]

    @property
    def block(self) -> bool:
        """Whether the call must not run."""
        return self.reason is not None

    def to_json(self) -> Json:
        """As the tool protocol answers it."""
        return {"id": self.id, "block": self.block} | ({"reason": self.reason} if self.reason is not None else {})


def preflight(calls: Sequence[ToolCall], mode: Mode) -> tuple[Verdict, ...]:
    """Which calls of one assistant message may run (L15)."""
    batch = tuple(call.name for call in calls)
    patches = batch.count(PATCH_TOOL) if mode == "active" else 0
    return tuple(Verdict(call.id, call.name, _reason(call, patches), batch) for call in calls)


def _reason(call: ToolCall, patches: int) -> str | None:
    if patches > 1:
        return _EXACTLY_ONE
    return _RECONSIDER if patches and call.name != PATCH_TOOL else None


def calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The tool calls of a message, in order."""
    content = message.get("content")
    blocks = content if type(content) is list else []
    return tuple(
        ToolCall(block.get("id", ""), block.get("name", ""))
        for block in blocks
        if type(block) is dict and block.get("type") == "toolCall"
    )


def call_batch(
    entry_of: Callable[[str], Mapping[str, Any] | None], leaf: str | None, call_id: str
) -> tuple[ToolCall, ...] | None:
    """The calls of the nearest assistant message at or above ``leaf`` that holds ``call_id``; None without one (L14).

    Args:
      entry_of: gives an entry of the session tree by its id.
    """
    seen: set[str] = set()
    while leaf is not None and leaf not in seen:
        seen.add(leaf)
        entry = entry_of(leaf)
        if entry is None:
            return None
        if entry.get("type") == "message" and entry["message"].get("role") == "assistant":
            calls = calls_of(entry["message"])
            if any(call.id == call_id for call in calls):
                return calls
        leaf = entry.get("parentId")
    return None
