"""A memory's part in one run of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast, final

import attrs

from ....store import StoreError
from ....store.projection import Verdict
from ...run import Run
from ..host import NoHostRun
from ..messages import AgentMessage, AssistantMessage, json_of
from ..signals import AbortSignal
from ..tools import Block, ResultChange, ToolCallContext
from .judging import repaired
from .rules import ReadPath


@final
@attrs.define(eq=False)
class MemoryRun(NoHostRun):
    """``memory`` is the session's run, which may outlast this one. ``signal``: of the agent's. ``report``: told of an
    answer that was repaired; ``accepted``: that the memory has its answer. ``read_path``: what a call reads."""

    memory: Run
    signal: AbortSignal
    report: Callable[[int], Awaitable[None]]
    accepted: Callable[[], None]
    read_path: ReadPath
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
        if verdict is not None and verdict.block:
            return Block(verdict.reason)
        await self._note_read(context)
        return None

    async def after_tool_call(self, context: ToolCallContext) -> ResultChange | None:
        """What was read counts. What memory has to say of it, such as of a Skill, is one more block."""
        note = None if context.is_error else await self._note_read(context)
        if note is None or context.result is None:
            return None
        return {"content": [*context.result["content"], {"type": "text", "text": note}]}

    async def _note_read(self, context: ToolCallContext) -> str | None:
        """Tell memory of a call that reads a file, if it is one."""
        path = self.read_path(context)
        if path is None:
            return None
        # A memory that has gone on to something else counts no reads; the tool has nothing to do with that.
        with suppress(StoreError):
            return await self.memory.note_read(path, context.call["id"])
        return None

    async def accept_answer(self, answer: AssistantMessage) -> None:
        """The answer is memory now, if it is one."""
        await self.memory.settle(answer)
        self.accepted()
