"""What an application records of a conversation (host 2.7)."""

from __future__ import annotations

from typing import Any

from kit.holds import holds
from strataflow.agent import NewEntry, recorded_as, recorded_at_start, recorded_level

USER: Any = {"role": "user", "content": "a", "timestamp": 1}
CUSTOM: Any = {"role": "custom", "customType": "n", "content": "c", "display": False, "timestamp": 2}


@holds("host 2.7.2")
def test_messages_of_models_and_custom_ones_are_recorded_and_others_are_not() -> None:
    assert recorded_as(USER) == NewEntry("message", {"message": USER})
    assert recorded_as(CUSTOM) == NewEntry("custom_message", {"customType": "n", "content": "c", "display": False})
    assert recorded_as({"role": "note", "timestamp": 1}) is None  # type: ignore[typeddict-item, arg-type]


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
