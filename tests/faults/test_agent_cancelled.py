"""A run is cancelled at every step of its tasks.

Goal: afterwards every tool call in the transcript has a result, the session file says the same as the transcript, each
queued message is in exactly one place, nothing runs any more, and the agent can go on (R1-R3, Q1).

Method: as for the store: under a MockClock the run is repeated and cancelled one step later each time, until one
completes untouched; the order of tasks is drawn from a seed. Another story is aborted instead, and a third is closed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.agents import agent_of, calls, check_well_formed, says, text_of, tool
from kit.cancelling import CancelAt
from kit.holds import holds
from kit.session_files import PlainSession, inline
from kit.simulated_runtimes import run_seeded
from strataflow.agent import Agent, AgentError
from strataflow.store import RealDisk

QUEUED = ("S1", "S2", "F1")


def make(path: Path, policy: Any, execution: Any) -> tuple[Agent, PlainSession]:
    async def slow(signal: Any) -> None:
        with trio.move_on_after(0.1):
            await signal.wait()

    session = PlainSession(str(path))
    agent = agent_of(
        calls("slow", "quick", "nope", text="let me see"),
        calls("quick"),
        *(says(f"answer {number}") for number in range(8)),
        tools=[tool("slow", slow), tool("quick")],
        recorder=session,
        disk=RealDisk(),
        work=inline,
        steering_policy=policy,
        tool_execution=execution,
    )

    async def look(event: Any, signal: Any) -> None:
        await trio.lowlevel.checkpoint()
        if event["type"] == "tool_execution_start" and event["toolCallId"] == "call_3":
            await agent.follow_up("F1")

    agent.subscribe(look)
    return agent, session


def check(agent: Agent, session: PlainSession) -> None:
    messages: list[Any] = agent.state.messages
    check_well_formed(messages)
    assert session.messages() == messages
    found = Counter(text_of(message).removeprefix("user: ") for message in messages)
    waiting = Counter(
        text_of(message).removeprefix("user: ") for lane in ("steering", "follow_up") for message in agent.queued(lane)
    )
    for text in QUEUED:
        assert found[text] + waiting[text] <= 1
    on_disk = [each.queue_id for each in agent._custody.file.load()]  # type: ignore[union-attr]
    assert sorted(on_disk) == sorted(agent._custody.queues.waiting(("steering", "follow_up")))
    state = agent.state
    assert (state.is_streaming, state.stream_message, state.pending_tool_calls) == (False, None, frozenset())
    assert (agent.signal, agent._activity) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["parallel", "sequential"])
@pytest.mark.parametrize("policy", ["finish", "skip"])
@pytest.mark.parametrize("end", ["cancel", "abort", "aclose"])
@holds("AC-171", "AC-172", "host 5.8.2")
def test_a_run_that_is_ended_at_any_step_leaves_everything_whole(
    end: str, policy: str, execution: str, tmp_path: Path
) -> None:
    for step in itertools.count(1):
        agent, session = make(tmp_path / f"{step}.jsonl", policy, execution)
        acknowledged, is_untouched = Counter[str](), []

        async def body(
            step: int = step, agent: Agent = agent, acknowledged: Any = acknowledged, done: Any = is_untouched
        ) -> None:
            await _lived(end, step, agent, acknowledged, done)

        run_seeded(step % 5, body)
        check(agent, session)
        if end != "aclose":
            run_seeded(step % 3, lambda agent=agent: agent.prompt("again"))
            check(agent, session)
            assert not agent.has_queued_messages
            found = Counter(text_of(message).removeprefix("user: ") for message in agent.state.messages)
            assert all(found[text] == 1 for text in acknowledged), (step, found, acknowledged)
        if is_untouched:
            break
    assert step > 40


async def _lived(end: str, step: int, agent: Agent, acknowledged: Counter[str], done: list[bool]) -> None:
    async with trio.open_nursery() as nursery:
        ending = trio.CancelScope()

        async def act_then(scope: trio.CancelScope) -> None:
            # Woken by the cancellation of a scope of its own, which is how an instrument can call for something.
            with scope:
                await trio.sleep_forever()
            if end == "abort":
                agent.abort()
            elif end == "aclose":
                await agent.aclose()

        if end != "cancel":
            nursery.start_soon(act_then, ending)
        with trio.CancelScope() as scope:
            target = scope if end == "cancel" else ending
            instrument = CancelAt(target, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                with suppress(AgentError):  # it may be closed by now
                    for text in QUEUED[:2]:
                        await agent.steer(text)
                        acknowledged[text] += 1
                    await agent.prompt("go")
            finally:
                trio.lowlevel.remove_instrument(instrument)
        if not target.cancel_called:
            done.append(True)
            ending.cancel()
