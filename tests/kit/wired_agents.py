"""Agents with a session on simulated machines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from kit.agents import text_of
from kit.simulated_runtimes import simulated
from strataflow.agent import Agent, Model, ScriptedModel, scripted_model
from strataflow.runtime import Mode, Session
from strataflow.runtime.simulation.seams import SimulatedMachine

SCRIPTED = Model("faux-1", "faux", "faux", context_window=128_000)


@attrs.frozen
class Wired:
    """An agent, its session and its model, in a process of a machine."""

    machine: SimulatedMachine
    session: Session
    agent: Agent
    model: ScriptedModel
    told: list[dict[str, Any]] = attrs.field(factory=list)

    def listen(self, event: Any, signal: Any) -> None:
        self.told.append(event)

    def kinds(self, *left_out: str) -> list[str]:
        """Types of the events that were told, without updates."""
        return [event["type"] for event in self.told if event["type"] not in ("message_update", *left_out)]

    def entries(self) -> list[dict[str, Any]]:
        """The session file's lines behind the header, without memory's own."""
        return [line for line in lines_of(self.machine, self.session) if not is_ours(line)][1:]

    def types(self) -> list[str]:
        return [type_of(entry) for entry in self.entries()]

    def says(self) -> list[str]:
        return [text_of(message) for message in self.agent.state.messages]


def type_of(entry: Mapping[str, Any]) -> str:
    return f"message:{entry['message']['role']}" if entry["type"] == "message" else str(entry["type"])


def is_ours(line: Mapping[str, Any]) -> bool:
    return line["type"] == "custom" and str(line["customType"]).startswith("state-flow-")


def lines_of(machine: SimulatedMachine, session: Session) -> list[dict[str, Any]]:
    tree = session.tree
    assert tree is not None
    path = tree.get_session_file()
    assert path is not None
    data = machine.disk.read(path)
    assert data is not None
    return [json.loads(line) for line in data.split(b"\n") if line]


@attrs.frozen
class ClockOf:
    """The clock of a simulated process, for its model."""

    now_ms: Callable[[], int]

    def wall_ms(self) -> int:
        return self.now_ms()

    def monotonic_s(self) -> float:
        return trio.current_time()


def machine_clock(session: Any) -> ClockOf | None:
    """The clock that a session's tree has; None without a tree."""
    return None if session.tree is None else ClockOf(session.tree._tree.tree.seams.now_ms)


@asynccontextmanager
async def wired(
    machine: SimulatedMachine,
    turns: Sequence[Mapping[str, Any]] = (),
    *,
    mode: Mode = "active",
    process: str = "first",
    session_id: str = "main",
    tree: bool = True,
    **options: Any,
) -> AsyncIterator[Wired]:
    """An agent whose model plays these turns."""
    async with simulated(machine, process) as runtime:
        session = await runtime.open_session("/project", session_id, mode, tree=tree)
        # Answers and entries have the same clock, so that what is older can be told.
        model = scripted_model(list(turns), clock=machine_clock(session))
        agent = Agent(**{"session": session, "model": SCRIPTED, "stream_fn": model, **options})
        found = Wired(machine, session, agent, model)
        agent.subscribe(found.listen)
        async with agent:
            yield found
