"""A conversation as text for a summary, so that a model reads it and does not go on with it (host 3.5.7). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..converting import convert_to_llm
from .tokens import blocks_of, compact_json

# A request for a summary must itself fit the model.
RESULT_CHARS_MAX = 2000


def serialise_conversation(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of messages of all roles, parted by empty lines. What has no words gives nothing."""
    return "\n\n".join(part for message in convert_to_llm(messages) for part in _parts(message))


def has_words(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether that text is not empty, found out without making it."""
    return any(True for given in messages for message in convert_to_llm([given]) for _ in _parts(message))


def _parts(message: Mapping[str, Any]) -> Iterator[str]:
    blocks = blocks_of(message)
    match message["role"]:
        case "user":
            if text := _joined("", blocks, "text"):
                yield f"[User]: {text}"
        case "assistant":
            if thinking := _joined("\n", blocks, "thinking"):
                yield f"[Assistant thinking]: {thinking}"
            if text := _joined("\n", blocks, "text"):
                yield f"[Assistant]: {text}"
            if calls := "; ".join(_call(block) for block in blocks if block.get("type") == "toolCall"):
                yield f"[Assistant tool calls]: {calls}"
        case "toolResult":
            if text := _joined("", blocks, "text"):
                yield f"[Tool result]: {_cut(text)}"


def _joined(joiner: str, blocks: Iterable[Mapping[str, Any]], kind: str) -> str:
    return joiner.join(str(block.get(kind) or "") for block in blocks if block.get("type") == kind)


def _call(block: Mapping[str, Any]) -> str:
    arguments = block.get("arguments")
    named = arguments.items() if isinstance(arguments, Mapping) else ()
    return f"{block.get('name')}({', '.join(f'{name}={compact_json(value)}' for name, value in named)})"


def _cut(text: str) -> str:
    if len(text) <= RESULT_CHARS_MAX:
        return text
    return f"{text[:RESULT_CHARS_MAX]}\n\n[... {len(text) - RESULT_CHARS_MAX} more characters truncated]"
