"""The messages of an agent: plain dicts in the spelling of session files, so that what runs is what is stored.

Sources: session file version 3 of Pi (content blocks, roles, usage). Unknown members are kept wherever a message passes
through; only the members below are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict, cast

from ...store import shown


class TextBlock(TypedDict):
    """A piece of text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """What a model thought before it answered. ``thinkingSignature`` is the provider's seal; it goes back unchanged.

    ``redacted``: the provider shows nothing of the thought; the seal is all there is of it.
    """

    type: Literal["thinking"]
    thinking: str
    thinkingSignature: NotRequired[str]
    redacted: NotRequired[bool]


class ImageBlock(TypedDict):
    """An image: ``data`` is base64."""

    type: Literal["image"]
    data: str
    mimeType: str


class ToolCallBlock(TypedDict):
    """A model's wish to call a tool.

    ``invalidArguments``: what the model wrote, where it is no JSON object; ``arguments`` is then empty, and the call
    must get an error as its result instead of being run.
    """

    type: Literal["toolCall"]
    id: str
    name: str
    arguments: dict[str, Any]
    invalidArguments: NotRequired[str]


class Cost(TypedDict):
    """Cost of one answer, in US dollars."""

    input: float
    output: float
    cacheRead: float
    cacheWrite: float
    total: float


class Usage(TypedDict):
    """Tokens of one answer."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: Cost


StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]
UserContent: TypeAlias = "str | list[TextBlock | ImageBlock]"


class UserMessage(TypedDict):
    """What a user said. Times are milliseconds since 1970."""

    role: Literal["user"]
    content: UserContent
    timestamp: int


class AssistantMessage(TypedDict):
    """An answer of a model, whole or as far as it came."""

    role: Literal["assistant"]
    content: list[TextBlock | ThinkingBlock | ToolCallBlock]
    api: str
    provider: str
    model: str
    usage: Usage
    stopReason: StopReason
    errorMessage: NotRequired[str]
    responseId: NotRequired[str]
    responseModel: NotRequired[str]
    timestamp: int


class ToolResultMessage(TypedDict):
    """What a tool call gave. Every tool call in a transcript has exactly one."""

    role: Literal["toolResult"]
    toolCallId: str
    toolName: str
    content: list[TextBlock | ImageBlock]
    details: NotRequired[Any]
    isError: bool
    timestamp: int


LlmMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


class ToolDescription(TypedDict):
    """What a model is told of a tool: ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class CustomMessage(Protocol):
    """A message of the user's own kind: any object with a role and a time that can say itself as JSON."""

    @property
    def role(self) -> str: ...

    @property
    def timestamp(self) -> int: ...

    def to_json(self) -> dict[str, Any]:
        """The message as it stands in a session file: a dict with ``role`` and ``timestamp``."""
        ...


class CustomRoleMessage(TypedDict):
    """A message of an application: models see it as a user's, screens may hide it (``display``)."""

    role: Literal["custom"]
    customType: str
    content: UserContent
    display: bool
    details: NotRequired[Any]
    timestamp: int


class BashExecutionMessage(TypedDict):
    """A command that the user ran beside the agent."""

    role: Literal["bashExecution"]
    command: str
    output: str
    exitCode: NotRequired[int]
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str]
    excludeFromContext: NotRequired[bool]
    timestamp: int


class BranchSummaryMessage(TypedDict):
    """What was tried on a branch that was left."""

    role: Literal["branchSummary"]
    summary: str
    fromId: str
    timestamp: int


class CompactionSummaryMessage(TypedDict):
    """What stands for the messages that a compaction took out of the context."""

    role: Literal["compactionSummary"]
    summary: str
    tokensBefore: int
    timestamp: int


ApplicationMessage: TypeAlias = (
    CustomRoleMessage | BashExecutionMessage | BranchSummaryMessage | CompactionSummaryMessage
)
AgentMessage: TypeAlias = LlmMessage | ApplicationMessage | CustomMessage

_LLM_ROLES = ("user", "assistant", "toolResult")


def json_of(message: AgentMessage) -> Mapping[str, Any]:
    """The message as it stands in a session file. Not a copy where it is a dict already."""
    # Nearly all are dicts, and asking for a Mapping first would cost ten times as much.
    if isinstance(message, (dict, Mapping)):
        return message
    return message.to_json()


def role_of(message: AgentMessage) -> str:
    """The role of any message."""
    if isinstance(message, (dict, Mapping)):
        return cast(str, message.get("role", ""))
    return message.role


def only_llm(messages: Sequence[AgentMessage]) -> list[LlmMessage]:
    """The default conversion: what models know is kept, all else is dropped."""
    found = []
    for message in messages:
        # Of every message of every request, so it is worth not to ask two functions.
        role = message.get("role") if type(message) is dict else role_of(message)
        if role in _LLM_ROLES:
            found.append(cast(LlmMessage, json_of(message)))
    return found


def messages_of(
    given: str | AgentMessage | Sequence[AgentMessage], images: Sequence[ImageBlock], now_ms: int
) -> list[AgentMessage]:
    """A prompt in its long form: text becomes a user message, with the images behind it.

    Raises TypeError for what is no message: in a transcript it would make every later run fail.
    """
    if isinstance(given, str):
        content: list[TextBlock | ImageBlock] = [{"type": "text", "text": given}, *images]
        return [UserMessage(role="user", content=content, timestamp=now_ms)]
    found = [*given] if isinstance(given, (list, tuple)) else [cast(AgentMessage, given)]
    for message in found:
        if not _is_message(message):
            text = "a message is a dict with a role, or an object with role and to_json()"
            raise TypeError(f"{text}: not {shown(message)}")
    return found


def _is_message(given: object) -> bool:
    if isinstance(given, Mapping):
        return isinstance(given.get("role"), str)
    return isinstance(getattr(given, "role", None), str) and callable(getattr(given, "to_json", None))


def no_usage() -> Usage:
    """The usage of an answer that cost nothing."""
    cost = Cost(input=0, output=0, cacheRead=0, cacheWrite=0, total=0)
    return Usage(input=0, output=0, cacheRead=0, cacheWrite=0, totalTokens=0, cost=cost)


def counted(usage: Mapping[str, Any], name: str) -> float:
    """A member of a usage; 0 where whoever wrote it has put no number."""
    value = usage.get(name)
    return value if isinstance(value, int | float) else 0


def tool_calls(message: AssistantMessage) -> list[ToolCallBlock]:
    """The tool calls of an answer, in its order."""
    return [block for block in message["content"] if block["type"] == "toolCall"]
