"""Laws of the loop's decision: random conversations, played without an event loop, a clock or a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from kit.agents import check_well_formed
from kit.holds import holds
from strataflow.runtime.agent.messages import no_usage
from strataflow.runtime.agent.step import step, unanswered
from strataflow.runtime.agent.step_types import (
    ASKING,
    Accept,
    Answered,
    AskStop,
    Begin,
    Broken,
    CallModel,
    Execute,
    Executed,
    Input,
    Item,
    Keep,
    Poll,
    Polled,
    Prepare,
    Prepared,
    Rules,
    RunState,
    StopAsked,
    Tell,
    error_result,
)

RULES = st.builds(
    Rules,
    st.sampled_from(["finish", "skip"]),
    st.booleans(),
    st.sampled_from([None, frozenset(), frozenset({"b"})]),
)


def answer(names: list[str], reason: str, number: int) -> Any:
    blocks = [
        {"type": "toolCall", "id": f"{number}.{index}", "name": name, "arguments": {}}
        for index, name in enumerate(names)
    ]
    more = {"errorMessage": "broken"} if reason in ("error", "aborted") else {}
    message = {"role": "assistant", "content": blocks, "usage": no_usage(), "stopReason": reason, "timestamp": number}
    return {**message, "api": "a", "provider": "p", "model": "m", **more}


@attrs.define
class Played:
    """A conversation that follows the effects and decides what it hears by drawing."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    state: RunState
    transcript: list[Any] = attrs.field(factory=list)
    told: list[Any] = attrs.field(factory=list)
    taken: list[Any] = attrs.field(factory=list)
    asked: int = 0
    running: list[int] = attrs.field(factory=list)

    def play(self, begin: Begin) -> None:
        heard: Input | None = begin
        while heard is not None:
            before = self.state
            self.state, effects = step(before, heard)
            assert step(before, heard) == (self.state, effects)
            assert [effect for effect in effects[:-1] if isinstance(effect, ASKING)] == []  # L1
            heard = None
            for effect in effects:
                heard = self._do(effect)
                if heard is None and self.draw(st.integers(0, 60)) == 60 and self.state.phase != "done":
                    failure = answer([], "error", 999)
                    heard = Broken("broke", failure, unanswered(self.transcript), 0, self.draw(st.booleans()))
                    self.running = []
                    break
            if heard is None and self.running:
                heard = self._ended()

    def _do(self, effect: Any) -> Input | None:
        match effect:
            case Tell():
                self.told.append(effect.event["type"])
                if effect.event["type"] == "message_end":
                    self.transcript.append(effect.event["message"])
            case Keep():
                self.transcript.append(effect.message)
            case Poll():
                items = [Item({"role": "user", "content": "q", "timestamp": 0}, "id")] * self.draw(st.integers(0, 2))
                self.taken += items
                return Polled(items, 0)
            case CallModel():
                self.asked += 1
                reason = self.draw(st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]))
                names = [] if self.asked > 6 else self.draw(st.lists(st.sampled_from(["a", "b"]), max_size=3))
                return Answered(answer(names, reason if self.asked <= 6 else "error", self.asked))
            case Prepare():
                return Prepared(effect.index, 0, error_result("no") if self.draw(st.booleans()) else None)
            case Execute():
                self.running = list(effect.indices)
                return self._ended()
            case AskStop():
                return StopAsked(self.draw(st.booleans()))
            case Accept():
                assert effect.answer["stopReason"] not in ("error", "aborted")
        return None

    def _ended(self) -> Input:
        index = self.running.pop(self.draw(st.integers(0, len(self.running) - 1)))
        result = error_result("done")
        if self.draw(st.booleans()):
            result["terminate"] = True
        return Executed(index, result, False, 0)


@given(st.data(), RULES, st.booleans())
@holds("host 5.4.1", "host 5.5.6", "host 5.5.7")
def test_every_conversation_ends_whole_whatever_models_tools_and_queues_do(
    data: Any, rules: Rules, polls: bool
) -> None:
    played = Played(data.draw, RunState(rules))
    played.play(Begin([Item({"role": "user", "content": "p", "timestamp": 0})], polls))
    assert played.state.phase == "done"
    check_well_formed(played.transcript)  # L2
    starts, ends = played.told.count("message_start"), played.told.count("message_end")
    if "agent_end" in played.told and 999 not in [message["timestamp"] for message in played.transcript]:
        assert played.told[-1] == "agent_end"
        assert starts == ends
        assert played.told.count("turn_start") == played.told.count("turn_end") == played.asked
        assert list(played.state.new) == played.transcript  # L3
        delivered = [message for message in played.transcript if message.get("content") == "q"]
        # L5: what was taken came, unless the stop hook ended the run before: then the queue still has it.
        assert len(delivered) + len(played.state.taken) == len(played.taken)
        assert not played.state.taken or rules.has_stop_hook
    assert played.told.count("tool_execution_start") >= played.told.count("tool_execution_end")


@given(st.data(), RULES)
def test_a_started_call_is_ended_once_in_a_conversation_that_does_not_break(data: Any, rules: Rules) -> None:
    played = Played(data.draw, RunState(rules))
    played.play(Begin())
    if 999 not in [message["timestamp"] for message in played.transcript]:
        assert played.told.count("tool_execution_start") == played.told.count("tool_execution_end")
