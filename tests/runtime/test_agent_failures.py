"""Runs that fail, hosts that join runs, and agents that are closed while they work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from kit.agents import agent_of, calls, check_well_formed, says, told_by, tool, transcript
from kit.holds import holds
from strataflow.agent import AbortSignal, Agent, Block, NoHost, NoHostRun, Tool, ToolCallContext

EVENTS = (
    "agent_start turn_start message_start message_update message_end tool_execution_start tool_execution_end "
    "turn_end agent_end".split()
)


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("policy", ["finish", "skip"])
@holds("host 5.3.5", "host 5.8.3", "host 5.8.4")
async def test_a_listener_that_fails_anywhere_leaves_a_whole_transcript(
    kind: str, policy: Any, autojump_clock: Any
) -> None:
    agent = agent_of(calls("a", "a", text="hm"), says("ok"), tools=[tool("a")], steering_policy=policy)
    failed: list[str] = []

    def fail(event: Any, signal: AbortSignal) -> None:
        if event["type"] == kind and (event.get("message") or {}).get("role") != "user" and not failed:
            failed.append(kind)
            raise ZeroDivisionError("listener failed")

    agent.subscribe(fail)
    told = told_by(agent)
    await agent.prompt("go")
    assert failed
    assert agent.state.error == "listener failed"
    messages: list[Any] = agent.state.messages
    assert (messages[-1]["stopReason"], messages[-1]["errorMessage"]) == ("error", "listener failed")
    assert told[-1] == "agent_end"
    check_well_formed(messages)
    assert (agent.state.is_streaming, agent.state.pending_tool_calls, agent.signal) == (False, frozenset(), None)
    await agent.prompt("again")
    check_well_formed(agent.state.messages)


@pytest.mark.parametrize("hook", ["transform_context", "convert_to_llm", "get_api_key", "should_stop_after_turn"])
@holds("AC-190", "host 5.8.3")
async def test_a_hook_that_fails_is_an_error_in_the_state_and_not_an_exception(hook: str, autojump_clock: Any) -> None:
    def fail(*arguments: Any) -> Any:
        raise RuntimeError(f"{hook} failed")

    agent = agent_of(says("ok"), **{hook: fail})
    await agent.prompt("go")
    assert agent.state.error == f"{hook} failed"
    check_well_formed(agent.state.messages)


async def test_results_of_tools_that_had_ended_survive_a_failing_listener(autojump_clock: Any) -> None:
    async def slow(signal: AbortSignal) -> None:
        await trio.sleep(9)

    agent = agent_of(calls("quick", "slow"), tools=[tool("quick"), tool("slow", slow)])

    def fail(event: Any, signal: AbortSignal) -> None:
        if event["type"] == "tool_execution_end":
            raise ZeroDivisionError("listener failed")

    agent.subscribe(fail)
    await agent.prompt("go")
    assert transcript(agent)[2:4] == ["toolResult: quick done", "toolResult: listener failed"]


async def test_closing_waits_for_a_tool_that_listens_to_the_signal(autojump_clock: Any) -> None:
    async def waits(signal: AbortSignal) -> str:
        await signal.wait()
        await trio.sleep(1)
        return "stopped"

    agent = agent_of(calls("a"), says("never"), tools=[tool("a", waits)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.prompt, "go")
        await trio.sleep(1)
        before = trio.current_time()
        await agent.aclose()
        assert trio.current_time() - before == 1
    assert transcript(agent)[2] == "toolResult: stopped"
    last: Any = agent.state.messages[-1]
    assert last["stopReason"] == "aborted"


async def test_closing_cancels_a_tool_that_does_not_listen(autojump_clock: Any) -> None:
    ended: list[bool] = []

    async def deaf(signal: AbortSignal) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    agent = agent_of(calls("a"), tools=[tool("a", deaf)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.prompt, "go")
        await trio.sleep(1)
        before = trio.current_time()
        await agent.aclose(deadline_s=2)
        assert trio.current_time() - before == 2
        assert ended == [True]
    assert transcript(agent)[2:] == ["toolResult: Tool execution was aborted", "assistant: "]
    check_well_formed(agent.state.messages)


@holds("host 5.2.6")
async def test_waiting_for_idle_ends_after_the_listeners_of_the_last_event(autojump_clock: Any) -> None:
    agent = agent_of(says("ok"))
    order: list[str] = []

    async def slow(event: Any, signal: AbortSignal) -> None:
        if event["type"] == "agent_end":
            await trio.sleep(5)
            order.append("listener")

    async def wait() -> None:
        await agent.wait_for_idle()
        order.append("idle")

    agent.subscribe(slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.prompt, "go")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait)
    assert order == ["listener", "idle"]


@attrs.define
class WritesDown(NoHost, NoHostRun):
    """A host that notes what it is asked, and changes what it may."""

    notes: list[Any] = attrs.field(factory=list)

    def tools(self) -> Sequence[Tool]:
        return [tool("remember"), tool("forbidden")]

    @asynccontextmanager
    async def run(self, prompts: Sequence[Any]) -> AsyncIterator[Any]:
        self.notes.append(("run", len(prompts)))
        try:
            yield self
        finally:
            self.notes.append("left")

    async def before_model_call(self, system_prompt: str, messages: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        self.notes.append("request")
        return system_prompt + " And remember.", messages

    async def receive_answer(self, answer: Any) -> Any:
        self.notes.append("answer")
        return {**answer, "content": [{**block, "seen": True} for block in answer["content"]]}

    async def before_tool_call(self, context: ToolCallContext) -> Block | None:
        self.notes.append(context.call["name"])
        return Block("the barrier is down") if context.call["name"] == "forbidden" else None

    async def after_tool_call(self, context: ToolCallContext) -> Any:
        return {"details": "seen"} if context.result else None

    async def accept_answer(self, answer: Any) -> None:
        self.notes.append("accepted")

    async def settle(self, messages: Sequence[Any]) -> None:
        self.notes.append(("settled", len(messages)))


async def test_a_host_joins_a_run_at_its_places_and_leaves_it_at_the_end(autojump_clock: Any) -> None:
    host = WritesDown()
    agent = agent_of(calls("remember", "forbidden"), says("ok"), host=host, system_prompt="Be brief.")

    def listen(event: Any, signal: AbortSignal) -> None:
        if event["type"] in ("agent_start", "agent_end"):
            host.notes.append(event["type"])

    agent.subscribe(listen)
    await agent.prompt("go")
    assert host.notes == [
        ("run", 1),
        "agent_start",
        "request",
        "answer",
        "remember",
        "forbidden",
        "request",
        "answer",
        "accepted",
        "agent_end",
        ("settled", 5),
        "left",
    ]
    assert transcript(agent)[2:4] == ["toolResult: remember done", "toolResult: the barrier is down"]
    seen: Any = agent.state.messages[2]
    assert seen["details"] == "seen"
    model: Any = agent.stream_fn
    assert [request.system_prompt for request in model.requests] == ["Be brief. And remember."] * 2
    assert [each["name"] for each in model.requests[0].tools] == ["remember", "forbidden"]
    final: Any = agent.state.messages[-1]
    assert final["content"] == [{"type": "text", "text": "ok", "seen": True}]


async def test_a_host_is_left_when_its_run_is_cancelled_or_fails(autojump_clock: Any) -> None:
    host = WritesDown()
    agent = agent_of(says("slow", delayMs=5_000), host=host)
    with trio.move_on_after(1):
        await agent.prompt("go")
    assert host.notes == [("run", 1), "request", "left"]
    agent.convert_to_llm = lambda messages: 1 / 0  # type: ignore[assignment, return-value]
    await agent.prompt("go")
    assert host.notes[3:] == [("run", 1), "request", "left"]
    assert isinstance(agent, Agent)
