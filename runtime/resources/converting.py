"""All roles of a session as the three roles that models know (host 5.7.5). Pure.

A host that works with session files gives this to the agent as its ``convert_to_llm``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..agent.messages import CustomMessage, LlmMessage

_BRANCH_INTRODUCTION = "This is a summary of another branch of this conversation, which was left:"
_COMPACTION_INTRODUCTION = "The conversation up to here was replaced by this summary of it:"
_NO_IMAGE = "[Image: not shown to this model]"


def convert_to_llm(
    messages: Iterable[Mapping[str, Any] | CustomMessage], *, has_images: bool = True
) -> list[LlmMessage]:
    """The messages as a model gets them, in order. Unknown roles and hidden command runs are left out.

    Args:
      has_images: False: a remark stands for each image.
    """
    found: list[LlmMessage] = []
    for message in messages:
        converted = _converted(message if isinstance(message, Mapping) else message.to_json())
        if converted is not None:
            found.append(cast(LlmMessage, converted if has_images else _without_images(converted)))
    return found


def _converted(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    match message.get("role"):
        case "user" | "assistant" | "toolResult":
            return message
        case "bashExecution":
            return None if message.get("excludeFromContext") else _user(message, _run_text(message))
        case "custom":
            return _user(message, message.get("content"))
        case "branchSummary":
            return _user(message, f"{_BRANCH_INTRODUCTION}\n\n<summary>\n{message.get('summary')}</summary>")
        case "compactionSummary":
            return _user(message, f"{_COMPACTION_INTRODUCTION}\n\n<summary>\n{message.get('summary')}\n</summary>")
    return None


def _user(message: Mapping[str, Any], content: Any) -> Mapping[str, Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": "user", "content": blocks, "timestamp": message.get("timestamp")}


def _run_text(run: Mapping[str, Any]) -> str:
    output = run.get("output")
    text = f"Ran `{run.get('command')}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    if run.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif run.get("exitCode"):
        text += f"\n\nCommand exited with code {run['exitCode']}"
    if run.get("truncated") and run.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {run['fullOutputPath']}]"
    return text


def _without_images(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(message.get("content"), list):
        return message
    blocks = [
        {"type": "text", "text": _NO_IMAGE} if block.get("type") == "image" else block for block in message["content"]
    ]
    return {**message, "content": blocks}
