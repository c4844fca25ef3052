"""Agents for tests: short scripts, tools that do what a test says, and what listeners were told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from strataflow.agent import AbortSignal, Agent, AgentMessage, Tool, ToolResult, scripted_model
from strataflow.runtime.simulation.agents import ill_formed

ANY: Mapping[str, Any] = {"type": "object"}


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "text", "text": text}], **more}


def calls(*names: str, text: str = "") -> dict[str, Any]:
    """A turn that calls tools; the calls are named ``call_1``, ``call_2`` and so on."""
    first = [{"type": "text", "text": text}] if text else []
    blocks = [{"type": "toolCall", "id": f"call_{n}", "name": name} for n, name in enumerate(names, 1)]
    return {"blocks": [*first, *blocks]}


def tool(name: str, act: Callable[[AbortSignal], Awaitable[Any]] | None = None, **more: Any) -> Tool:
    """A tool that says its name, after doing what it is given."""

    async def execute(call_id: str, arguments: Any, signal: AbortSignal, update: Any) -> ToolResult | str:
        await trio.lowlevel.checkpoint()
        found = None if act is None else await act(signal)
        return f"{name} done" if found is None else found

    return Tool(name, f"does {name}", ANY, execute, **more)


def told_by(agent: Agent) -> list[Any]:
    """The events that will be told, in short: type, and role or call where there is one."""
    told: list[Any] = []

    def listen(event: Any, signal: AbortSignal) -> None:
        message = event.get("message")
        detail = event.get("toolCallId") or (message and text_of(message))
        told.append((event["type"], detail) if detail else event["type"])

    agent.subscribe(listen)
    return told


def text_of(message: AgentMessage) -> str:
    """Role and text of a message."""
    whole: Any = message
    content = whole.get("content", "")
    if isinstance(content, list):
        content = "".join(block.get("text", block.get("name", "")) for block in content)
    return f"{whole['role']}: {content}"


def transcript(agent: Agent) -> list[str]:
    return [text_of(message) for message in agent.state.messages]


def agent_of(*turns: Mapping[str, Any], tools: Sequence[Tool] = (), **more: Any) -> Agent:
    return Agent(stream_fn=scripted_model(list(turns)), tools=tools, **more)


def check_well_formed(messages: Sequence[Any]) -> None:
    """Every tool call of a whole answer has exactly one result before the next message of another kind."""
    fault = ill_formed(messages)
    assert fault is None, fault
