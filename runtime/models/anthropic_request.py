"""What is sent to a server that speaks Anthropic's messages. Pure.

A cache there holds prefixes that end at a marked block. The markers stand at the ends of what stays: the tools, the
system prompt, and the last two turns of the user; the older of these is where the request before had its end, so that
what it wrote into the cache is found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..agent.messages import AssistantMessage, ImageBlock, TextBlock
from ..agent.model_stream import Model, ModelRequest, StreamOptions
from .thinking import output_limit
from .transform import prepared

PATH: Final = "/v1/messages"
_VERSION: Final = "2023-06-01"
_MARKER: Final = {"type": "ephemeral"}
_MARKED_TURNS: Final = 2


def headers(key: str | None) -> dict[str, str]:
    """The headers that say who asks, and in which version of the format."""
    return {"anthropic-version": _VERSION, **({} if key is None else {"x-api-key": key})}


def body(model: Model, request: ModelRequest, options: StreamOptions) -> dict[str, Any]:
    """The request as JSON."""
    limit, budget = output_limit(model, options)
    found: dict[str, Any] = {
        "model": model.id,
        "messages": _messages(model, request),
        "max_tokens": limit,
        "stream": True,
    }
    if request.system_prompt:
        found["system"] = [{"type": "text", "text": request.system_prompt, "cache_control": _MARKER}]
    if request.tools:
        found["tools"] = [_tool(tool) for tool in request.tools]
        found["tools"][-1]["cache_control"] = _MARKER
    if budget is not None:
        found["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif options.temperature is not None:  # with thinking the wire takes none
        found["temperature"] = options.temperature
    return found


def _tool(tool: Any) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}


def _messages(model: Model, request: ModelRequest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in prepared(request.messages, model):
        if message["role"] == "assistant":
            found.append({"role": "assistant", "content": _answer(message)})
            continue
        if message["role"] == "toolResult":
            blocks = [_result(message)]
        elif isinstance(content := message["content"], str):
            blocks = [{"type": "text", "text": content}] if content else []
        else:
            blocks = _blocks(content)
        # What a user says after results belongs to the same turn: only answers separate turns here.
        if blocks and found and found[-1]["role"] == "user":
            found[-1]["content"] += blocks
        elif blocks:
            found.append({"role": "user", "content": blocks})
    _mark([turn for turn in found if turn["role"] == "user"][-_MARKED_TURNS:])
    return found


def _mark(turns: Sequence[dict[str, Any]]) -> None:
    for turn in turns:
        turn["content"][-1] = {**turn["content"][-1], "cache_control": _MARKER}


def _answer(message: AssistantMessage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in message["content"]:
        if block["type"] == "text":
            found.append({"type": "text", "text": block["text"]})
        elif block["type"] == "toolCall":
            call = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["arguments"]}
            found.append(call)
        elif block.get("redacted"):
            found.append({"type": "redacted_thinking", "data": block.get("thinkingSignature", "")})
        else:
            seal = block.get("thinkingSignature", "")
            found.append({"type": "thinking", "thinking": block["thinking"], "signature": seal})
    return found


def _result(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "tool_result", "tool_use_id": message["toolCallId"]}
    if content := _blocks(message["content"]):
        found["content"] = content
    if message["isError"]:
        found["is_error"] = True
    return found


def _blocks(content: Sequence[TextBlock | ImageBlock]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in content:
        if block["type"] == "text":
            found.append({"type": "text", "text": block["text"]})
        else:
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            found.append({"type": "image", "source": source})
    return found
