"""Agents with sessions in a world: they talk, remember, are steered, die and go on; and the judge of what is left.

Each agent has a session of its own in the one store, and a model that plays by chance. Over all its lives it brings
some prompts to an answer. In the end (W3) of each of them must hold

  A1  every tool call of a whole answer has exactly one result, before the next message of another kind,
  A2  each prompt that was answered and each steered message that was acknowledged stands in the conversation once,
  A3  the last answer is what memory has as the session's response,
  A4  nothing waits to be delivered.

Where the durability allows a power cut to take the newest away only A1 and A4 are asked for, and that nothing stands
there twice; A3 only where no stranger wrote into the store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, final

import attrs
import trio

from ...store import Durability, StrataflowError
from ..agent import Agent, Model, ModelRequest, StreamOptions, scripted_model
from ..agent.messages import json_of
from .process import Process
from .seams import hash_of

_CWD: Final = "/project"
_MODEL: Final = Model("played", "simulated", "simulated", context_window=128_000)
_PROMPTS: Final = 3
_PATIENCE_S: Final = 0.05
_PAUSES_S: Final = (0.0, 0.0, 0.002, 0.3, 2.5)
_STEERED_SHARE: Final = 0.5
_ROUNDS_MAX: Final = 2
# So often in one life an agent tries in vain where a stranger may have made its memory unusable.
_FAILURES_MAX: Final = 20

Workload = Callable[[Process], Awaitable[None]]


@attrs.define(eq=False)
class _Told:
    """What one agent was told over all its lives."""

    prompts: list[str] = attrs.field(factory=list)
    steered: list[str] = attrs.field(factory=list)
    answers: list[str] = attrs.field(factory=list)
    asked: int = 0
    failures: int = 0

    def next_text(self, kind: str, number: int) -> str:
        """One that nobody has said before."""
        self.asked += 1
        return f"{kind} {number}.{self.asked}"


@final
@attrs.define(eq=False)
class SimulatedAgents:
    """The agents of a world.

    Attributes:
      count: how many there are.
      found: told of each violation, in words.
      cuts: how often the power has failed so far; ``is_alone``: whether no stranger has written into the store.
      lives: how often an agent was begun, over all of them.
    """

    seed: int
    count: int
    durability: Durability
    found: Callable[[str], None]
    cuts: Callable[[], int]
    is_alone: Callable[[], bool]
    lives: int = attrs.field(default=0, init=False)
    _told: dict[int, _Told] = attrs.field(factory=dict, init=False)

    def beside(self, workload: Workload, processes: int) -> Workload:
        """A workload together with the agents of each process, until all of these have their answers."""
        if not self.count:
            return workload

        async def both(process: Process) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(workload, process)
                for number in range(process.number, self.count, processes):
                    nursery.start_soon(self._live, process, number)

        return both

    async def _live(self, process: Process, number: int) -> None:
        told = self._told.setdefault(number, _Told())
        self.lives += 1
        told.failures = 0
        chance = random.Random(hash_of(self.seed, number, process.life, 19))
        while self._goes_on(told):
            try:
                await self._talk(process, number, told, chance)
            except StrataflowError:  # what the faults of the world lead to, at any call
                await self._fail(told)

    def _goes_on(self, told: _Told) -> bool:
        return len(told.answers) < _PROMPTS and (told.failures < _FAILURES_MAX or self.is_alone())

    async def _fail(self, told: _Told) -> None:
        told.failures += 1
        await trio.sleep(_PATIENCE_S)

    async def _talk(self, process: Process, number: int, told: _Told, chance: random.Random) -> None:
        session: Any = await process.open_session(_CWD, f"agent-{number}", "active", tree=True)
        clock = process.unrecorded._world.clock

        def play(model: Model, request: ModelRequest, options: StreamOptions) -> Any:
            turn = _turn(request.messages, number, len(told.answers), chance)
            return scripted_model([turn], clock=clock)(model, request, options)

        async with Agent(session=session, model=_MODEL, stream_fn=play) as agent:
            while self._goes_on(told):
                await trio.sleep(chance.choice(_PAUSES_S))
                if chance.random() < _STEERED_SHARE:
                    text = told.next_text("steered", number)
                    await agent.steer(text)
                    told.steered.append(text)
                text = told.next_text("prompt", number)
                await agent.prompt(text)
                self._look(number, agent.state.messages)
                if agent.state.error is None:
                    told.prompts.append(text)
                    told.answers.append(_text_of(agent.state.messages[-1]))
                else:  # as a program does: open the session anew, whose memory may be another one
                    await self._fail(told)
                    return

    # -- judging ------------------------------------------------------------------------------------------------

    async def judge(self, process: Process) -> None:
        """What is left of all agents, when nothing goes wrong any more."""
        for number, told in sorted(self._told.items()):
            session: Any = await process.open_session(_CWD, f"agent-{number}", None, tree=True)
            response = await self._response(session)
            messages = (await session.tree.build_session_context()).messages
            self._look(number, messages)
            for text in self._misses(told, messages, response):
                self.found(f"agent {number}: {text}")
            # A power cut may bring a queue's file back with what was delivered: an agent sees that it was.
            async with Agent(session=session, model=_MODEL) as agent:
                if agent.has_queued_messages:
                    self.found(f"agent {number}: something still waits to be delivered")  # A4

    async def _response(self, session: Any) -> object:
        try:
            return (await session.read_state("session.response")).value
        except StrataflowError:
            if self.is_alone():
                raise
            return None

    def _look(self, number: int, messages: Sequence[Any]) -> None:
        fault = ill_formed(messages)
        if fault is not None:
            self.found(f"agent {number}: {fault}")  # A1

    def _misses(self, told: _Told, messages: Sequence[Any], response: object) -> Iterator[str]:
        may_lose = self.durability == "process" and self.cuts() > 0
        counts = Counter(map(_text_of, messages))
        for text in (*told.prompts, *told.steered):  # A2
            if counts[text] > 1:
                yield f"{text!r} stands there {counts[text]} times"
            elif not counts[text] and not may_lose:
                yield f"{text!r} is lost"
        if told.answers and response != told.answers[-1] and not may_lose and self.is_alone():
            yield f"its last answer was {told.answers[-1]!r}, and memory has {response!r}"  # A3


def ill_formed(messages: Sequence[Any]) -> str | None:
    """What is wrong with a conversation by A1; None if all is well."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "toolResult":
            if message["toolCallId"] not in waiting:
                return f"a result without a call: {message}"
            waiting.remove(message["toolCallId"])
            continue
        if waiting:
            break
        if message["role"] == "assistant" and message["stopReason"] not in ("error", "aborted"):
            waiting = [block["id"] for block in message["content"] if block["type"] == "toolCall"]
    return f"calls without results: {waiting}" if waiting else None


