"""A memory's part in one run of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast, final

import attrs

from ....store.projection import Verdict
from ...run import Run
from ..host import NoHostRun
from ..messages import AgentMessage, AssistantMessage, json_of
from ..signals import AbortSignal
from ..tools import Block, ToolCallContext
from .judging import repaired


@final
@attrs.define(eq=False)
class MemoryRun(NoHostRun):
    """``memory`` is the session's run, which may outlast this one. ``signal``: of the agent's. ``report``: told of an
    answer that was repaired; ``accepted``: that the memory has its answer."""

    memory: Run
    signal: AbortSignal
    report: Callable[[int], Awaitable[None]]
    accepted: Callable[[], None]
    _judged: AssistantMessage | None = attrs.field(default=None, init=False)
    _verdicts: Mapping[str, Verdict] = attrs.field(factory=dict, init=False)

    async def before_model_call(
        self, system_prompt: str, messages: Sequence[AgentMessage]
    ) -> tuple[str, Sequence[AgentMessage]]:
        """The memory in front; its rules in the system prompt."""
        own = {"role": "system", "content": system_prompt}
        given = [dict(whole) if type(whole := json_of(message)) is not dict else whole for message in messages]
        # What comes back as it was given is the user's own object again, of whatever type.
        whose = {id(whole): message for whole, message in zip(given, messages, strict=True)}
        projected = await self.memory.project(
            [own, *(whole if type(whole) is dict else dict(whole) for whole in given)]
        )
        systems = [message["content"] for message in projected if message.get("role") == "system"]
        others = [message for message in projected if message.get("role") != "system"]
        return "".join(systems), [whose.get(id(message), cast(AgentMessage, message)) for message in others]

    async def receive_answer(self, answer: AssistantMessage) -> AssistantMessage:
        """Without lone surrogates."""
        found, count = repaired(answer)
        if count:
            await self.report(count)
        return found

    async def before_tool_call(self, context: ToolCallContext) -> Block | None:
        """The barrier: what may run beside a patch (L15)."""
        if self._judged is not context.answer:
            self._judged = context.answer
            self._verdicts = {verdict.id: verdict for verdict in self.memory.preflight(context.answer)}
        verdict = self._verdicts.get(context.call["id"])
        return Block(verdict.reason) if verdict is not None and verdict.block else None

    async def accept_answer(self, answer: AssistantMessage) -> None:
        """The answer is memory now, if it is one."""
        await self.memory.settle(answer)
        self.accepted()
