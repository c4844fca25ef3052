"""A model that plays a script: for examples, tests and simulated worlds, without any network.

The script, as JSON: ``{"turns": [turn, …]}`` or the list alone; one turn for each model call::

    {"blocks": [{"type": "text", "chunks": ["Hel", "lo"]},       or "text": "Hello" for a single chunk
                {"type": "thinking", "chunks": ["hm"]},          or "thinking": "hm"
                {"type": "toolCall", "id": "call_1", "name": "echo", "arguments": {"value": "x"}}],
     "stopReason": "stop",        default: "toolUse" if there is a toolCall block, else "stop"
     "errorMessage": "overloaded",   with stopReason "error"
     "delayMs": 20,               before each chunk
     "usage": {…}}                members of it; what is left out is 0
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, final

import attrs
import trio

from ...actors import Clock
from ..world import SystemClock
from .errors import AgentError
from .messages import AssistantMessage, no_usage
from .model_stream import Model, ModelRequest, StreamEvent, StreamOptions

SCRIPTED = Model(id="scripted", provider="scripted", api="scripted", name="Scripted", input=("text", "image"))
_TURN_KEYS = frozenset({"blocks", "stopReason", "errorMessage", "delayMs", "usage"})
_STOP_REASONS = ("stop", "length", "toolUse", "error", "aborted")


def scripted_model(script: Any, *, clock: Clock | None = None) -> ScriptedModel:
    """A ``StreamFunction`` that gives the turns of ``script``, one for each call.

    Args:
      script: ``{"turns": […]}``, the list of turns, or JSON text of either.
      clock: where the answers have their time from; the system's if it is left out.

    A call beyond the last turn is a model error. Raises AgentError E_AGENT_SCRIPT for what is no script.
    """
    if isinstance(script, (str, bytes)):
        try:
            script = json.loads(script)
        except ValueError as error:
            raise AgentError("E_AGENT_SCRIPT", f"the script is no JSON: {error}") from None
    turns = script.get("turns") if isinstance(script, Mapping) else script
    if not isinstance(turns, Sequence) or isinstance(turns, str):
        raise AgentError("E_AGENT_SCRIPT", 'a script is a list of turns, or an object with the list "turns"')
    return ScriptedModel([_checked(number, turn) for number, turn in enumerate(turns, 1)], clock or SystemClock())


def _checked(number: int, turn: Any) -> Mapping[str, Any]:
    def refused(why: str) -> AgentError:
        return AgentError("E_AGENT_SCRIPT", f"turn {number} of the script: {why}", turn=number)

    if not isinstance(turn, Mapping) or not isinstance(turn.get("blocks", []), list):
        raise refused('it must be an object with a list "blocks"')
    if unknown := sorted(set(turn) - _TURN_KEYS):
        raise refused(f"unknown member {unknown[0]!r}; known are {', '.join(sorted(_TURN_KEYS))}")
    if turn.get("stopReason", "stop") not in _STOP_REASONS:
        raise refused(f"stopReason must be one of {', '.join(_STOP_REASONS)}")
    for block in turn.get("blocks", []):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind not in ("text", "thinking", "toolCall"):
            raise refused('a block has the type "text", "thinking" or "toolCall"')
        if kind == "toolCall" and not (isinstance(block.get("id"), str) and isinstance(block.get("name"), str)):
            raise refused('a toolCall block needs "id" and "name"')
    return turn


@final
@attrs.define(eq=False)
class ScriptedModel:
    """Made by ``scripted_model``. Give it to ``Agent(stream_fn=…)``.

    Attributes:
      requests: what it was asked so far, oldest first.
    """

    _turns: Sequence[Mapping[str, Any]]
    _clock: Clock
    requests: list[ModelRequest] = attrs.field(factory=list, init=False)

    def __call__(
        self, model: Model, request: ModelRequest, options: StreamOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Play the next turn."""
        number = len(self.requests)
        self.requests.append(request)
        if number < len(self._turns):
            turn = self._turns[number]
        else:
            turn = {"stopReason": "error", "errorMessage": f"the script has only {len(self._turns)} turns"}
        return _played(model, turn, self._clock.wall_ms)


@asynccontextmanager
async def _played(
    model: Model, turn: Mapping[str, Any], now_ms: Callable[[], int]
) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    async with aclosing(_events(model, turn, now_ms)) as events:
        yield events


async def _events(
    model: Model, turn: Mapping[str, Any], now_ms: Callable[[], int]
) -> AsyncGenerator[StreamEvent, None]:
    blocks = turn.get("blocks", [])
    default = "toolUse" if any(block["type"] == "toolCall" for block in blocks) else "stop"
    reason = turn.get("stopReason", default)
    content: list[dict[str, Any]] = []

    def said(**more: Any) -> AssistantMessage:
        found: dict[str, Any] = {
            "role": "assistant",
            "content": [dict(block) for block in content],
            "api": model.api,
            "provider": model.provider,
            "model": model.id,
            "usage": {**no_usage(), **turn.get("usage", {})},
            "stopReason": "stop",
            "timestamp": now_ms(),
        }
        return found | more  # type: ignore[return-value]

    await trio.lowlevel.checkpoint()
    yield {"type": "start", "partial": said()}
    for index, block in enumerate(blocks):
        for event in _block_events(block, content):
            if event["type"].endswith("_delta"):
                await trio.sleep(turn.get("delayMs", 0) / 1000)
            yield {**event, "contentIndex": index, "partial": said()}  # type: ignore[typeddict-item]
    if reason in ("error", "aborted"):
        final = said(stopReason=reason, errorMessage=turn.get("errorMessage", "scripted error"))
        yield {"type": "error", "reason": reason, "error": final}
    else:
        yield {"type": "done", "reason": reason, "message": said(stopReason=reason)}


def _block_events(block: Mapping[str, Any], content: list[dict[str, Any]]) -> Any:
    """The events of one block; what it has said so far grows at the end of ``content``."""
    kind = block["type"]
    if kind == "toolCall":
        arguments = block.get("arguments", {})
        content.append({"type": "toolCall", "id": block["id"], "name": block["name"], "arguments": {}})
        yield {"type": "toolcall_start"}
        delta = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        yield {"type": "toolcall_delta", "delta": delta}
        content[-1]["arguments"] = arguments
        yield {"type": "toolcall_end", "toolCall": dict(content[-1])}
        return
    content.append({"type": kind, kind: ""})
    yield {"type": f"{kind}_start"}
    chunks = block["chunks"] if "chunks" in block else [block.get(kind, "")]
    for chunk in chunks:
        content[-1][kind] += chunk
        yield {"type": f"{kind}_delta", "delta": chunk}
    yield {"type": f"{kind}_end", "content": content[-1][kind]}
