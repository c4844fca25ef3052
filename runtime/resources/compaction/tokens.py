"""How large a context is, as well as it can be known without a tokenizer (host 3.1). Pure.

Four UTF-16 code units count as one token, so that our numbers are those of other readers of the same session files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from ...agent.messages import counted

Message = Mapping[str, Any]
_UNITS_PER_TOKEN = 4
_IMAGE_UNITS = 4800


def estimate_tokens(message: Message) -> int:
    """Tokens of one message; 0 for a role that is not known."""
    return -(-_units(message) // _UNITS_PER_TOKEN)


def _units(message: Message) -> int:
    match message.get("role"):
        case "user":
            return _content_units(message.get("content"), image=0)
        case "assistant":
            return sum(_answer_units(block) for block in blocks_of(message))
        case "toolResult" | "custom":
            return _content_units(message.get("content"), image=_IMAGE_UNITS)
        case "bashExecution":
            return _length(message.get("command")) + _length(message.get("output"))
        case "branchSummary" | "compactionSummary":
            return _length(message.get("summary"))
    return 0


def blocks_of(message: Message) -> list[Mapping[str, Any]]:
    """The content of a message as blocks; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def compact_json(value: Any) -> str:
    """JSON without blanks, characters as themselves."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _content_units(content: object, *, image: int) -> int:
    units = 0
    for block in blocks_of({"content": content}):
        units += _length(block.get("text")) if block.get("type") == "text" else 0
        units += image if block.get("type") == "image" else 0
    return units


def _answer_units(block: Mapping[str, Any]) -> int:
    match block.get("type"):
        case "text" | "thinking" as kind:
            return _length(block.get(kind))
        case "toolCall":
            return _length(block.get("name")) + _length(compact_json(block.get("arguments")))
    return 0


def _length(text: object) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 if isinstance(text, str) else 0


def usage_tokens(usage: Mapping[str, Any]) -> int:
    """Context tokens that a provider has counted."""
    parts = (counted(usage, name) for name in ("input", "output", "cacheRead", "cacheWrite"))
    return int(counted(usage, "totalTokens") or sum(parts))


def add_usages(usages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What several answers used together, member by member; ``cost`` likewise."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items():
            if isinstance(value, Mapping):
                total[name] = add_usages([total.get(name, {}), value])
            elif isinstance(value, int | float):
                total[name] = total.get(name, 0) + value
    return total


@attrs.frozen
class ContextEstimate:
    """The size of a context: ``usage_tokens`` counted by the provider up to the message at ``last_usage_index`` (None:
    nothing was counted), and ``trailing_tokens`` estimated for what came later."""

    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None

    @property
    def tokens(self) -> int:
        """All together."""
        return self.usage_tokens + self.trailing_tokens


def estimate_context(messages: Sequence[Message]) -> ContextEstimate:
    """The size of a list of messages: the newest count of a provider, and estimates for what came after it.

    Failed and aborted answers have no usable count, nor has one of all zeros: some servers do not count.
    """
    for index in range(len(messages) - 1, -1, -1):
        counted = counted_tokens(messages[index])
        if counted:
            return ContextEstimate(counted, sum(map(estimate_tokens, messages[index + 1 :])), index)
    return ContextEstimate(0, sum(map(estimate_tokens, messages)), None)


def counted_tokens(message: Message) -> int:
    """What a provider counted for this answer; 0: nothing usable."""
    usage = message.get("usage")
    is_whole = message.get("role") == "assistant" and message.get("stopReason") not in ("error", "aborted")
    return usage_tokens(usage) if is_whole and isinstance(usage, Mapping) else 0
