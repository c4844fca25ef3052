"""What a server of either wire format says for an answer: blocks in, pieces of a stream out. Written by hand from the
formats, and knows nothing of the clients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs

from strataflow.runtime.agent.model_stream import Model

WireName = Literal["openai-completions", "anthropic-messages"]
WIRE_NAMES: tuple[WireName, ...] = ("openai-completions", "anthropic-messages")


@attrs.frozen
class Said:
    """Text or thought, in the pieces in which it comes."""

    kind: Literal["text", "thinking"]
    pieces: tuple[str, ...]


@attrs.frozen
class Called:
    """A tool call, the JSON text of its arguments in pieces."""

    id: str
    name: str
    pieces: tuple[str, ...]


Block: TypeAlias = Said | Called


def model_of(wire: WireName, base_url: str = "", **more: Any) -> Model:
    """A model of that wire. Its provider is nobody's, so that it needs no key."""
    given: dict[str, Any] = {
        "id": "m-1",
        "provider": "local",
        "api": wire,
        "base_url": base_url,
        "reasoning": True,
        "input": ("text", "image"),
        "context_window": 1_000,
        "max_tokens": 64_000,
        "cost": {"input": 1.0, "output": 2.0, "cacheRead": 0.5, "cacheWrite": 4.0},
    }
    return Model(**{**given, **more})


def stream_of(wire: WireName, blocks: Sequence[Block], stop: str = "") -> list[bytes]:
    """The pieces of a whole stream, one event each. ``stop``: the wire's reason, if not the usual one.

    Usage is 10 tokens of input, 4 read from a cache, and one of output for each piece.
    """
    has_calls = any(isinstance(block, Called) for block in blocks)
    if wire == "openai-completions":
        return _openai(blocks, stop or ("tool_calls" if has_calls else "stop"))
    return _anthropic(blocks, stop or ("tool_use" if has_calls else "end_turn"))


def tokens_of(blocks: Sequence[Block]) -> int:
    return sum(len(block.pieces) for block in blocks)


def openai_chunk(delta: dict[str, Any] | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": more.pop("finish_reason", None)}]
    chunk = {"id": "resp-1", "object": "chat.completion.chunk", "model": "m-1-2026", "choices": choices, **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _openai(blocks: Sequence[Block], stop: str) -> list[bytes]:
    found = [openai_chunk({"role": "assistant", "content": ""})]
    calls = 0
    for block in blocks:
        if isinstance(block, Said):
            field = "content" if block.kind == "text" else "reasoning_content"
            found += [openai_chunk({field: piece}) for piece in block.pieces]
            continue
        function = {"name": block.name, "arguments": ""}
        head = {"index": calls, "id": block.id, "type": "function", "function": function}
        found.append(openai_chunk({"tool_calls": [head]}))
        for piece in block.pieces:
            found.append(openai_chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}))
        calls += 1
    found.append(openai_chunk({}, finish_reason=stop))
    details = {"cached_tokens": 4}
    usage = {"prompt_tokens": 14, "completion_tokens": tokens_of(blocks), "prompt_tokens_details": details}
    return [*found, openai_chunk(usage=usage), b"data: [DONE]\n\n"]


def anthropic_event(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def _anthropic(blocks: Sequence[Block], stop: str) -> list[bytes]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 1}
    message = {
        "id": "resp-1",
        "type": "message",
        "role": "assistant",
        "model": "m-1-2026",
        "content": [],
        "usage": usage,
    }
    found = [anthropic_event("message_start", message=message), anthropic_event("ping")]
    for index, block in enumerate(blocks):
        if isinstance(block, Called):
            start: dict[str, Any] = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
            deltas: list[dict[str, Any]] = [{"type": "input_json_delta", "partial_json": p} for p in block.pieces]
        else:
            start = {"type": block.kind, block.kind: ""}
            deltas = [{"type": f"{block.kind}_delta", block.kind: piece} for piece in block.pieces]
            if block.kind == "thinking":
                deltas.append({"type": "signature_delta", "signature": "seal"})
        found.append(anthropic_event("content_block_start", index=index, content_block=start))
        found += [anthropic_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        found.append(anthropic_event("content_block_stop", index=index))
    end = {"stop_reason": stop, "stop_sequence": None}
    found.append(anthropic_event("message_delta", delta=end, usage={"output_tokens": tokens_of(blocks)}))
    return [*found, anthropic_event("message_stop")]


def error_body(wire: WireName, kind: str, message: str) -> dict[str, Any]:
    """The body of an error."""
    if wire == "openai-completions":
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req-1"}
