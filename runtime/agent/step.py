"""What an agent's loop does next: a pure function of where it is and what it hears.

::

    new ─Begin─> opening ─Polled─> answering ─Answered, no calls──────────────> [turn ends]
                                       │  ^                                         │
                             calls     v  │ next turn                               v
                                     tools <─> asked (skip policy)              stopping (if there is a stop hook)
                                       │                                            │
                                       └──────────> [turn ends] ──────────────> steered ─Polled, nothing─> idling
                                                                                    │                        │
                                                      another turn <────────────────┴──── something ─────────┤
                                                                                            nothing: done <──┘
    any ─Broken─> done                  answering ─Answered, failed or aborted─> done

Invariants:
  L1  At most one effect of a step asks for an answer, and it is the last one.
  L2  Every tool call of an answer gets exactly one result message before the next message of another kind: in the
      order of the calls, but for refused ones under the skip policy, which come at once. Also when the run breaks:
      ``Broken`` says which calls have none. Calls that an earlier program left without get theirs when a run begins.
  L3  A message counts as new when its ``message_end`` is told, or when it is kept.
  L4  No queue is polled after an answer that failed or was aborted.
  L5  Steering that was taken between tools is delivered in the next turn, and no other steering before it. If a stop
      hook ends the run instead, it was only claimed: its queue still has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from .messages import AgentMessage, AssistantMessage, ToolCallBlock, json_of, role_of, tool_calls
from .step_tools import Batch, ended, polled_between, prepared, results_of, started, updated
from .step_types import (
    Accept,
    Answered,
    AskStop,
    Begin,
    Broken,
    Call,
    CallModel,
    Effect,
    Executed,
    Input,
    Item,
    Keep,
    Poll,
    Polled,
    Prepared,
    RunState,
    Step,
    StopAsked,
    Streamed,
    Tell,
    Updated,
    error_result,
    result_message,
)

_UPDATES = frozenset(
    "text_start text_delta text_end thinking_start thinking_delta thinking_end "
    "toolcall_start toolcall_delta toolcall_end".split()
)
ABORTED_TOOL = "Tool execution was aborted"
LOST = "No result was recorded"


def step(state: RunState, heard: Input) -> Step:
    """The next state, and what is to be done now, in order."""
    match heard:
        case Streamed():
            return _streamed(state, heard)
        case Updated():
            return state, updated(state, heard)
        case Executed():
            return _after_batch(ended(state, heard))
        case Prepared():
            return _after_batch(prepared(state, heard))
        case Answered():
            return _answered(state, heard.message)
        case Polled():
            return _polled(state, heard)
        case Begin():
            return _begin(state, heard)
        case StopAsked():
            return _finish(state, []) if heard.stops else _look_for_steering(state, [])
        case Broken():
            return _broken(state, heard)


def unanswered(messages: Sequence[AgentMessage]) -> list[ToolCallBlock]:
    """The tool calls of the last answer that have no result behind it."""
    found: set[str] = set()
    for message in reversed(messages):
        role = role_of(message)
        if role == "toolResult":
            found.add(json_of(message)["toolCallId"])
        elif role == "assistant":
            answer: AssistantMessage = json_of(message)  # type: ignore[assignment]
            if answer["stopReason"] in ("error", "aborted"):
                return []
            return [block for block in tool_calls(answer) if block["id"] not in found]
    return []


def _begin(state: RunState, heard: Begin) -> Step:
    effects: list[Effect] = [Tell({"type": "agent_start"}), Tell({"type": "turn_start"})]
    lost = [Item(result_message(block, error_result(LOST), True, heard.at_ms)) for block in heard.unanswered]  # L2
    state = _deliver(attrs.evolve(state, phase="opening"), [*lost, *heard.prompts], effects)
    if heard.polls:
        return state, [*effects, Poll("steering")]
    return _ask_model(state, effects)


def _polled(state: RunState, heard: Polled) -> Step:
    effects: list[Effect] = []
    if state.phase == "asked":
        return _after_batch(polled_between(state, heard))
    if state.phase == "opening":
        return _ask_model(_deliver(state, heard.items, effects), effects)
    if heard.items or (state.phase == "steered" and _wants_answer(state)):
        return _next_turn(state, heard.items, effects)
    if state.phase == "steered":
        return attrs.evolve(state, phase="idling"), [Poll("follow_up")]
    return _finish(state, effects)


def _wants_answer(state: RunState) -> bool:
    """Whether there are results that the model has not seen and shall see."""
    return bool(state.calls) and not all(call.result and call.result.get("terminate") for call in state.calls)


def _next_turn(state: RunState, items: Iterable[Item], effects: list[Effect]) -> Step:
    effects.append(Tell({"type": "turn_start"}))
    return _ask_model(_deliver(state, items, effects), effects)


def _deliver(state: RunState, items: Iterable[Item], effects: list[Effect]) -> RunState:
    new = list(state.new)
    for item in items:
        effects.append(Tell({"type": "message_start", "message": item.message}))
        effects.append(Tell({"type": "message_end", "message": item.message}, item.queue_id))
        new.append(item.message)
    return attrs.evolve(state, new=tuple(new))


def _ask_model(state: RunState, effects: list[Effect]) -> Step:
    effects.append(CallModel())
    return attrs.evolve(state, phase="answering", is_open=False, answer=None, calls=(), taken=()), effects


def _streamed(state: RunState, heard: Streamed) -> Step:
    event = heard.event
    if "partial" not in event:
        return state, []
    if event["type"] == "start" and not state.is_open:
        return attrs.evolve(state, is_open=True), [Tell({"type": "message_start", "message": event["partial"]})]
    # What comes before the start has no message that it could belong to.
    if event["type"] not in _UPDATES or not state.is_open:
        return state, []
    told = Tell({"type": "message_update", "message": event["partial"], "assistantMessageEvent": event})
    return state, [told]


def _answered(state: RunState, answer: AssistantMessage) -> Step:
    effects: list[Effect] = [] if state.is_open else [Tell({"type": "message_start", "message": answer})]
    effects.append(Tell({"type": "message_end", "message": answer}))
    state = attrs.evolve(state, is_open=False, answer=answer, new=(*state.new, answer))
    if answer["stopReason"] in ("error", "aborted"):
        effects.append(Tell({"type": "turn_end", "message": answer, "toolResults": []}))  # L4
        effects.append(Tell({"type": "agent_end", "messages": list(state.new)}))
        return attrs.evolve(state, phase="done"), effects
    calls = tuple(Call(block) for block in tool_calls(answer))
    if not calls:
        return _turn_ended(state, effects)
    named = {call.block["name"] for call in calls}
    is_one_by_one = state.rules.sequential is None or not named.isdisjoint(state.rules.sequential)
    state = attrs.evolve(state, phase="tools", calls=calls, is_one_by_one=is_one_by_one)
    return started(state, 0, effects)


def _after_batch(batch: Batch) -> Step:
    state, effects, is_over = batch
    return _turn_ended(state, effects) if is_over else (state, effects)


def _turn_ended(state: RunState, effects: list[Effect]) -> Step:
    assert state.answer is not None
    results = results_of(state)
    effects.append(Tell({"type": "turn_end", "message": state.answer, "toolResults": results}))
    if state.rules.has_stop_hook:
        return attrs.evolve(state, phase="stopping"), [*effects, AskStop(state.answer, results)]
    return _look_for_steering(state, effects)


def _look_for_steering(state: RunState, effects: list[Effect]) -> Step:
    if state.taken:
        return _next_turn(state, state.taken, effects)  # L5
    return attrs.evolve(state, phase="steered"), [*effects, Poll("steering")]


def _finish(state: RunState, effects: list[Effect]) -> Step:
    assert state.answer is not None
    effects.append(Accept(state.answer))
    effects.append(Tell({"type": "agent_end", "messages": list(state.new)}))
    return attrs.evolve(state, phase="done"), effects


def _broken(state: RunState, heard: Broken) -> Step:
    effects: list[Effect] = []
    known = {call.block["id"]: call for call in state.calls if call.stage == "ended"}
    for block in heard.unanswered:  # L2
        call = known.get(block["id"])
        if call is not None and call.result is not None:
            message = result_message(block, call.result, call.is_error, heard.at_ms)
        else:
            message = result_message(block, error_result(heard.text), True, heard.at_ms)
        effects.append(Keep(message))
    effects.append(Keep(heard.failure))
    if heard.tells:
        effects.append(Tell({"type": "agent_end", "messages": [heard.failure]}))
    return attrs.evolve(state, phase="done"), effects
