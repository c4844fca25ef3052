"""What the agent's loop asks of a model, and what a model client gives: one context manager per call.

A client is any function of the shape of ``StreamFunction``. Leaving the context manager, also by cancellation,
closes the connection; nothing of the call lives on after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NotRequired, Protocol, TypedDict

import attrs

from .messages import AssistantMessage, LlmMessage, ToolCallBlock, ToolDescription

StreamEventType = Literal[
    "start",
    "text_start",
    "text_delta",
    "text_end",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "toolcall_start",
    "toolcall_delta",
    "toolcall_end",
    "done",
    "error",
]
ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


class StreamEvent(TypedDict):
    """One step of an answer.

    ``start`` opens it. ``*_start``, ``*_delta`` and ``*_end`` carry ``contentIndex``; deltas carry ``delta``; ends
    carry ``content`` (text, thinking) or ``toolCall``. All up to here carry ``partial``, the message so far. ``done``
    carries ``reason`` and the final ``message``; ``error`` carries ``reason`` (``error`` or ``aborted``) and the
    message in ``error``. A failed call is an ``error`` event, not an exception.
    """

    type: StreamEventType
    contentIndex: NotRequired[int]
    delta: NotRequired[str]
    content: NotRequired[str]
    toolCall: NotRequired[ToolCallBlock]
    partial: NotRequired[AssistantMessage]
    reason: NotRequired[str]
    message: NotRequired[AssistantMessage]
    error: NotRequired[AssistantMessage]


@attrs.frozen
class Model:
    """A model as the agent knows it. Costs are US dollars per million tokens; sizes are tokens.

    ``efforts``: the levels that a model with named efforts knows; empty for low, medium and high.
    """

    id: str
    provider: str
    api: str  # "openai-completions" | "anthropic-messages" | a user's own
    name: str = ""
    base_url: str = ""
    reasoning: bool = False
    input: tuple[str, ...] = ("text",)
    context_window: int = 0
    max_tokens: int = 0
    cost: Mapping[str, float] = attrs.field(factory=dict)  # input, output, cacheRead, cacheWrite
    efforts: tuple[str, ...] = ()


@attrs.frozen
class ModelRequest:
    """What a model is asked: only messages that models know (user, assistant, toolResult)."""

    system_prompt: str
    messages: list[LlmMessage]
    tools: list[ToolDescription]


@attrs.frozen
class StreamOptions:
    """How a model is asked. ``reasoning`` is None for off; ``None`` everywhere means: the client's default."""

    reasoning: ThinkingLevel | None = None
    api_key: str | None = attrs.field(default=None, repr=False)
    thinking_budgets: Mapping[str, int] | None = None
    session_id: str | None = None
    transport: str | None = None
    max_retry_delay_s: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


class StreamFunction(Protocol):
    """Ask a model. Iterating gives the events of its answer; the last is ``done`` or ``error``."""

    def __call__(
        self, model: Model, request: ModelRequest, options: StreamOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]: ...
