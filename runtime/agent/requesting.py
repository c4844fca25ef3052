"""What is asked of a model: pure repair of a conversation that broke off, so that every request is well-formed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .messages import AssistantMessage, LlmMessage, tool_calls
from .step import LOST
from .step_types import error_result, result_message


def well_formed(messages: Sequence[LlmMessage]) -> list[LlmMessage]:
    """The conversation with a result for each tool call, as model services demand it.

    Calls of an answer that broke off were never run: they are left out, and so is the answer if nothing else is in it.
    A call of a whole answer whose result is not there gets an error result. What is whole already stays as it is.
    """
    found: list[LlmMessage] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            found.append(message)
            continue
        is_broken = message["stopReason"] in ("error", "aborted")
        calls = tool_calls(message)
        if not calls and not is_broken:
            found.append(message)
            continue
        answered = _results_behind(messages, number)
        missing = [call for call in calls if call["id"] not in answered]
        if is_broken:
            kept = [block for block in message["content"] if block not in missing and block != _EMPTY]
            if kept:
                found.append(message if len(kept) == len(message["content"]) else _with(message, kept))
            continue
        found.append(message)
        found += [result_message(call, error_result(LOST), True, message["timestamp"]) for call in missing]
    return found


_EMPTY = {"type": "text", "text": ""}


def _with(message: AssistantMessage, content: Sequence[object]) -> AssistantMessage:
    return cast(AssistantMessage, {**message, "content": [*content]})


def _results_behind(messages: Sequence[LlmMessage], number: int) -> set[str]:
    found: set[str] = set()
    for message in messages[number + 1 :]:
        if message["role"] == "assistant":
            break
        if message["role"] == "toolResult":
            found.add(message["toolCallId"])
    return found
