"""Agents with sessions as a workload of simulated worlds: they talk, remember, are steered, die and go on.

Time is that of the world, a MockClock.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import attrs
import trio

from kit.agents import check_well_formed, says, text_of
from kit.wired_agents import machine_clock
from strataflow.agent import Agent, Model, scripted_model
from strataflow.simulation import Process
from strataflow.store import StrataflowError

CWD = "/project"
FAUX = Model("faux-1", "faux", "faux", context_window=128_000)
_PATIENCE_S = 0.05
_PAUSES_S = (0.0, 0.0, 0.002, 0.3, 2.5)


@attrs.define
class Told:
    """What one agent was told over all its lives: texts that count as said, and its answers."""

    prompts: list[str] = attrs.field(factory=list)
    steers: list[str] = attrs.field(factory=list)
    answers: list[str] = attrs.field(factory=list)
    lives: int = 0
    asked: int = 0


@attrs.define
class SimulatedAgents:
    """One agent for each writer of a world; each has to bring ``prompts`` prompts to an answer."""

    seed: int
    prompts: int = 3
    told: dict[int, Told] = attrs.field(factory=dict)

    async def workload(self, process: Process) -> None:
        async with trio.open_nursery() as nursery:
            for number in process.writers:
                nursery.start_soon(self._live, process, number)

    async def _live(self, process: Process, number: int) -> None:
        told = self.told.setdefault(number, Told())
        told.lives += 1
        chance = random.Random(f"{self.seed} {number} {process.life}")
        while len(told.answers) < self.prompts:
            try:
                await self._talk(process, number, told, chance)
            except StrataflowError:
                await trio.sleep(_PATIENCE_S)

    async def _talk(self, process: Process, number: int, told: Told, chance: random.Random) -> None:
        session: Any = await process.open_session(CWD, f"agent-{number}", "active", tree=True)
        clock = machine_clock(session)

        def model(known: Any, request: Any, options: Any) -> Any:
            turn = _turn(request.messages, number, len(told.answers), chance)
            return scripted_model([turn], clock=clock)(known, request, options)

        async with Agent(session=session, model=FAUX, stream_fn=model) as agent:
            while len(told.answers) < self.prompts:
                await trio.sleep(chance.choice(_PAUSES_S))
                if chance.random() < 0.5:
                    told.asked += 1
                    text = f"steer {number}.{told.asked}"
                    await agent.steer(text)
                    told.steers.append(text)
                told.asked += 1
                text = f"prompt {number}.{told.asked}"
                await agent.prompt(text)
                check_well_formed(agent.state.messages)
                if agent.state.error is None:
                    told.prompts.append(text)
                    told.answers.append(text_of(agent.state.messages[-1]).removeprefix("assistant: "))
                else:
                    await trio.sleep(_PATIENCE_S)

    async def check(self, process: Process) -> None:
        """In the end, when nothing goes wrong any more: transcripts, queues and memory."""
        for number, told in self.told.items():
            session: Any = await process.open_session(CWD, f"agent-{number}", None, tree=True)
            response = (await session.read_state("session.response")).value
            assert response == told.answers[-1], (response, told.answers)
            messages = (await session.tree.build_session_context()).messages
            check_well_formed(messages)
            found = Counter(text_of(message).partition(": ")[2] for message in messages)
            for text in (*told.prompts, *told.steers):
                assert found[text] == 1, (text, found[text])
            disk = session.tree._tree.tree.seams.disk
            assert disk.read(f"{session.tree.get_session_file()}.queue.jsonl") is None


def _turn(messages: list[Any], number: int, done: int, chance: random.Random) -> dict[str, Any]:
    """What the model does next: patch and read for a while, fail now and then, answer in the end."""
    rounds = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        rounds += message["role"] == "assistant"
    kind = "answer" if rounds > 2 else chance.choice(["answer", "patch", "patch", "both", "read", "fail"])
    value = chance.randrange(1000)
    patch = {"cwd": {"working": {f"a{number}": value}}, "session": {"working": {"n": value, "done": done}}}
    calls = {
        "patch": [_call("patch_state", patch, value)],
        "read": [_call("read_state", {"path": "effective.working"}, value)],
    }
    calls["both"] = [*calls["patch"], *calls["read"]]
    if kind == "fail":
        return {"stopReason": "error", "errorMessage": "529 overloaded"}
    return {"blocks": calls[kind]} if kind in calls else says(f"answer {number}.{done}.{value}")


def _call(name: str, arguments: dict[str, Any], value: int) -> dict[str, Any]:
    return {"type": "toolCall", "id": f"{name} {value}", "name": name, "arguments": arguments}
