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


class QueueUpdate(TypedDict):
    """The queues have changed: texts of what still waits. Only of an agent with a session, like all events below."""

    type: Literal["queue_update"]
    steering: list[str]
    followUp: list[str]


class SessionResumed(TypedDict):
    """The conversation of the session was taken up. ``problem``: why its model could not be."""

    type: Literal["session_resumed"]
    messages: int
    problem: NotRequired[str]


class SessionInfoChanged(TypedDict):
    """The session has another name."""

    type: Literal["session_info_changed"]
    name: str


class ThinkingLevelChanged(TypedDict):
    """Another thinking level was recorded."""

    type: Literal["thinking_level_changed"]
    level: str


class AutoRetryStart(TypedDict):
    """An answer failed, and is asked for again after ``delayMs``."""

    type: Literal["auto_retry_start"]
    attempt: int
    maxAttempts: int
    delayMs: int
    errorMessage: str


class AutoRetryEnd(TypedDict):
    """An answer came at last, or nobody asks any more."""

    type: Literal["auto_retry_end"]
    success: bool
    attempt: int
    finalError: NotRequired[str]


class CompactionStart(TypedDict):
    """The session is being compacted; ``answered``: what memory holds now is taken out, without a model."""

    type: Literal["compaction_start"]
    reason: Literal["manual", "threshold", "overflow", "answered"]


class CompactionEnd(TypedDict):
    """It was, with this ``result``, or was not. ``willRetry``: the run goes on now."""

    type: Literal["compaction_end"]
    reason: Literal["manual", "threshold", "overflow", "answered"]
    result: NotRequired[dict[str, Any]]
    aborted: bool
    willRetry: bool
    errorMessage: NotRequired[str]


class AnswerRepaired(TypedDict):
    """An answer had lone surrogates, which no text may have; so many were replaced."""

    type: Literal["answer_repaired"]
    count: int


AgentEvent: TypeAlias = (
    QueueUpdate
    | SessionResumed
    | SessionInfoChanged
    | ThinkingLevelChanged
    | AutoRetryStart
    | AutoRetryEnd
    | CompactionStart
    | CompactionEnd
    | AnswerRepaired
    | AgentStart
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
