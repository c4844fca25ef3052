"""Messages and entries for tests of compaction."""

from __future__ import annotations

from typing import Any

USAGE = {"input": 1000, "output": 100, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1100}
NO_USAGE = dict.fromkeys(USAGE, 0)


def user(text: str, time: int = 1) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": time}


def answer(*blocks: str | dict[str, Any], stop: str = "stop", time: int = 1, **own: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    who = {"api": "f", "provider": "f", "model": "m"}
    base = {"role": "assistant", "content": content, **who, "usage": USAGE, "stopReason": stop, "timestamp": time}
    return {**base, **own}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": "c", "name": name, "arguments": arguments}


def result(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "x",
        "content": content,
        "isError": False,
        "timestamp": 1,
    }


def entries(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """A chain e01, e02, …: messages by their role, other entries by their type."""
    found: list[dict[str, Any]] = []
    for number, item in enumerate(items, 1):
        parent = found[-1]["id"] if found else None
        base = {"id": f"e{number:02}", "parentId": parent, "timestamp": "2025-01-01T00:00:00.000Z"}
        found.append({"type": "message", **base, "message": item} if "role" in item else {**base, **item})
    return found
