"""What a run works on: a snapshot, taken when it begins. Queues, their modes and listeners are read live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs

from .host import AgentHost
from .messages import AgentMessage, AssistantMessage, LlmMessage, ToolResultMessage, no_usage
from .model_stream import Model, StreamFunction, StreamOptions, ThinkingLevel
from .signals import AbortSignal
from .step_types import SteeringPolicy
from .tools import AfterToolCall, BeforeToolCall, ExecutionMode, Tool

T = TypeVar("T")
TransformContext: TypeAlias = Callable[
    [list[AgentMessage], AbortSignal], "Awaitable[Sequence[AgentMessage]] | Sequence[AgentMessage]"
]
ConvertToLlm: TypeAlias = Callable[[Sequence[AgentMessage]], "Awaitable[list[LlmMessage]] | list[LlmMessage]"]
GetApiKey: TypeAlias = Callable[[str], "Awaitable[str | None] | str | None"]
ShouldStop: TypeAlias = Callable[[AssistantMessage, Sequence[ToolResultMessage]], "Awaitable[bool] | bool"]


async def settled(value: Awaitable[T] | T) -> T:
    """What a hook gave, whether it is a coroutine function or not."""
    return await value if isinstance(value, Awaitable) else value


def text_of(error: BaseException) -> str:
    """What a person reads of an exception: its text; of a group, those of all that are in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(map(text_of, error.exceptions)))
    return str(error) or type(error).__name__


@attrs.frozen
class RunOptions:
    """Everything of an agent that a run does not read live."""

    model: Model
    system_prompt: str
    thinking_level: ThinkingLevel
    tools: Mapping[str, Tool]
    stream_fn: StreamFunction | None
    convert_to_llm: ConvertToLlm
    transform_context: TransformContext | None
    get_api_key: GetApiKey | None
    api_key: str | None = attrs.field(repr=False)
    steering_policy: SteeringPolicy
    tool_execution: ExecutionMode
    before_tool_call: BeforeToolCall | None
    after_tool_call: AfterToolCall | None
    should_stop_after_turn: ShouldStop | None
    session_id: str | None
    thinking_budgets: Mapping[str, int] | None
    transport: str | None
    max_retry_delay_s: float | None
    host: AgentHost

    def stream_options(self, api_key: str | None) -> StreamOptions:
        """How the model is asked."""
        return StreamOptions(
            reasoning=None if self.thinking_level == "off" else self.thinking_level,
            api_key=api_key,
            thinking_budgets=self.thinking_budgets,
            session_id=self.session_id,
            transport=self.transport,
            max_retry_delay_s=self.max_retry_delay_s,
        )

    def message(self, reason: str, text: str, content: list[Any], at_ms: int) -> AssistantMessage:
        """What stands in the transcript for an answer that never came."""
        return {
            "role": "assistant",
            "content": content,
            "api": self.model.api,
            "provider": self.model.provider,
            "model": self.model.id,
            "usage": no_usage(),
            "stopReason": reason,  # type: ignore[typeddict-item]
            "errorMessage": text,
            "timestamp": at_ms,
        }
