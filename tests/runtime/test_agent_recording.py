"""What an application records of a conversation (host 2.7), and how a request is made whole."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from strataflow.agent import NewEntry, recorded_as, recorded_at_start, recorded_level
from strataflow.runtime.agent.recording import is_record_of
from strataflow.runtime.agent.requesting import well_formed

USER: Any = {"role": "user", "content": "a", "timestamp": 1}
CUSTOM: Any = {"role": "custom", "customType": "n", "content": "c", "display": False, "timestamp": 2}


def answer(*ids: str, stop: str = "toolUse", text: str = "t") -> Any:
    calls = [{"type": "toolCall", "id": each, "name": "a", "arguments": {}} for each in ids]
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}, *calls],
        "stopReason": stop,
        "timestamp": 3,
    }


def result(call_id: str) -> Any:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "a",
        "content": [],
        "isError": False,
        "timestamp": 4,
    }


@holds("host 2.7.2")
def test_messages_of_models_and_custom_ones_are_recorded_and_others_are_not() -> None:
    assert recorded_as(USER) == NewEntry("message", {"message": USER})
    assert recorded_as(CUSTOM) == NewEntry("custom_message", {"customType": "n", "content": "c", "display": False})
    assert recorded_as({"role": "note", "timestamp": 1}) is None  # type: ignore[typeddict-item, arg-type]


@pytest.mark.parametrize(
    "entry, is_it",
    [
        ({"type": "message", "id": "1", "message": USER}, True),
        ({"type": "message", "id": "1", "message": {**USER, "timestamp": 2}}, False),
        ({"type": "custom", "id": "1", "message": USER}, False),
    ],
)
def test_an_entry_is_the_record_of_a_message_only_if_it_is_the_same(entry: Any, is_it: bool) -> None:
    assert is_record_of(entry, USER) is is_it


def test_an_entry_of_a_custom_message_is_compared_without_its_time() -> None:
    entry = {"type": "custom_message", "customType": "n", "content": "c", "display": False, "id": "1"}
    assert is_record_of(entry, CUSTOM)
    assert not is_record_of({**entry, "details": 1}, CUSTOM)


@holds("host 2.7.1", "host 2.7.4", "AC-206")
def test_a_session_begins_with_model_and_level_and_only_real_changes_follow() -> None:
    start = recorded_at_start(has_messages=False, has_level=False, model=("p", "m"), level="off")
    assert [entry.type for entry in start] == ["model_change", "thinking_level_change"]
    assert start[0].members == {"provider": "p", "modelId": "m"}
    resumed = recorded_at_start(has_messages=True, has_level=False, model=("p", "m"), level="high")
    assert resumed == [NewEntry("thinking_level_change", {"thinkingLevel": "high"})]
    assert recorded_at_start(has_messages=True, has_level=True, model=None, level="high") == []
    assert recorded_level("high", "high") is None
    assert recorded_level("off", "high") == resumed[0]


def test_a_whole_conversation_is_sent_as_it_is() -> None:
    whole = [USER, answer("1", "2"), result("1"), result("2"), answer(stop="stop")]
    assert well_formed(whole) == whole


def test_calls_without_results_get_some_and_broken_answers_lose_theirs() -> None:
    found: list[Any] = well_formed([USER, answer("1", "2"), result("2"), USER, answer("3", stop="aborted"), USER])
    roles = "user assistant toolResult toolResult user assistant user"
    assert " ".join(message["role"] for message in found) == roles
    assert [found[2]["toolCallId"], found[2]["isError"], found[3]["toolCallId"]] == ["1", True, "2"]
    assert found[5]["content"] == [{"type": "text", "text": "t"}]


def test_an_answer_of_which_nothing_is_left_is_not_sent() -> None:
    assert well_formed([USER, answer("1", stop="error", text=""), USER]) == [USER, USER]
