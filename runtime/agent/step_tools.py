"""The part of the loop's decision that is about the tool calls of one answer.

::

    one by one    start, Prepare, Execute, end, result; skip policy: Poll; the next call
    together      start, Prepare for each call, in order; then Execute for all that may run
                    finish policy: ends as they come, all results at the end, in order
                    skip policy:   Poll after each preparation; end and result of each call together, in order;
                                   Poll once more when all have run

Under the skip policy a poll that finds something ends the batch: what has not run gets an error result instead.
A call's stages: waiting ─start told─> preparing ─Prepared─> ready ─Execute─> running ─Executed─> ended
                                           └──────────────── refused ────────────────────────────────^

Each function returns the state, the effects, and whether the batch is over.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from .events import ToolResult
from .messages import ToolResultMessage
from .step_types import (
    Call,
    Effect,
    Execute,
    Executed,
    Poll,
    Polled,
    Prepare,
    Prepared,
    RunState,
    Step,
    Tell,
    Updated,
    error_result,
    result_message,
)

SKIPPED = "Skipped due to queued user message."
Batch: TypeAlias = tuple[RunState, list[Effect], bool]


def results_of(state: RunState) -> list[ToolResultMessage]:
    """The results that are in the transcript, in the order of the calls."""
    return [call.message for call in state.calls if call.message is not None]


def started(state: RunState, index: int, effects: list[Effect]) -> Step:
    """Begin with a call."""
    _tell_start(state.calls[index], effects)
    effects.append(Prepare(index))
    return _with(state, index, attrs.evolve(state.calls[index], stage="preparing")), effects


def prepared(state: RunState, heard: Prepared) -> Batch:
    """A call may run, or is refused."""
    index, effects = heard.index, list[Effect]()
    call = state.calls[index]
    if heard.refusal is None:
        state = _with(state, index, attrs.evolve(call, stage="ready"))
        if state.is_one_by_one:
            return (*_execute(state, (index,), effects), False)
        return _next_together(state, effects, polls=True)
    state = _end(state, index, heard.refusal, True, effects)
    if state.is_one_by_one:
        return _after_one(_put(state, index, heard.at_ms, effects), effects)
    if _skips(state):
        state = _put(state, index, heard.at_ms, effects)
    return _next_together(state, effects, polls=True, at_ms=heard.at_ms)


def updated(state: RunState, heard: Updated) -> list[Effect]:
    """A tool tells how far it is."""
    block = state.calls[heard.index].block
    return [
        Tell(
            {
                "type": "tool_execution_update",
                "toolCallId": block["id"],
                "toolName": block["name"],
                "args": block["arguments"],
                "partialResult": heard.partial,
            }
        )
    ]


def ended(state: RunState, heard: Executed) -> Batch:
    """A tool has run."""
    effects: list[Effect] = []
    index = heard.index
    if state.is_one_by_one:
        state = _end(state, index, heard.result, heard.is_error, effects)
        return _after_one(_put(state, index, heard.at_ms, effects), effects)
    if not _skips(state):
        state = _end(state, index, heard.result, heard.is_error, effects)
        return _when_all_ended(state, heard.at_ms, effects)
    # Its end is told when those before it have been told.
    known = attrs.evolve(state.calls[index], stage="ended", result=heard.result, is_error=heard.is_error)
    state = _with(state, index, known)
    for number, call in enumerate(state.calls):
        if call.stage != "ended":
            return state, effects, False
        if call.message is None:
            _tell_end(call, effects)
            state = _put(state, number, heard.at_ms, effects)
    return _ask(state, effects)


def polled_between(state: RunState, heard: Polled) -> Batch:
    """What steering there is between calls: it ends the batch."""
    effects: list[Effect] = []
    state = attrs.evolve(state, phase="tools", taken=tuple(heard.items))
    if heard.items:
        for index, call in enumerate(state.calls):
            if call.stage != "ended":
                if call.stage == "waiting":
                    _tell_start(call, effects)
                state = _end(state, index, error_result(SKIPPED), True, effects)
                state = _put(state, index, heard.at_ms, effects)
        return state, effects, True
    if all(call.stage == "ended" for call in state.calls):
        return state, effects, True
    if state.is_one_by_one:
        return _next_one(state, effects)
    return _next_together(state, effects, polls=False, at_ms=heard.at_ms)


def _skips(state: RunState) -> bool:
    return state.rules.steering_policy == "skip"


def _after_one(state: RunState, effects: list[Effect]) -> Batch:
    return _ask(state, effects) if _skips(state) else _next_one(state, effects)


def _next_one(state: RunState, effects: list[Effect]) -> Batch:
    for index, call in enumerate(state.calls):
        if call.stage == "waiting":
            return (*started(state, index, effects), False)
    return state, effects, True


def _next_together(state: RunState, effects: list[Effect], *, polls: bool, at_ms: int = 0) -> Batch:
    if polls and _skips(state):
        return _ask(state, effects)
    for index, call in enumerate(state.calls):
        if call.stage == "waiting":
            return (*started(state, index, effects), False)
    ready = tuple(index for index, call in enumerate(state.calls) if call.stage == "ready")
    if ready:
        return (*_execute(state, ready, effects), False)
    return _when_all_ended(state, at_ms, effects)


def _when_all_ended(state: RunState, at_ms: int, effects: list[Effect]) -> Batch:
    if any(call.stage != "ended" for call in state.calls):
        return state, effects, False
    for index, call in enumerate(state.calls):
        if call.message is None:
            state = _put(state, index, at_ms, effects)
    return state, effects, True


def _ask(state: RunState, effects: list[Effect]) -> Batch:
    effects.append(Poll("steering"))
    return attrs.evolve(state, phase="asked"), effects, False


def _execute(state: RunState, indices: tuple[int, ...], effects: list[Effect]) -> Step:
    for index in indices:
        state = _with(state, index, attrs.evolve(state.calls[index], stage="running"))
    effects.append(Execute(indices))
    return state, effects


def _end(state: RunState, index: int, result: ToolResult, is_error: bool, effects: list[Effect]) -> RunState:
    call = attrs.evolve(state.calls[index], stage="ended", result=result, is_error=is_error)
    _tell_end(call, effects)
    return _with(state, index, call)


def _put(state: RunState, index: int, at_ms: int, effects: list[Effect]) -> RunState:
    """Put the result of a call into the transcript."""
    call = state.calls[index]
    assert call.result is not None
    message = result_message(call.block, call.result, call.is_error, at_ms)
    effects.append(Tell({"type": "message_start", "message": message}))
    effects.append(Tell({"type": "message_end", "message": message}))
    state = attrs.evolve(state, new=(*state.new, message))
    return _with(state, index, attrs.evolve(call, message=message))


def _with(state: RunState, index: int, call: Call) -> RunState:
    calls = (*state.calls[:index], call, *state.calls[index + 1 :])
    return attrs.evolve(state, calls=calls)


def _tell_start(call: Call, effects: list[Effect]) -> None:
    block = call.block
    effects.append(
        Tell(
            {
                "type": "tool_execution_start",
                "toolCallId": block["id"],
                "toolName": block["name"],
                "args": block["arguments"],
            }
        )
    )


def _tell_end(call: Call, effects: list[Effect]) -> None:
    assert call.result is not None
    block = call.block
    effects.append(
        Tell(
            {
                "type": "tool_execution_end",
                "toolCallId": block["id"],
                "toolName": block["name"],
                "result": call.result,
                "isError": call.is_error,
            }
        )
    )
