"""Cases of the agent that no recorded run holds, by example."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.agents import agent_of, calls, check_well_formed, says, text_of, told_by, tool, transcript
from kit.holds import holds
from strataflow.agent import Agent, AgentError, AgentState, Model, Tool, ToolResult

DEFAULTS = json.loads(
    (Path(__file__).parent.parent / "conformance/pi/agent/61-defaults-and-errors.expected.json").read_text()
)


@holds("AC-155", "host 5.1.1", "host 5.1.2", "host 5.2.9")
def test_a_new_agent_has_the_documented_defaults() -> None:
    agent, known = Agent(), DEFAULTS["defaults"]
    state = agent.state
    assert (state.system_prompt, state.thinking_level) == (known["systemPrompt"], known["thinkingLevel"])
    assert (state.tools, state.messages, state.is_streaming) == ([], [], False)
    assert (state.stream_message, state.streaming_message) == (None, None)
    assert (state.error, state.error_message) == (None, None)
    assert (state.pending_tool_calls, state.model.id) == (frozenset(), known["modelId"])
    assert (agent.steering_mode, agent.follow_up_mode) == (known["steeringMode"], known["followUpMode"])
    assert (agent.tool_execution, agent.transport, agent.signal) == (known["toolExecution"], known["transport"], None)
    assert agent.steering_policy == "finish"


@holds("host 5.1.1", "host 9.2")
def test_assigned_lists_are_copied_and_the_list_read_is_live() -> None:
    messages: list[Any] = [{"role": "user", "content": "a", "timestamp": 1}]
    tools = [tool("a")]
    agent = Agent(messages=messages, tools=tools)
    messages.clear()
    tools.clear()
    assert (len(agent.state.messages), len(agent.state.tools)) == (1, 1)
    agent.state.messages.append({"role": "user", "content": "b", "timestamp": 2})
    assert len(agent.state.messages) == 2
    agent.replace_messages(messages)
    agent.append_message({"role": "user", "content": "c", "timestamp": 3})
    agent.set_tools(tools)
    assert (messages, transcript(agent), agent.state.tools) == ([], ["user: c"], [])
    agent.clear_messages()
    agent.set_model(Model("m", "p", "a"))
    agent.set_system_prompt("prompt")
    agent.set_thinking_level("high")
    agent.set_steering_mode("all")
    agent.set_follow_up_mode("all")
    assert (agent.state.messages, agent.state.model.id, agent.state.system_prompt) == ([], "m", "prompt")
    assert (agent.state.thinking_level, agent.get_steering_mode(), agent.get_follow_up_mode()) == ("high", "all", "all")


@holds("AC-161", "host 5.5.8")
async def test_one_sequential_tool_makes_its_whole_batch_sequential(autojump_clock: Any) -> None:
    agent = agent_of(calls("a", "b"), says("ok"), tools=[tool("a"), tool("b", execution_mode="sequential")])
    told = told_by(agent)
    await agent.prompt("go")
    second = told.index(("tool_execution_start", "call_2"))
    assert ("message_end", "toolResult: a done") in told[:second]


@holds("AC-165", "host 5.6.6")
async def test_steering_on_the_first_start_skips_both_parallel_calls(autojump_clock: Any) -> None:
    agent = agent_of(calls("a", "b"), says("ok"), tools=[tool("a"), tool("b")], steering_policy="skip")
    told = told_by(agent)

    async def steer(event: Any, signal: Any) -> None:
        if event["type"] == "tool_execution_start" and event["toolCallId"] == "call_1":
            await agent.steer("S1")

    agent.subscribe(steer)
    await agent.prompt("go")
    skipped = "toolResult: Skipped due to queued user message."
    assert transcript(agent) == ["user: go", "assistant: ab", skipped, skipped, "user: S1", "assistant: ok"]
    assert told.count(("tool_execution_start", "call_1")) == 1
    check_well_formed(agent.state.messages)


@holds("AC-169", "host 5.6.3")
async def test_steering_comes_before_a_follow_up_that_was_queued_first(autojump_clock: Any) -> None:
    async def queue(signal: Any) -> None:
        await agent.follow_up("F")
        await agent.steer("S")

    agent = agent_of(calls("a"), says("one"), says("two"), tools=[tool("a", queue)])
    await agent.prompt("go")
    assert transcript(agent)[3:] == ["user: S", "assistant: one", "user: F", "assistant: two"]


@holds("AC-173", "host 5.2.5")
async def test_abort_keeps_the_queues_and_continue_delivers_them(autojump_clock: Any) -> None:
    agent = agent_of(says("one two", delayMs=10), says("after S"), says("after F"))
    await agent.steer("S0")
    await agent.clear_all_queues()

    async def abort(event: Any, signal: Any) -> None:
        if event["type"] == "message_update" and not signal.is_set:
            await agent.steer("S")
            await agent.follow_up("F")
            agent.abort()

    agent.subscribe(abort)
    await agent.prompt("go")
    assert [text_of(message) for message in (*agent.queued("steering"), *agent.queued("follow_up"))] == [
        "user: S",
        "user: F",
    ]
    agent.state.error = None
    agent._listeners.clear()
    await agent.continue_()
    assert transcript(agent)[2:] == ["user: S", "assistant: after S", "user: F", "assistant: after F"]
    assert not agent.has_queued_messages


@holds("AC-177", "host 5.5.5")
async def test_a_hook_after_a_call_replaces_whole_members_only(autojump_clock: Any) -> None:
    changes: dict[str, Any] = {
        "call_1": {"content": [{"type": "text", "text": "new"}]},
        "call_2": {"details": {"n": 2}, "isError": True},
    }
    result: ToolResult = {"content": [{"type": "text", "text": "old"}], "details": {"n": 1}}

    async def give(signal: Any) -> ToolResult:
        return result

    agent = agent_of(
        calls("a", "a"),
        says("ok"),
        tools=[tool("a", give)],
        after_tool_call=lambda context: changes[context.call["id"]],
    )
    await agent.prompt("go")
    first, second = [message for message in agent.state.messages if message["role"] == "toolResult"]  # type: ignore[index]
    assert (first["content"], first["details"], first["isError"]) == (changes["call_1"]["content"], {"n": 1}, False)  # type: ignore[index]
    assert (second["content"], second["details"], second["isError"]) == (result["content"], {"n": 2}, True)  # type: ignore[index]


@holds("AC-179", "host 5.5.9")
async def test_a_steering_message_gets_its_turn_after_a_terminating_batch(autojump_clock: Any) -> None:
    async def end(signal: Any) -> ToolResult:
        await agent.steer("S")
        return {"content": [{"type": "text", "text": "end"}], "terminate": True}

    agent = agent_of(calls("a"), says("after S"), tools=[tool("a", end)])
    await agent.prompt("go")
    assert transcript(agent)[2:] == ["toolResult: end", "user: S", "assistant: after S"]


@holds("AC-185", "host 5.2.3")
async def test_continue_after_a_tool_result_asks_the_model_once(autojump_clock: Any) -> None:
    first = agent_of(calls("a"), says("one"), tools=[tool("a")])
    await first.prompt("go")
    agent = agent_of(says("again"), messages=first.state.messages[:3])
    await agent.continue_()
    assert transcript(agent)[3:] == ["assistant: again"]


@holds("AC-194", "host 5.6.2")
async def test_a_mode_changed_during_the_run_counts_at_the_next_poll(autojump_clock: Any) -> None:
    async def change(signal: Any) -> None:
        await agent.steer("S1")
        await agent.steer("S2")
        agent.steering_mode = "all"

    agent = agent_of(calls("a"), says("both"), tools=[tool("a", change)])
    await agent.prompt("go")
    assert transcript(agent)[3:] == ["user: S1", "user: S2", "assistant: both"]


@holds("AC-196", "host 5.5.10")
async def test_updates_of_a_tool_are_told_before_its_end(autojump_clock: Any) -> None:
    async def execute(call_id: str, arguments: Any, signal: Any, update: Any) -> str:
        for text in ("half", "most"):
            await update({"content": [{"type": "text", "text": text}]})
            assert seen[-1] == text
        return "all"

    seen: list[str] = []

    async def slow(event: Any, signal: Any) -> None:
        if event["type"] == "tool_execution_update":
            await trio.sleep(1)
            seen.append(event["partialResult"]["content"][0]["text"])

    agent = agent_of(calls("a"), says("ok"), tools=[Tool("a", "", {}, execute)])
    agent.subscribe(slow)
    told = told_by(agent)
    await agent.prompt("go")
    kinds = [name for name in told if "tool_execution" in name[0]]
    update = ("tool_execution_update", "call_1")
    assert kinds == [("tool_execution_start", "call_1"), update, update, ("tool_execution_end", "call_1")]


@holds("AC-200", "host 5.4.1")
async def test_a_model_error_leaves_a_follow_up_in_its_queue(autojump_clock: Any) -> None:
    agent = agent_of({"blocks": [], "stopReason": "error", "errorMessage": "overloaded"})
    await agent.follow_up("F")
    await agent.prompt("go")
    assert agent.state.error == "overloaded"
    assert [text_of(message) for message in agent.queued("follow_up")] == ["user: F"]


@holds("AC-201", "host 5.6.8")
async def test_steering_in_the_last_turn_end_is_delivered_and_a_late_follow_up_waits(autojump_clock: Any) -> None:
    agent = agent_of(says("one"), says("two"), says("three"))
    done: list[str] = []

    async def queue(event: Any, signal: Any) -> None:
        if event["type"] in ("turn_end", "agent_end") and event["type"] not in done:
            done.append(event["type"])
            await (agent.steer("S") if event["type"] == "turn_end" else agent.follow_up("F"))

    agent.subscribe(queue)
    await agent.prompt("go")
    assert transcript(agent) == ["user: go", "assistant: one", "user: S", "assistant: two"]
    await agent.continue_()
    assert transcript(agent)[4:] == ["user: F", "assistant: three"]


@pytest.mark.parametrize("policy", ["finish", "skip"])
@holds("AC-202", "host 5.5.7")
async def test_an_unknown_tool_ends_before_a_slow_one(policy: Any, autojump_clock: Any) -> None:
    async def slow(signal: Any) -> None:
        await trio.sleep(1)

    agent = agent_of(calls("a", "nope"), says("ok"), tools=[tool("a", slow)], steering_policy=policy)
    told = told_by(agent)
    await agent.prompt("go")
    ends = [name for name in told if name[0] == "tool_execution_end"]
    results = [name[1] for name in told if name[0] == "message_end" and name[1].startswith("toolResult")]
    assert ends == [("tool_execution_end", "call_2"), ("tool_execution_end", "call_1")]
    texts = ["toolResult: a done", "toolResult: Tool nope not found"]
    assert results == (texts if policy == "finish" else texts[::-1])


@holds("AC-203", "host 5.3.2")
async def test_the_pending_calls_are_a_new_set_at_each_change(autojump_clock: Any) -> None:
    async def slow(signal: Any) -> None:
        await trio.sleep(1)

    agent = agent_of(calls("slow", "quick"), says("ok"), tools=[tool("slow", slow), tool("quick")])
    sets: list[frozenset[str]] = []

    def look(event: Any, signal: Any) -> None:
        if event["type"].startswith("tool_execution"):
            sets.append(agent.state.pending_tool_calls)

    agent.subscribe(look)
    await agent.prompt("go")
    assert sets == [{"call_1"}, {"call_1", "call_2"}, {"call_1"}, set()]


@holds("host 5.3.3")
async def test_a_listener_that_was_removed_hears_nothing_more(autojump_clock: Any) -> None:
    agent = agent_of(says("one"), says("two"))
    heard: list[str] = []
    remove = agent.subscribe(lambda event, signal: heard.append(event["type"]))
    await agent.prompt("go")
    remove()
    remove()
    count = len(heard)
    await agent.prompt("go on")
    assert (count > 0, len(heard)) == (True, count)


async def test_a_model_without_a_client_is_an_error_that_says_so(autojump_clock: Any) -> None:
    agent = Agent(model=Model("m", "nobody", "none"))
    await agent.prompt("go")
    assert agent.state.error is not None
    assert "nobody" in agent.state.error
    assert isinstance(agent.state, AgentState)


async def test_a_stream_that_gives_nothing_makes_the_run_fail(autojump_clock: Any) -> None:
    @asynccontextmanager
    async def nothing(model: Any, request: Any, options: Any) -> Any:
        async def events() -> Any:
            for event in ():
                yield event

        yield events()

    agent = Agent(stream_fn=nothing)
    await agent.prompt("go")
    assert agent.state.error == "the model's stream ended without an answer"


async def test_a_closed_agent_refuses_everything_that_would_begin_something(autojump_clock: Any) -> None:
    async with agent_of(says("one")) as agent:
        await agent.prompt("go")
    for call in (lambda: agent.prompt("x"), agent.continue_, lambda: agent.steer("x"), agent.reset):
        with pytest.raises(AgentError) as caught:
            await call()
        assert caught.value.code == "E_AGENT_CLOSED"
    await agent.aclose()


@holds("host 5.5.3")
async def test_arguments_that_are_no_json_are_an_error_for_the_model(autojump_clock: Any) -> None:
    block: Any = {"type": "toolCall", "id": "c", "name": "a", "arguments": {}, "invalidArguments": '{"x": '}
    usage: Any = {"totalTokens": 0}
    answer: Any = {"role": "assistant", "content": [block], "usage": usage, "stopReason": "toolUse", "timestamp": 1}

    @asynccontextmanager
    async def model(model: Any, request: Any, options: Any) -> Any:
        async def events() -> Any:
            whole = {**answer, "api": "a", "provider": "p", "model": "m"}
            done = {**whole, "content": [{"type": "text", "text": "ok"}], "stopReason": "stop"}
            yield {"type": "done", "message": whole if len(request.messages) == 1 else done}

        yield events()

    agent = Agent(stream_fn=model, tools=[tool("a")])
    await agent.prompt("go")
    assert transcript(agent)[2].startswith('toolResult: Validation failed for tool "a":')
    assert transcript(agent)[3] == "assistant: ok"


@holds("host 5.4.3")
async def test_calls_of_an_answer_that_was_cut_at_its_length_are_run(autojump_clock: Any) -> None:
    agent = agent_of({**calls("a"), "stopReason": "length"}, says("ok"), tools=[tool("a")])
    await agent.prompt("go")
    assert transcript(agent)[2:] == ["toolResult: a done", "assistant: ok"]


async def test_steering_that_skipped_a_call_waits_if_the_stop_hook_ends_the_run(autojump_clock: Any) -> None:
    async def steer(signal: Any) -> None:
        await agent.steer("S")

    options: Any = {"steering_policy": "skip", "tool_execution": "sequential"}
    agent = agent_of(
        calls("a", "a"), says("ok"), tools=[tool("a", steer)], should_stop_after_turn=lambda *given: True, **options
    )
    await agent.prompt("go")
    assert transcript(agent)[3] == "toolResult: Skipped due to queued user message."
    assert [text_of(message) for message in agent.queued("steering")] == ["user: S"]
    agent.should_stop_after_turn = None
    await agent.continue_()
    assert transcript(agent)[4:] == ["user: S", "assistant: ok"]
