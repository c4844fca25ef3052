"""What is sent to a server that speaks chat completions, as OpenAI's does and most others. Pure.

The body is a function of the arguments alone and a longer transcript only appends to its messages: the prefix that was
sent before stays, byte for byte, and providers that cache prefixes recognise it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...store import compact
from ..agent.messages import AssistantMessage, ImageBlock, LlmMessage, TextBlock, ToolResultMessage
from ..agent.model_stream import Model, ModelRequest, StreamOptions
from .thinking import asked_level, effort
from .transform import prepared

PATH: Final = "/chat/completions"
REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")
_NO_TEXT: Final = "(no text)"
_IMAGES: Final = "Images from the results above:"


def headers(key: str | None) -> dict[str, str]:
    """The headers that say who asks."""
    return {} if key is None else {"authorization": f"Bearer {key}"}


def body(model: Model, request: ModelRequest, options: StreamOptions) -> dict[str, Any]:
    """The request as JSON."""
    is_openai = model.provider == "openai"
    found: dict[str, Any] = {
        "model": model.id,
        "messages": list(_messages(model, request)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        found["tools"] = [{"type": "function", "function": _tool(tool)} for tool in request.tools]
    if options.max_tokens:
        # OpenAI's reasoning models know only the newer name, other servers often only the older one.
        found["max_completion_tokens" if is_openai else "max_tokens"] = options.max_tokens
    if options.temperature is not None:
        found["temperature"] = options.temperature
    if (level := asked_level(model, options)) is not None:
        found["reasoning_effort"] = effort(model, level)
    if is_openai and options.session_id:
        found["prompt_cache_key"] = options.session_id
    return found


def _tool(tool: Any) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["parameters"]}


def _messages(model: Model, request: ModelRequest) -> Iterator[dict[str, Any]]:
    if request.system_prompt:
        yield {"role": "system", "content": request.system_prompt}
    images: list[ImageBlock] = []
    for message in (*prepared(request.messages, model), None):
        if images and (message is None or message["role"] != "toolResult"):
            # A result can only be text here; its images follow when all results of the answer are told.
            yield {"role": "user", "content": [{"type": "text", "text": _IMAGES}, *map(_part, images)]}
            images = []
        if message is not None:
            yield from _message(message)
        if message is not None and message["role"] == "toolResult":
            images += _images(message)


def _message(message: LlmMessage) -> Iterator[dict[str, Any]]:
    if message["role"] == "assistant":
        yield _assistant(message)
    elif message["role"] == "toolResult":
        text = _text(message["content"]) or _NO_TEXT
        yield {"role": "tool", "tool_call_id": message["toolCallId"], "content": text}
    elif isinstance(content := message["content"], str):
        if content:
            yield {"role": "user", "content": content}
    elif content:
        yield {"role": "user", "content": [_part(block) for block in content]}


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    found: dict[str, Any] = {"role": "assistant", "content": _text(message["content"]) or None}
    calls = []
    for block in message["content"]:
        if block["type"] == "toolCall":
            # A model should see what it wrote; but servers that read the text as JSON refuse what is none.
            function = {"name": block["name"], "arguments": compact(block["arguments"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
        elif block["type"] == "thinking" and (field := block.get("thinkingSignature")) in REASONING_FIELDS:
            # Models that think between calls want their thoughts back, under the name they gave them.
            found[field] = found.get(field, "") + block["thinking"]
    if calls:
        found["tool_calls"] = calls
    return found


def _text(content: Sequence[Any]) -> str:
    return "".join(block["text"] for block in content if block["type"] == "text")


def _images(message: ToolResultMessage) -> list[ImageBlock]:
    return [block for block in message["content"] if block["type"] == "image"]


def _part(block: TextBlock | ImageBlock) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    return {"type": "image_url", "image_url": {"url": f"data:{block['mimeType']};base64,{block['data']}"}}
