"""What listeners of an agent are told. Plain dicts in the spelling of Pi, so that a log of them reads the same."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from .messages import AgentMessage, AssistantMessage, ImageBlock, TextBlock, ToolResultMessage
from .model_stream import StreamEvent


class ToolResult(TypedDict):
    """What a tool gives. ``terminate`` on every result of an answer ends the run without another model call."""

    content: list[TextBlock | ImageBlock]
    details: NotRequired[Any]
    terminate: NotRequired[bool]


class AgentStart(TypedDict):
    """A run begins."""

    type: Literal["agent_start"]


class TurnStart(TypedDict):
    """A turn begins: messages that waited, one answer, its tools."""

    type: Literal["turn_start"]


class MessageStart(TypedDict):
    """A message of any role comes in. It is not part of the transcript yet."""

    type: Literal["message_start"]
    message: AgentMessage


class MessageUpdate(TypedDict):
    """An answer has grown. ``message`` is the answer so far."""

    type: Literal["message_update"]
    message: AgentMessage
    assistantMessageEvent: StreamEvent


class MessageEnd(TypedDict):
    """A message is whole, and now the last one of the transcript."""

    type: Literal["message_end"]
    message: AgentMessage


class ToolExecutionStart(TypedDict):
    """A tool call begins. ``args`` are as the model gave them."""

    type: Literal["tool_execution_start"]
    toolCallId: str
    toolName: str
    args: Any


class ToolExecutionUpdate(TypedDict):
    """A tool says how far it is."""

    type: Literal["tool_execution_update"]
    toolCallId: str
    toolName: str
    args: Any
    partialResult: ToolResult


class ToolExecutionEnd(TypedDict):
    """A tool call has ended."""

    type: Literal["tool_execution_end"]
    toolCallId: str
    toolName: str
    result: ToolResult
    isError: bool


class TurnEnd(TypedDict):
    """A turn has ended. ``toolResults`` are in the order of the calls."""

    type: Literal["turn_end"]
    message: AssistantMessage
    toolResults: list[ToolResultMessage]


class AgentEnd(TypedDict):
    """A run has ended. ``messages`` are those that came with it, prompts included."""

    type: Literal["agent_end"]
    messages: list[AgentMessage]


AgentEvent: TypeAlias = (
    AgentStart
    | TurnStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | TurnEnd
    | AgentEnd
)
