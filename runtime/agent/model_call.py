"""One call of the model: hooks in their order, then the stream.

Each event is told before the next one is read, so a slow listener slows the stream. An abortion ends the reading, by
cancelling the scope around the stream, but not while a listener is at work: what others do is never cut short.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any

import attrs
import trio

from .host import HostRun
from .messages import AgentMessage, AssistantMessage, tool_calls
from .model_stream import ModelRequest, StreamEvent, StreamOptions
from .options import RunOptions, settled
from .signals import AbortSignal

ABORTED = "Request was aborted"
OnEvent = Callable[[StreamEvent], Awaitable[None]]


async def ask_model(
    options: RunOptions,
    host: HostRun,
    signal: AbortSignal,
    context: Sequence[AgentMessage],
    on_event: OnEvent,
    now_ms: Callable[[], int],
) -> AssistantMessage:
    """Ask for the next answer; ``on_event`` is awaited for each event before the last one. Raises what hooks raise."""
    await trio.lowlevel.checkpoint()  # whatever hooks and models do, the loop turns once a turn
    messages: Sequence[AgentMessage] = list(context)
    if options.transform_context is not None:
        messages = await settled(options.transform_context(list(messages), signal))
    system_prompt, messages = await host.before_model_call(options.system_prompt, messages)
    converted = await settled(options.convert_to_llm(messages))
    key = None
    if options.get_api_key is not None:
        key = await settled(options.get_api_key(options.model.provider))
    tools = [tool.described() for tool in options.tools.values()]
    request = ModelRequest(system_prompt, list(converted), tools)
    call = _Call(options, request, options.stream_options(key or options.api_key), signal)
    answer = await call.listen(on_event)
    if answer is None:
        if call.last is None:
            answer = options.message("aborted", ABORTED, [], now_ms())
        else:
            answer = {**call.last, "stopReason": "aborted", "errorMessage": ABORTED}
    return await host.receive_answer(_with_distinct_calls(answer))


@attrs.define(eq=False)
class _Call:
    options: RunOptions
    request: ModelRequest
    stream_options: StreamOptions
    signal: AbortSignal
    last: AssistantMessage | None = None

    async def listen(self, on_event: OnEvent) -> AssistantMessage | None:
        """The answer, or None if it was aborted."""
        stream_fn, model = self.options.stream_fn, self.options.model
        if stream_fn is None:
            raise RuntimeError(f"nobody asks models of {model.provider}: give a stream_fn")
        final: AssistantMessage | None = None
        failure: Exception | None = None
        with self.signal._cancelling() as scope:
            # A generator of a user's is closed here, and not when the collector finds it.
            async with stream_fn(model, self.request, self.stream_options) as events, _closing(events):
                async for event in events:
                    if event["type"] in ("done", "error"):
                        final = event["message"] if event["type"] == "done" else event["error"]
                        break
                    if self.signal.is_set:
                        break
                    self.last = event.get("partial", self.last)
                    self.signal._spare(scope)
                    try:
                        await on_event(event)
                    except Exception as error:
                        failure = error  # raised below: it is none of the client's business
                        break
                    finally:
                        self.signal._claim(scope)
        if failure is not None:
            raise failure
        if final is None and not self.signal.is_set:
            if self.last is None:
                raise RuntimeError("the model's stream ended without an answer")
            return self.last
        return final


def _closing(events: AsyncIterator[StreamEvent]) -> AbstractAsyncContextManager[Any]:
    return aclosing(events) if isinstance(events, AsyncGenerator) else nullcontext()


def _with_distinct_calls(answer: AssistantMessage) -> AssistantMessage:
    """The answer with an id of its own for each tool call: results are found by it, and no provider takes one twice."""
    ids = [block["id"] for block in tool_calls(answer)]
    if len(set(ids)) == len(ids):
        return answer
    taken, seen, content = set(ids), set[str](), list(answer["content"])
    for index, block in enumerate(content):
        if block["type"] != "toolCall":
            continue
        if block["id"] in seen:
            new = next(name for n in itertools.count(2) if (name := f"{block['id']}_{n}") not in taken)
            taken.add(new)
            content[index] = {**block, "id": new}
        seen.add(block["id"])
    return {**answer, "content": content}
