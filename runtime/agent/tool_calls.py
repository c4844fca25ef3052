"""Carrying out tool calls: preparing them one after the other, running them at the same time."""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import attrs
import trio

from .arguments import checked, refusal
from .events import ToolResult
from .host import HostRun
from .messages import AgentMessage, AssistantMessage, ToolCallBlock
from .options import RunOptions, settled, text_of
from .signals import AbortSignal
from .step_types import Effect, Executed, Prepared, Updated, error_result
from .tools import Tool, ToolCallContext, changed, whole_result

BLOCKED = "Tool execution was blocked"
Heard: TypeAlias = tuple[Updated | Executed, trio.Event | None]
Hear: TypeAlias = Callable[[Updated | Executed, bool], Awaitable[Sequence[Effect]]]


@attrs.define(eq=False)
class ToolCalls:
    """The calls of one answer."""

    options: RunOptions
    host: HostRun
    signal: AbortSignal
    answer: AssistantMessage
    blocks: Sequence[ToolCallBlock]
    context: Sequence[AgentMessage]
    now_ms: Callable[[], int]
    _prepared: dict[int, tuple[Tool, Any]] = attrs.field(factory=dict, init=False)

    async def prepare(self, index: int) -> Prepared:
        """Look up, check, ask the barrier and the hook. Whatever is raised becomes the call's result."""
        try:
            refusal = await self._refusal(index)
        except Exception as error:
            refusal = text_of(error)
        return Prepared(index, self.now_ms(), None if refusal is None else error_result(refusal))

    async def _refusal(self, index: int) -> str | None:
        block = self.blocks[index]
        tool = self.options.tools.get(block["name"])
        if tool is None:
            return f"Tool {block['name']} not found"
        if "invalidArguments" in block:
            raise refusal(tool.name, ["arguments: no JSON object"], block["invalidArguments"])
        # Its own: what tools and hooks do to it must not change the answer, which is recorded as it was given.
        arguments: Any = copy.deepcopy(block["arguments"])
        if tool.prepare_arguments is not None:
            arguments = tool.prepare_arguments(arguments)
        if tool.is_checked:
            arguments = checked(tool.name, tool.parameters, arguments)
        context = ToolCallContext(self.answer, block, arguments, self.context, self.signal)
        verdict = await self.host.before_tool_call(context)
        if verdict is None and self.options.before_tool_call is not None:
            verdict = await settled(self.options.before_tool_call(context))
        if verdict is not None:
            return verdict.reason or BLOCKED
        self._prepared[index] = (tool, arguments)
        return None

    async def execute(self, indices: Sequence[int], hear: Hear) -> Sequence[Effect]:
        """Run tools at the same time. ``hear`` is awaited for whatever they say, one at a time; what it gives for the
        last is returned. Those that say something in the same moment are heard in the order of the calls.
        """
        send, receive = trio.open_memory_channel[Heard](math.inf)
        left, follows, failure = len(indices), list[Effect](), None
        async with trio.open_nursery() as nursery:
            for index in indices:
                nursery.start_soon(self._run, index, send)
            try:
                while left:
                    for heard, is_heard in await _all_at_once(receive):
                        left -= isinstance(heard, Executed)
                        follows = [*await hear(heard, left == 0)]
                        if is_heard is not None:
                            is_heard.set()
            except Exception as error:
                # Raised below, outside of the nursery, which would wrap it into a group.
                failure = error
                nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return follows

    async def _run(self, index: int, send: trio.MemorySendChannel[Heard]) -> None:
        block, (tool, arguments) = self.blocks[index], self._prepared[index]
        is_running = True

        async def on_update(partial: ToolResult) -> None:
            if is_running:
                is_heard = trio.Event()
                send.send_nowait((Updated(index, partial), is_heard))
                await is_heard.wait()

        try:
            given = await tool.execute(block["id"], arguments, self.signal, on_update)
            result, is_error = whole_result(given), False
        except Exception as error:
            result, is_error = error_result(text_of(error)), True
        is_running = False
        for hook in (self.host.after_tool_call, self.options.after_tool_call):
            if hook is None:
                continue
            context = ToolCallContext(self.answer, block, arguments, self.context, self.signal, result, is_error)
            try:
                result, is_error = changed(result, is_error, await settled(hook(context)))
            except Exception as error:
                result, is_error = error_result(text_of(error)), True
        send.send_nowait((Executed(index, result, is_error, self.now_ms()), None))


async def _all_at_once(receive: trio.MemoryReceiveChannel[Heard]) -> list[Heard]:
    found = [await receive.receive()]
    while True:
        try:
            found.append(receive.receive_nowait())
        except trio.WouldBlock:
            return sorted(found, key=lambda heard: heard[0].index)
