"""Aborting: the model's stream ends at once and is closed, listeners and tools are never cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio

from kit.agents import agent_of, calls, check_well_formed, says, told_by, tool, transcript
from kit.holds import holds
from strataflow.agent import AbortSignal, Agent, StreamEvent


@attrs.define
class Client:
    """A model client whose every part takes a second, with a task of its own while a call is open."""

    notes: list[Any] = attrs.field(factory=list)

    @asynccontextmanager
    async def __call__(self, model: Any, request: Any, options: Any) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                await trio.sleep(1)
                self.notes.append("connected")
                yield self._events()
                nursery.cancel_scope.cancel()
        finally:
            self.notes.append("closed")

    async def _events(self) -> AsyncIterator[StreamEvent]:
        message: Any = {"role": "assistant", "content": [], "stopReason": "stop", "usage": {}, "timestamp": 0}
        message |= {"api": "a", "provider": "p", "model": "m"}
        try:
            for number in range(3):
                await trio.sleep(1)
                content = [{"type": "text", "text": "x" * number}]
                kind: Any = "text_delta" if number else "start"
                yield {"type": kind, "partial": {**message, "content": content}}  # type: ignore[typeddict-item]
            yield {"type": "done", "message": message}
        finally:
            self.notes.append("generator ended")


@pytest.mark.parametrize("after_s, seen", [(0.5, ""), (1.5, ""), (2.5, ""), (3.5, "x")])
@holds("AC-171", "host 5.8.2")
async def test_an_abort_ends_the_stream_at_once_wherever_it_is(after_s: float, seen: str, autojump_clock: Any) -> None:
    client = Client()
    agent = Agent(stream_fn=client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.prompt, "go")
        await trio.sleep(after_s)
        agent.abort()
        before = trio.current_time()
        await agent.wait_for_idle()
        assert trio.current_time() == before
    assert client.notes[-1] == "closed"
    assert ("connected" in client.notes) == ("generator ended" in client.notes) == (after_s > 1)
    last: Any = agent.state.messages[-1]
    assert (last["stopReason"], agent.state.error) == ("aborted", "Request was aborted")
    assert "".join(block["text"] for block in last["content"]) == seen


async def test_an_abort_never_cuts_a_listener_that_is_at_work(autojump_clock: Any) -> None:
    agent = Agent(stream_fn=Client())
    told = told_by(agent)
    finished: list[str] = []
    is_at_work = trio.Event()

    async def slow(event: Any, signal: AbortSignal) -> None:
        if event["type"] == "message_update":
            is_at_work.set()
        await trio.sleep(10)
        finished.append(event["type"])

    agent.subscribe(slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.prompt, "go")
        await is_at_work.wait()
        agent.abort()
    assert finished == [name if isinstance(name, str) else name[0] for name in told]
    assert finished[-3:] == ["message_end", "turn_end", "agent_end"]


async def test_an_abort_by_a_listener_lets_its_own_event_come_to_its_end(autojump_clock: Any) -> None:
    agent = Agent(stream_fn=Client())
    ended: list[str] = []

    async def abort(event: Any, signal: AbortSignal) -> None:
        if event["type"] == "message_update":
            agent.abort()
            await trio.sleep(5)
            ended.append(event["type"])

    agent.subscribe(abort)
    await agent.prompt("go")
    assert ended == ["message_update"]
    last: Any = agent.state.messages[-1]
    assert (last["stopReason"], last["content"]) == ("aborted", [{"type": "text", "text": "x"}])


async def test_an_aborted_run_waits_for_its_tools_and_asks_no_model_for_real(autojump_clock: Any) -> None:
    async def finishes(signal: AbortSignal) -> str:
        await signal.wait()
        await trio.sleep(3)
        return "tidied up"

    agent = agent_of(calls("a"), says("never"), tools=[tool("a", finishes)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.prompt, "go")
        await trio.sleep(1)
        agent.abort()
        agent.abort()
    assert transcript(agent)[2:] == ["toolResult: tidied up", "assistant: "]
    check_well_formed(agent.state.messages)


async def test_each_turn_lets_other_tasks_run_whatever_its_model_does(autojump_clock: Any) -> None:
    @asynccontextmanager
    async def at_once(model: Any, request: Any, options: Any) -> AsyncIterator[Any]:
        async def events() -> AsyncIterator[Any]:
            usage: Any = {}
            message = {"role": "assistant", "content": [], "stopReason": "stop", "usage": usage, "timestamp": 0}
            yield {"type": "done", "message": message}

        asked.append(steps.count)
        yield events()

    class Steps(trio.abc.Instrument):
        """Counts how often the task of the agent is begun or resumed: others may run in between."""

        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += task is own

    own, steps, asked = trio.lowlevel.current_task(), Steps(), list[int]()
    agent = Agent(stream_fn=at_once)
    for number in range(3):
        await agent.follow_up(f"turn {number}")
    trio.lowlevel.add_instrument(steps)
    try:
        await agent.prompt("go")
    finally:
        trio.lowlevel.remove_instrument(steps)
    assert len(asked) == 4
    assert all(before < after for before, after in pairwise([0, *asked]))
