"""The two tools of a memory, as an agent offers them to its model (memory-agent T1 to T6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....store import Json, compact
from ....store.projection import receipt_text
from ...model_tools import MEMORY_TOOLS, ToolDeclaration
from ...session import Session
from ..events import ToolResult
from ..signals import AbortSignal
from ..tools import OnUpdate, Tool


def memory_tools(session: Session) -> Sequence[Tool]:
    """The tools that the session's mode offers now: none in off mode.

    Whatever a call is refused with is its result, short enough for a model. Arguments are checked by the session
    alone: there is no conversion that memory could do without being asked.
    """
    return [] if session.mode == "off" else [_tool(session, declared) for declared in MEMORY_TOOLS]


def _tool(session: Session, declared: ToolDeclaration) -> Tool:
    async def execute(call_id: str, arguments: Any, signal: AbortSignal, on_update: OnUpdate) -> ToolResult:
        result = await session.call(declared.name, arguments, call_id=call_id)
        texts = _patched(result) if declared.name == "patch_state" else ["\n" + compact(result)]
        return {"content": [{"type": "text", "text": text} for text in texts]}

    return Tool(
        declared.name,
        declared.description,
        declared.parameters,
        execute,
        execution_mode="sequential" if declared.is_sequential else "parallel",
        is_checked=False,
    )


def _patched(receipt: Json) -> list[str]:
    """What the author could not foresee comes after the acknowledgement (T19)."""
    updates = receipt.get("state_updates")
    return [receipt["text"]] if updates is None else [receipt["text"], receipt_text(updates, compact)]
