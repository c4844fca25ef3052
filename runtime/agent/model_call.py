"""One call of the model: hooks in their order, then the stream, read by a task of its own.

The reader hands over one event at a time, so a slow listener slows the stream. An abortion ends the reader alone: what
listeners and hooks do is never cut short by it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any

import attrs
import trio

from .host import HostRun
from .messages import AgentMessage, AssistantMessage
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
    return await host.receive_answer(answer)


@attrs.define(eq=False)
class _Call:
    options: RunOptions
    request: ModelRequest
    stream_options: StreamOptions
    signal: AbortSignal
    last: AssistantMessage | None = None
    failure: Exception | None = None

    async def listen(self, on_event: OnEvent) -> AssistantMessage | None:
        """The answer, or None if it was aborted."""
        send, receive = trio.open_memory_channel[StreamEvent](0)
        final: AssistantMessage | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, send)
            try:
                async with receive:
                    async for event in receive:
                        if event["type"] in ("done", "error"):
                            final = event["message"] if event["type"] == "done" else event["error"]
                        elif self.signal.is_set:
                            break
                        else:
                            self.last = event.get("partial", self.last)
                            await on_event(event)
            except Exception as error:
                # Raised below, outside of the nursery, which would wrap it into a group.
                self.failure = error
                nursery.cancel_scope.cancel()
        if self.failure is not None:
            raise self.failure
        if final is None and not self.signal.is_set:
            if self.last is None:
                raise RuntimeError("the model's stream ended without an answer")
            return self.last
        return final

    async def _read(self, send: trio.MemorySendChannel[StreamEvent]) -> None:
        stream_fn = self.options.stream_fn
        try:
            async with send:
                with self.signal._cancelling():
                    if stream_fn is None:
                        raise RuntimeError(f"nobody asks models of {self.options.model.provider}: give a stream_fn")
                    call = stream_fn(self.options.model, self.request, self.stream_options)
                    # A generator of a user's ends here, and not when the collector finds it.
                    async with call as events, _closing(events):
                        async for event in events:
                            await send.send(event)
                            if event["type"] in ("done", "error"):
                                break
        except trio.BrokenResourceError:
            return  # the listener has heard enough: the run was aborted, or a listener failed
        except Exception as error:
            self.failure = self.failure or error


def _closing(events: AsyncIterator[StreamEvent]) -> AbstractAsyncContextManager[Any]:
    return aclosing(events) if isinstance(events, AsyncGenerator) else nullcontext()
