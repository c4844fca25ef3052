"""Tools and hooks that give what is no result, change what is not theirs, or wait for themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import trio

from kit.agents import agent_of, calls, check_well_formed, says, tool, transcript
from kit.simulated_runtimes import run_seeded
from kit.wired_agents import wired
from strataflow import CallError
from strataflow.agent import AbortSignal, Agent, AgentError, Tool
from strataflow.runtime.simulation.seams import SimulatedMachine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = {
    "a block that is no object": {"content": [1]},
    "a block of an unknown type": {"content": [{"type": "video", "text": "x"}]},
    "a text without its text": {"content": [{"type": "text"}]},
    "a text of bytes": {"content": [{"type": "text", "text": b"x"}]},
    "an image without its type": {"content": [{"type": "image", "data": ""}]},
    "details with a time": {"content": [], "details": {"at": EPOCH}},
    "details that are a set": {"content": [], "details": {1, 2}},
    "details that are no number": {"content": [], "details": float("nan")},
    "details with a key that is no string": {"content": [], "details": {1: 2}},
}


@pytest.mark.parametrize("result", ODD.values(), ids=ODD)
@pytest.mark.parametrize("by_hook", [False, True])
def test_a_result_that_nobody_can_keep_is_an_error_for_the_model_and_the_session_goes_on(
    result: Any, by_hook: bool
) -> None:
    async def body(machine: SimulatedMachine) -> None:
        async def odd(signal: AbortSignal) -> Any:
            return {"content": []} if by_hook else result

        more: Any = {"after_tool_call": lambda context: result} if by_hook else {}
        async with wired(machine, [calls("odd"), says("ok"), says("on")], tools=[tool("odd", odd)], **more) as it:
            for text in ("go", "again"):
                await it.agent.prompt(text)
                assert it.agent.state.error is None
            refused: Any = it.agent.state.messages[2]
            assert refused["isError"]
            assert refused["content"][0]["text"]
            said = it.says()
            entries = [entry for entry in it.entries() if entry["type"] == "message"]
            assert [entry["message"] for entry in entries] == it.agent.state.messages
        assert said[3:] == ["assistant: ok", "user: again", "assistant: on"]

    run_seeded(1, lambda: body(SimulatedMachine()))


async def test_what_a_tool_and_a_hook_do_to_their_arguments_does_not_change_the_answer(autojump_clock: Any) -> None:
    async def takes(call_id: str, arguments: Any, signal: AbortSignal, update: Any) -> str:
        return f"{arguments.pop('deep').pop()} {arguments.pop('more')}"

    def adds(context: Any) -> None:
        context.arguments["more"] = "hooked"

    given = {"deep": ["x", "y"]}
    block = {"type": "toolCall", "id": "call_1", "name": "takes", "arguments": given}
    taking = Tool("takes", "takes its arguments apart", {"type": "object"}, takes)
    agent = agent_of({"blocks": [block]}, says("ok"), tools=[taking], before_tool_call=adds)
    await agent.prompt("go")
    assert transcript(agent)[2] == "toolResult: y hooked"
    answer: Any = agent.state.messages[1]
    assert answer["content"][0]["arguments"] == {"deep": ["x", "y"]}


async def test_calls_that_a_model_gives_one_id_are_told_apart_and_each_has_its_result(autojump_clock: Any) -> None:
    async def takes(call_id: str, arguments: Any, signal: AbortSignal, update: Any) -> str:
        return f"{call_id} {arguments['n']}"

    names = ("same", "same_2", "same", "same")
    blocks = [{"type": "toolCall", "id": name, "name": "takes", "arguments": {"n": n}} for n, name in enumerate(names)]
    agent = agent_of({"blocks": blocks}, says("ok"), tools=[Tool("takes", "", {"type": "object"}, takes)])
    await agent.prompt("go")
    messages: list[Any] = agent.state.messages
    assert [block["id"] for block in messages[1]["content"]] == ["same", "same_2", "same_3", "same_4"]
    assert [message["toolCallId"] for message in messages[2:6]] == ["same", "same_2", "same_3", "same_4"]
    assert transcript(agent)[2:6] == [
        f"toolResult: {name} {n}" for n, name in enumerate(("same", "same_2", "same_3", "same_4"))
    ]
    check_well_formed(messages)


async def test_all_errors_of_a_group_are_told_to_the_model_each_once(autojump_clock: Any) -> None:
    async def fails(signal: AbortSignal) -> None:
        raise ExceptionGroup("both", [ValueError("left"), ExceptionGroup("in", [ValueError("right")]), OSError("left")])

    agent = agent_of(calls("a"), says("ok"), tools=[tool("a", fails)])
    await agent.prompt("go")
    assert transcript(agent)[2] == "toolResult: left; right"


@pytest.mark.parametrize("odd", [None, 5, b"x", {}, {"role": 5}, object(), [None], ["a"], ("a",), [[]]])
async def test_what_is_no_message_is_refused_before_it_is_in_the_transcript(odd: Any, autojump_clock: Any) -> None:
    agent = agent_of(says("ok"))
    for say in (agent.prompt, agent.steer, agent.follow_up):
        with pytest.raises(TypeError, match="a message is a dict"):
            await say(odd)
    await agent.prompt("go")
    assert transcript(agent) == ["user: go", "assistant: ok"]


@pytest.mark.parametrize("odd", [float("nan"), {1, 2}, b"x"])
def test_a_message_that_no_session_can_keep_does_not_come_into_its_queue(odd: Any) -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("ok")]) as it:
            note: Any = {"role": "custom", "customType": "n", "content": "", "display": True, "details": odd}
            with pytest.raises(CallError, match="no spelling in JSON"):
                await it.agent.steer({**note, "timestamp": 1})
            assert not it.agent.has_queued_messages
            await it.agent.steer("S")
            await it.agent.prompt("go")
            assert it.says() == ["user: go", "user: S", "assistant: ok"]

    run_seeded(1, lambda: body(SimulatedMachine()))


WAITS: dict[str, Callable[[Agent], Any]] = {"aclose": lambda agent: agent.aclose(), "wait": lambda a: a.wait_for_idle()}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("place", ["tool", "task of a tool", "cancelled tool", "listener", "hook"])
async def test_a_run_that_would_wait_for_its_own_end_is_refused_and_goes_on(
    wait: Callable[[Agent], Any], place: str, autojump_clock: Any
) -> None:
    refused: list[str] = []

    async def waits(*arguments: Any) -> None:
        with pytest.raises(AgentError) as caught:
            await wait(agent)
        refused.append(caught.value.code)

    async def by_tool(signal: AbortSignal) -> None:
        with trio.CancelScope() as scope:
            if place == "cancelled tool":
                scope.cancel()
            if place == "task of a tool":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(waits)
            elif place != "listener" and place != "hook":
                await waits()

    agent = agent_of(calls("a"), says("ok"), tools=[tool("a", by_tool)])
    if place == "hook":
        agent.before_tool_call = waits
    elif place == "listener":
        agent.subscribe(waits)
    async with trio.open_nursery() as around:
        around.start_soon(trio.sleep, 1)
        await agent.prompt("go")
    assert set(refused) == {"E_AGENT_RUNNING"}
    assert transcript(agent)[-1] == "assistant: ok"
    check_well_formed(agent.state.messages)
    await wait(agent)


async def test_a_tool_may_have_a_task_around_the_run_close_its_agent(autojump_clock: Any) -> None:
    async with trio.open_nursery() as around:

        async def quits(signal: AbortSignal) -> str:
            around.start_soon(agent.aclose)
            await signal.wait()
            return "bye"

        agent = agent_of(calls("a"), says("never"), tools=[tool("a", quits)])
        await agent.prompt("go")
    assert transcript(agent)[2:] == ["toolResult: bye", "assistant: "]
    with pytest.raises(AgentError, match="closed"):
        await agent.prompt("again")
