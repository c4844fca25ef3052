"""What an application records of a conversation (host 2.7)."""

from __future__ import annotations

from typing import Any

from kit.holds import holds
from strataflow.agent import NewEntry, recorded_as

USER: Any = {"role": "user", "content": "a", "timestamp": 1}
CUSTOM: Any = {"role": "custom", "customType": "n", "content": "c", "display": False, "timestamp": 2}


@holds("host 2.7.2")
def test_messages_of_models_and_custom_ones_are_recorded_and_others_are_not() -> None:
    assert recorded_as(USER) == NewEntry("message", {"message": USER})
    assert recorded_as(CUSTOM) == NewEntry("custom_message", {"customType": "n", "content": "c", "display": False})
    assert recorded_as({"role": "note", "timestamp": 1}) is None  # type: ignore[typeddict-item, arg-type]
