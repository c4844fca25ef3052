"""The model that plays a script."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from kit.agents import agent_of, transcript
from strataflow import Agent, AgentError, scripted_model
from strataflow.agent import Model


async def test_a_script_is_played_turn_by_turn_and_then_ends_in_an_error(autojump_clock: Any) -> None:
    model = scripted_model(json.dumps({"turns": [{"blocks": [{"type": "text", "chunks": ["Hel", "lo"]}]}]}))
    agent = Agent(stream_fn=model, model=Model("m", "p", "a"), system_prompt="Be brief.")
    await agent.prompt("Hi")
    await agent.prompt("More")
    assert transcript(agent) == ["user: Hi", "assistant: Hello", "user: More", "assistant: "]
    assert agent.state.error == "the script has only 1 turns"
    assert [request.system_prompt for request in model.requests] == ["Be brief."] * 2
    first: Any = agent.state.messages[1]
    assert (first["model"], first["provider"], first["api"], first["stopReason"]) == ("m", "p", "a", "stop")


async def test_delays_and_usage_of_a_script_are_kept(autojump_clock: Any) -> None:
    turn = {"blocks": [{"type": "thinking", "thinking": "hm"}], "delayMs": 2_000, "usage": {"input": 5}}
    agent = agent_of(turn)
    before = trio.current_time()
    await agent.prompt("go")
    assert trio.current_time() - before == 2
    last: Any = agent.state.messages[-1]
    assert (last["usage"]["input"], last["usage"]["output"], last["content"][0]["thinking"]) == (5, 0, "hm")


@pytest.mark.parametrize(
    "script, says",
    [
        ("{", "no JSON"),
        ({"turn": []}, "list of turns"),
        ([5], "turn 1"),
        ([{"blocks": []}, {"block": []}], "turn 2 of the script: unknown member 'block'"),
        ([{"stopReason": "bored"}], "stopReason must be one of"),
        ([{"blocks": [{"type": "image"}]}], "a block has the type"),
        ([{"blocks": [{"type": "toolCall", "name": "a"}]}], 'needs "id" and "name"'),
    ],
)
def test_what_is_no_script_is_refused_with_its_place(script: Any, says: str) -> None:
    with pytest.raises(AgentError, match="E_AGENT_SCRIPT") as caught:
        scripted_model(script)
    assert says in caught.value.message
