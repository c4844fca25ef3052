"""Types of users' own are messages: a program that uses them passes the strictest check, and a wrong one does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

from kit.source_tree import ROOT

GOOD = """
from typing import Any
import attrs
import strataflow
from strataflow.agent import (
    AbortSignal, AgentEvent, AgentMessage, Block, CustomMessage, LlmMessage, ToolCallContext, ToolResult, only_llm
)

@attrs.frozen
class Notification:
    text: str
    timestamp: int
    role: str = "notification"

    def to_json(self) -> dict[str, Any]:
        return {"role": self.role, "text": self.text, "timestamp": self.timestamp}

def convert(messages: "list[AgentMessage] | tuple[AgentMessage, ...]") -> list[LlmMessage]:
    return only_llm([message for message in messages if not isinstance(message, Notification)])

async def echo(call_id: str, arguments: Any, signal: AbortSignal, update: Any) -> ToolResult:
    return {"content": [{"type": "text", "text": str(arguments["value"])}]}

def listen(event: AgentEvent, signal: AbortSignal) -> None:
    if event["type"] == "message_end":
        message: AgentMessage = event["message"]
        if isinstance(message, Notification):
            print(message.text)
    elif event["type"] == "tool_execution_end":
        print(event["result"]["content"], event["isError"])

async def guard(context: ToolCallContext) -> Block | None:
    return Block("no") if context.arguments is None else None

async def main() -> None:
    note: CustomMessage = Notification("saved", 1)
    tool = strataflow.Tool("echo", "Says it again.", {"type": "object"}, echo)
    agent = strataflow.Agent(
        tools=[tool], messages=[note], before_tool_call=guard, stream_fn=strataflow.scripted_model([])
    )
    agent.subscribe(listen)
    await agent.steer(Notification("look", 2))
    await agent.prompt([Notification("first", 3), {"role": "user", "content": "Hi", "timestamp": 4}])
    agent.state.messages.append(note)
    agent.thinking_budgets = {"high": 2048}
"""
BAD = """
import strataflow

class NoMessage:
    role = "x"

async def main() -> None:
    agent = strataflow.Agent()
    await agent.prompt(NoMessage())
    agent.state.messages.append({"role": "user", "content": 5, "timestamp": 1})
    agent.state.thinking_level = "enormous"
"""


def _check(tmp_path: Path, source: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(source)
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    report, trouble, _ = api.run([*options, "--no-incremental", str(path)])
    assert trouble == ""
    return report


@pytest.mark.slow
def test_messages_of_a_users_own_type_pass_the_strict_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    assert "Success" in _check(tmp_path, GOOD), _check(tmp_path, GOOD)


@pytest.mark.slow
def test_what_is_no_message_is_found_by_the_strict_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    report = _check(tmp_path, BAD)
    assert "Found 3 errors" in report, report
