"""The inference barrier, what counts as an answer, and the phase that follows (L13 to L18, cases 128 and 129)."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from strataflow.store.projection import (
    ToolCall,
    accepted_answer,
    call_batch,
    calls_of,
    failed_ending,
    next_rehydration_phase,
    preflight,
)

Json = dict[str, Any]


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(f"c{number}", name) for number, name in enumerate(names)]


@holds("L15", "case agent 128")
def test_beside_a_patch_everything_else_waits() -> None:
    verdicts = preflight(calls("read_state", "bash", "patch_state"), "active")
    assert [verdict.block for verdict in verdicts] == [True, True, False]
    assert "reconsider" in str(verdicts[0].reason)
    assert verdicts[1].to_json() == {"id": "c1", "block": True, "reason": verdicts[0].reason}
    assert verdicts[2].to_json() == {"id": "c2", "block": False}
    assert verdicts[0].batch == ("read_state", "bash", "patch_state")


@holds("L15", "case agent 129")
def test_of_two_patches_none_runs() -> None:
    verdicts = preflight(calls("patch_state", "bash", "patch_state"), "active")
    assert all("exactly one" in str(verdict.reason) for verdict in verdicts)


@holds("L15")
def test_without_a_patch_or_in_passive_mode_nothing_is_blocked() -> None:
    assert not any(verdict.block for verdict in preflight(calls("bash", "read_state"), "active"))
    assert not any(verdict.block for verdict in preflight(calls("bash", "patch_state", "patch_state"), "passive"))
    assert not any(verdict.block for verdict in preflight(calls("patch_state"), "active"))
    assert preflight([], "active") == ()


def assistant(*tools: tuple[str, str], text: str = "", **more: Any) -> Json:
    blocks: list[Json] = [{"type": "toolCall", "id": key, "name": name, "arguments": {}} for key, name in tools]
    return {"role": "assistant", "content": [{"type": "text", "text": text}, *blocks], **more}


@holds("L14")
def test_the_batch_of_a_call_is_found_from_the_leaf_upwards() -> None:
    tree: dict[str, Json] = {
        "a": {"type": "message", "parentId": None, "message": assistant(("t1", "bash"))},
        "b": {"type": "label", "parentId": "a"},
        "c": {"type": "message", "parentId": "b", "message": assistant(("t1", "read_state"), ("t2", "patch_state"))},
        "d": {"type": "message", "parentId": "c", "message": {"role": "toolResult", "toolCallId": "t1"}},
        "e": {"type": "message", "parentId": "a", "message": {"role": "user", "content": "on another branch"}},
        "loop": {"type": "label", "parentId": "loop"},
        "torn": {"type": "label", "parentId": "nowhere"},
    }
    assert call_batch(tree.get, "d", "t1") == (ToolCall("t1", "read_state"), ToolCall("t2", "patch_state"))
    assert call_batch(tree.get, "e", "t1") == (ToolCall("t1", "bash"),)
    for leaf in ("e", "loop", "torn", None):
        assert call_batch(tree.get, leaf, "t2") is None


@holds("L18")
def test_the_answer_is_the_text_of_a_final_message() -> None:
    message = assistant(text="Done", stopReason="stop")
    message["content"].append({"type": "text", "text": "."})
    assert accepted_answer(message) == "Done."
    assert accepted_answer(assistant(stopReason="stop")) == ""
    assert accepted_answer({"role": "assistant", "content": "plain"}) == "plain"
    assert accepted_answer({"role": "user", "content": "plain"}) is None
    assert accepted_answer(assistant(("t", "bash"), text="x", stopReason="stop")) is None
    assert calls_of({"content": None}) == ()


@holds("L18")
@pytest.mark.parametrize("stop", ["length", "error", "aborted", "toolUse"])
def test_a_message_that_did_not_end_is_no_answer(stop: str) -> None:
    message = assistant(text="half", stopReason=stop)
    assert accepted_answer(message) is None
    assert failed_ending(message) == (stop if stop in ("length", "error") else None)


@holds("L13")
def test_the_phase_follows_what_happened() -> None:
    assert next_rehydration_phase(None, "start") == "new-bootstrap"
    assert next_rehydration_phase("step", "resume") == "resume-bootstrap"
    assert next_rehydration_phase("new-bootstrap", "answer") == "step"
    assert next_rehydration_phase(None, "prompt") is None
    assert next_rehydration_phase(None, "prompt-over-unfinished") == "step"
    assert next_rehydration_phase("resume-bootstrap", "prompt-over-unfinished") == "resume-bootstrap"
    assert next_rehydration_phase("new-bootstrap", "prompt") == "new-bootstrap"
