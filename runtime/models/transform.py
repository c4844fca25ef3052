"""A transcript as one model can take it, whichever models wrote it. Pure, and the same for the same beginning.

Invariants:
  X1  Every tool call is followed at once by exactly one result, and every result belongs to a call: both wires refuse
      anything else. A call without a result gets one that says so; a result without its call is left out.
  X2  Ids of calls are of a form that every wire takes, and no two calls share one: servers that count from nought in
      every answer would otherwise be refused by the next.
  X3  What only its own model understands (thoughts, seals) goes to that model alone.
  X4  Of an answer that was aborted or failed its text stays, and its calls that have results. It may end in the middle
      of a call or a thought, which nobody takes.
  X5  How a message is sent depends only on what stands before it and, for results, right after it: so the bytes sent
      once begin the next request too, and caches hold.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from ..agent.messages import (
    AssistantMessage,
    ImageBlock,
    LlmMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
)
from ..agent.model_stream import Model

NO_RESULT: Final = "No result was recorded for this call."
NO_IMAGES: Final = "(an image was left out: this model takes none)"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_UNFINISHED: Final = ("error", "aborted")


def prepared(messages: Sequence[LlmMessage], model: Model) -> list[LlmMessage]:
    """``messages`` as ``model`` can take them. The given ones are not changed."""
    found: list[LlmMessage] = []
    used: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "user":
            content = message["content"]
            found.append({**message, "content": content if isinstance(content, str) else _shown(content, model)})
        elif message["role"] == "assistant":
            results = {result["toolCallId"]: result for result in reversed(_results_after(messages, number))}
            found += _answer(message, results, model, used)
    return found


def _results_after(messages: Sequence[LlmMessage], number: int) -> list[ToolResultMessage]:
    """The results up to the next answer. Other messages may stand between them: they come after them."""
    found = []
    for message in messages[number + 1 :]:
        if message["role"] == "assistant":
            break
        if message["role"] == "toolResult":
            found.append(message)
    return found


def _answer(
    message: AssistantMessage, results: dict[str, ToolResultMessage], model: Model, used: set[str]
) -> Iterator[LlmMessage]:
    """An answer and the results of its calls (X1)."""
    is_own = (message["provider"], message["api"], message["model"]) == (model.provider, model.api, model.id)
    content: list[TextBlock | ThinkingBlock | ToolCallBlock] = []
    answers: list[LlmMessage] = []
    for block in message["content"]:
        if block["type"] == "toolCall":
            if block["id"] not in results and message["stopReason"] in _UNFINISHED:
                continue  # X4
            call_id = _fit_id(block["id"], used)
            content.append({**block, "id": call_id})
            result = results.get(block["id"]) or _missing(block, message["timestamp"])
            answers.append({**result, "toolCallId": call_id, "content": _shown(result["content"], model)})
        elif block["type"] == "text":
            if block["text"]:
                content.append(block)
        elif is_own and block.get("thinkingSignature"):  # X3; without its seal a thought was cut off
            content.append(block)
    # Thoughts alone are no answer: nobody takes a message of nothing else.
    if any(block["type"] != "thinking" for block in content):
        yield {**message, "content": content}
        yield from answers


def _missing(call: ToolCallBlock, timestamp: int) -> ToolResultMessage:
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": [{"type": "text", "text": NO_RESULT}],
        "isError": True,
        "timestamp": timestamp,
    }


def _fit_id(given: str, used: set[str]) -> str:
    """``given`` if it has the right form and is new, else one made of it (X2)."""
    fit, turn = given, 0
    while not _ID.fullmatch(fit) or fit in used:
        seal = hashlib.sha256(f"{turn} {given}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        fit = re.sub(r"[^A-Za-z0-9_-]", "_", given)[:27] + "_" + seal
        turn += 1
    used.add(fit)
    return fit


def _shown(content: Sequence[TextBlock | ImageBlock], model: Model) -> list[TextBlock | ImageBlock]:
    """Blocks with something in them; images only for models that see."""
    found: list[Any] = []
    for block in content:
        if block["type"] == "image" and "image" not in model.input:
            found.append({"type": "text", "text": NO_IMAGES})
        elif block["type"] == "image" or block["text"]:
            found.append(block)
    return cast("list[TextBlock | ImageBlock]", found)
