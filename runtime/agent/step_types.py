"""The words of the loop's decision: what it holds, what it hears, what it asks for. Data only; ``step`` says how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs

from .events import AgentEvent, ToolResult
from .messages import AgentMessage, AssistantMessage, ToolCallBlock, ToolResultMessage
from .model_stream import StreamEvent

SteeringPolicy: TypeAlias = Literal["finish", "skip"]
Lane: TypeAlias = Literal["steering", "follow_up"]
Phase: TypeAlias = Literal["new", "opening", "answering", "tools", "asked", "stopping", "steered", "idling", "done"]
Stage: TypeAlias = Literal["waiting", "preparing", "ready", "running", "ended"]


@attrs.frozen
class Item:
    """A message on its way into the transcript. ``queue_id`` is set if it waits in a queue until it is there."""

    message: AgentMessage
    queue_id: str | None = None


@attrs.frozen
class Rules:
    """What holds for a whole run."""

    steering_policy: SteeringPolicy = "finish"
    has_stop_hook: bool = False
    # Names of tools of which one in an answer makes all of its calls run one after the other; None: always so.
    sequential: frozenset[str] | None = frozenset()


@attrs.frozen
class Call:
    """One tool call of the present answer."""

    block: ToolCallBlock
    stage: Stage = "waiting"
    result: ToolResult | None = None
    is_error: bool = False
    # The result as it was put into the transcript.
    message: ToolResultMessage | None = None


@attrs.frozen
class RunState:
    """Where a run is. A new one begins with ``RunState(rules)``."""

    rules: Rules = Rules()
    phase: Phase = "new"
    has_turned: bool = False
    is_open: bool = False
    answer: AssistantMessage | None = None
    calls: tuple[Call, ...] = ()
    is_one_by_one: bool = False
    # Steering that was found between tool calls; it comes after the turn.
    taken: tuple[Item, ...] = ()
    # What the run has brought, oldest first.
    new: tuple[AgentMessage, ...] = ()


# -- what the loop hears ----------------------------------------------------------------------------------------------


@attrs.frozen
class Begin:
    """A run begins with these messages. ``polls`` is False if they came out of the steering queue.

    ``unanswered`` are tool calls in the transcript without a result: a program died while they ran.
    """

    prompts: Sequence[Item] = ()
    polls: bool = True
    unanswered: Sequence[ToolCallBlock] = ()
    at_ms: int = 0


@attrs.frozen
class Polled:
    """What a queue gave."""

    items: Sequence[Item]
    at_ms: int


@attrs.frozen
class Streamed:
    """An answer has begun or grown."""

    event: StreamEvent


@attrs.frozen
class Answered:
    """An answer is complete, or as complete as it will be."""

    message: AssistantMessage


@attrs.frozen
class Prepared:
    """A call was looked up, checked and allowed, or has its result already: an error."""

    index: int
    at_ms: int
    refusal: ToolResult | None = None


@attrs.frozen
class Updated:
    """A tool said how far it is."""

    index: int
    partial: ToolResult


@attrs.frozen
class Executed:
    """A tool has ended."""

    index: int
    result: ToolResult
    is_error: bool
    at_ms: int


@attrs.frozen
class StopAsked:
    """Whether the program wants the run to end after this turn."""

    stops: bool


@attrs.frozen
class Broken:
    """The run can not go on.

    Attributes:
      text: why.
      failure: the message that says so to whoever reads the transcript.
      unanswered: ids of tool calls in the transcript that have no result yet.
      tells: False if no listener may be called any more, since the run is being cancelled.
    """

    text: str
    failure: AssistantMessage
    unanswered: Sequence[ToolCallBlock]
    at_ms: int
    tells: bool


Input: TypeAlias = Begin | Polled | Streamed | Answered | Prepared | Updated | Executed | StopAsked | Broken

# -- what the loop asks for -------------------------------------------------------------------------------------------


@attrs.frozen
class Tell:
    """Bring the state up to date, record what ends, then tell the listeners, one after the other."""

    event: AgentEvent
    queue_id: str | None = None


@attrs.frozen
class Keep:
    """Put a message into the transcript without telling anybody."""

    message: AgentMessage


@attrs.frozen
class Poll:
    """Look into a queue. Answered by ``Polled``."""

    lane: Lane


@attrs.frozen
class CallModel:
    """Ask the model. Answered by ``Streamed``, any number of times, and ``Answered``."""


@attrs.frozen
class Prepare:
    """Look up, check and allow one call. Answered by ``Prepared``."""

    index: int


@attrs.frozen
class Execute:
    """Run tools at the same time. Answered by ``Updated``, any number of times, and one ``Executed`` each."""

    indices: tuple[int, ...]


@attrs.frozen
class AskStop:
    """Ask the program whether the run shall end here. Answered by ``StopAsked``."""

    answer: AssistantMessage
    results: Sequence[ToolResultMessage]


@attrs.frozen
class Accept:
    """The run has come to its answer."""

    answer: AssistantMessage


Effect: TypeAlias = Tell | Keep | Poll | CallModel | Prepare | Execute | AskStop | Accept
# Effects whose answer is the next input.
ASKING = (Poll, CallModel, Prepare, Execute, AskStop)
Step: TypeAlias = tuple[RunState, list[Effect]]


def error_result(text: str) -> ToolResult:
    """The result of a call that failed or was not run."""
    return {"content": [{"type": "text", "text": text}], "details": {}}


def result_message(block: ToolCallBlock, result: ToolResult, is_error: bool, at_ms: int) -> ToolResultMessage:
    """A result as it stands in the transcript."""
    found: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": block["id"],
        "toolName": block["name"],
        "content": result["content"],
    }
    if "details" in result:
        found["details"] = result["details"]
    found |= {"isError": is_error, "timestamp": at_ms}
    return found  # type: ignore[return-value]
