"""The agent's reference names everything that a user can reach."""

from __future__ import annotations

import inspect
import re

import attrs
import pytest

from kit.documents import code_words
from kit.source_tree import read
from strataflow import agent

PAGE = "docs/reference/agent.md"


def _is_there(name: str, words: str) -> bool:
    return re.search(rf"(?<!\w){name}(?!\w)", words) is not None


def test_every_name_of_the_module_is_in_the_reference() -> None:
    words = " ".join(code_words(read(PAGE)))
    assert [name for name in agent.__all__ if not _is_there(name, words)] == []


@pytest.mark.parametrize("name", "Agent AgentState AbortSignal Tool ToolCallContext Recorder HostRun AgentHost".split())
def test_every_public_member_is_in_the_reference_of_the_agent(name: str) -> None:
    kind = getattr(agent, name)
    words = " ".join(code_words(read(PAGE)))
    members = {member for member, _ in inspect.getmembers(kind) if not member.startswith("_")}
    if attrs.has(kind):
        members |= {field.name for field in attrs.fields(kind) if not field.name.startswith("_")}
    assert [member for member in sorted(members) if not _is_there(member, words)] == []


def test_every_option_of_an_agent_is_in_the_reference() -> None:
    words = " ".join(code_words(read(PAGE)))
    options = list(inspect.signature(agent.Agent).parameters)
    assert len(options) > 20
    assert [option for option in options if not _is_there(option, words)] == []
