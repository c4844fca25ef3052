"""What an agent costs: a turn in which neither a model nor a tool takes any time, and a thousand that do nothing."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ...store import Durability
from ..agent import Agent, Model, ModelRequest, StreamEvent, StreamOptions, Tool
from ..opening import open_runtime
from .children import run_children
from .figures import Figure, at_most
from .rates import Progress
from .scale import KIB, MIB, Scale

IDLE_AGENTS = 1_000
# A conversation of this many prompts, then a new one: about what a compaction would leave.
_PROMPTS = 50


@asynccontextmanager
async def _at_once(
    model: Model, request: ModelRequest, options: StreamOptions
) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """A model that has answered before it was asked."""
    yield _answer(request)


async def _answer(request: ModelRequest) -> AsyncIterator[StreamEvent]:
    wants_tool = bool(request.tools) and request.messages[-1]["role"] == "user"
    block = {"type": "toolCall", "id": "1", "name": "nothing", "arguments": {}} if wants_tool else {"type": "text"}
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    message = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "usage": usage, "timestamp": 0}
    message |= {"stopReason": "toolUse" if wants_tool else "stop", "content": [block | {"text": "yes"}]}
    yield {"type": "start", "partial": message}  # type: ignore[typeddict-item]
    yield {"type": "done", "message": message}  # type: ignore[typeddict-item]


async def _nothing(*arguments: object) -> str:
    return "done"


def _agent(tools: int) -> Agent:
    tool = Tool("nothing", "Does nothing.", {"type": "object"}, _nothing)
    return Agent(stream_fn=_at_once, tools=[tool] * tools)


def agents(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Milliseconds a turn; memory and processor time of idle agents."""
    figures = []
    for name, tools, turns, reach in (
        ("without model and tools", 0, 1, at_most(1, "ms")),
        ("with a tool that does nothing in every other turn", 1, 2, None),
    ):
        found = []
        for round_number in range(scale.rounds):
            progress(f"round {round_number + 1} of {scale.rounds}, turns {name}")
            found.append(trio.run(_turns, tools, scale.round_s) / turns)
        ours = statistics.median(found) * 1e3
        figures.append(Figure(f"an agent's overhead a turn, {name}", "ms", ours, reach))
    levels: tuple[Durability, ...] = ("process", "power")
    for level in levels:
        found = []
        for round_number in range(scale.rounds):
            progress(f"round {round_number + 1} of {scale.rounds}, with a session, level {level}")
            place = os.path.join(folder, f"wired-{level}-{round_number}")
            found.append(trio.run(_wired_turns, place, level, scale.round_s))
        note = "a prompt, its answer, and both as memory; two entries of the session file and two commits"
        name = f"an agent's overhead a turn, with memory and session file, level {level}"
        figures.append(Figure(name, "ms", statistics.median(found) * 1e3, note=note))
    progress(f"{IDLE_AGENTS:,} idle agents for {scale.idle_s:g} s")
    (idle,) = run_children("idle_agents", [{"seconds": scale.idle_s, "agents": IDLE_AGENTS}])
    note = f"{idle['grown_bytes'] / IDLE_AGENTS / KIB:.1f} KiB each; {idle['before_bytes'] / MIB:.0f} MiB without them"
    figures.append(Figure(f"memory of {IDLE_AGENTS:,} idle agents", "MiB", idle["grown_bytes"] / MIB, note=note))
    text = f"processor time of a process with {IDLE_AGENTS:,} idle agents"
    figures.append(Figure(text, "%", idle["busy_percent"], note=f"{idle['tasks']} tasks of theirs"))
    return figures


async def _turns(tools: int, seconds: float) -> float:
    """Seconds a prompt."""
    agent, count = _agent(tools), 0
    before = time.perf_counter()
    while (took := time.perf_counter() - before) < seconds or not count:
        if count % _PROMPTS == 0:
            agent.clear_messages()
        await agent.prompt("go")
        count += 1
    return took / count


async def _wired_turns(folder: str, level: Durability, seconds: float) -> float:
    """Seconds a prompt of an agent with a session."""
    async with open_runtime(folder, durability=level) as runtime:
        session = await runtime.open_session("/project", "bench", "active", tree=True)
        count, before = 0, 0.0
        async with Agent(session=session, stream_fn=_at_once) as agent:
            while not count or time.perf_counter() - before < seconds:
                await agent.prompt("go")
                assert agent.state.error is None, agent.state.error
                if len(agent.state.messages) > 2 * _PROMPTS:
                    agent.replace_messages(agent.state.messages[-2:])
                before = before or time.perf_counter()  # the first one makes what the others find
                count += 1
            return (time.perf_counter() - before) / max(1, count - 1)


async def used_agents(count: int) -> list[Agent]:
    """Agents that have had one run each, and are idle."""
    found = [_agent(1) for _ in range(count)]
    for agent in found:
        await agent.prompt("go")
    return found