def _text_of(message: Any) -> str:
    content = json_of(message).get("content", "")
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _turn(messages: Sequence[Any], number: int, done: int, chance: random.Random) -> Mapping[str, Any]:
    """What the model does next: patch and read for a while, fail now and then, answer in the end."""
    rounds = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        rounds += message["role"] == "assistant"
    kinds = ["answer", "patch", "patch", "both", "read", "fail"]
    kind = "answer" if rounds > _ROUNDS_MAX else chance.choice(kinds)
    value = chance.randrange(1000)
    patch = {"cwd": {"working": {f"a{number}": value}}, "session": {"working": {"n": value, "done": done}}}
    patches, reads = _call("patch_state", patch, value), _call("read_state", {"path": "effective.working"}, value)
    match kind:
        case "fail":
            return {"stopReason": "error", "errorMessage": "529 overloaded"}
        case "patch":
            return {"blocks": [patches]}
        case "read":
            return {"blocks": [reads]}
        case "both":
            return {"blocks": [patches, reads]}
    return {"blocks": [{"type": "text", "text": f"answer {number}.{done}.{value}"}]}


def _call(name: str, arguments: Mapping[str, Any], value: int) -> dict[str, Any]:
    return {"type": "toolCall", "id": f"{name} {value}", "name": name, "arguments": arguments}
