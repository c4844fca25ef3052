"""Tools of an agent, and what hooks around them get and give."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

import attrs

from ...store import shown
from ...store.trace import line_of
from .events import AgentEvent, ToolResult
from .messages import AgentMessage, AssistantMessage, ImageBlock, TextBlock, ToolCallBlock, ToolDescription
from .signals import AbortSignal

# The strings that a block of a result has, by its type.
_MEMBERS: Mapping[Any, Sequence[str]] = {"text": ("text",), "image": ("data", "mimeType")}

OnUpdate: TypeAlias = Callable[[ToolResult], Awaitable[None]]
Execute: TypeAlias = Callable[[str, Any, AbortSignal, OnUpdate], Awaitable["ToolResult | str"]]
ExecutionMode: TypeAlias = Literal["parallel", "sequential"]
Listener: TypeAlias = Callable[[AgentEvent, AbortSignal], Awaitable[None] | None]


@attrs.frozen
class Tool:
    """Something a model may call.

    Attributes:
      name: how the model calls it.
      description: what the model is told of it.
      parameters: JSON schema of its arguments. Arguments are checked against it, after a mild conversion.
      execute: ``async (call_id, arguments, signal, on_update)``. Gives a ``ToolResult``, or a string for a result of
        one text. Failing is raising: the text of the exception becomes the result. ``await on_update(partial)`` tells
        listeners how far it is.
      label: what a screen shows; the name if empty.
      execution_mode: ``"sequential"`` makes all calls of an answer in which it is called run one after the other.
      prepare_arguments: changes what the model gave before it is checked, such as a field that was renamed.
      is_checked: False: the tool gets what the model gave, neither converted nor checked.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    execute: Execute
    label: str = ""
    execution_mode: ExecutionMode = "parallel"
    prepare_arguments: Callable[[Any], Any] | None = None
    is_checked: bool = True

    def described(self) -> ToolDescription:
        """The tool as a model is told of it."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}


@attrs.frozen
class ToolCallContext:
    """What a hook is told of a call.

    Attributes:
      answer: the message with the call.
      call: the call as the model gave it.
      arguments: as they were checked; a hook may change them in place.
      messages: the run's context up to the answer, which is the last. Not to be changed.
      signal: the run's.
      result, is_error: for the hook after the call.
    """

    answer: AssistantMessage
    call: ToolCallBlock
    arguments: Any
    messages: Sequence[AgentMessage]
    signal: AbortSignal
    result: ToolResult | None = None
    is_error: bool = False


@attrs.frozen
class Block:
    """A call shall not run. The model reads the reason."""

    reason: str | None = None


class ResultChange(TypedDict):
    """What a hook puts in place of a result: each member as a whole. What is left out stays."""

    content: NotRequired[list[TextBlock | ImageBlock]]
    details: NotRequired[Any]
    isError: NotRequired[bool]
    terminate: NotRequired[bool]


BeforeToolCall: TypeAlias = Callable[[ToolCallContext], "Awaitable[Block | None] | Block | None"]
AfterToolCall: TypeAlias = Callable[[ToolCallContext], "Awaitable[ResultChange | None] | ResultChange | None"]


def changed(result: ToolResult, is_error: bool, change: ResultChange | None) -> tuple[ToolResult, bool]:
    """A result after a hook has had its say. Raises as ``whole_result``."""
    if not change:
        return result, is_error
    new: Any = dict(result) | {name: value for name, value in change.items() if name != "isError"}
    return whole_result(new), change.get("isError", is_error)


def whole_result(result: ToolResult | str) -> ToolResult:
    """What a tool gave, in its long form.

    Raises TypeError for anything else, CallError E_JSON for what no session can keep. Nothing that is no message may
    come into a transcript: it would spoil every later request, and every later line of the session.
    """
    if isinstance(result, str):
        return {"content": [{"type": "text", "text": result}]}
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        raise TypeError(f"a tool gives a string or a dict with a list 'content', not {type(result).__name__}")
    for number, block in enumerate(result["content"]):
        members = _MEMBERS.get(block.get("type"), ()) if isinstance(block, dict) else ()
        if not members or not all(isinstance(block.get(name), str) for name in members):
            raise TypeError(f"block {number} of a tool's content is neither a text nor an image: {shown(block)}")
    line_of(dict(result))
    return result
