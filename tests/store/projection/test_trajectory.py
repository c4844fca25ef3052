"""Which native messages stay (C23 to C28, cases 117 to 125)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kit.conversations import Conversation, content_of, label_of
from kit.holds import holds
from strataflow.store.projection import Handoff, leave_active, observed_anchor
from strataflow.store.projection.trajectory import from_anchor, run_trajectory

Json = dict[str, Any]


def message(role: str, timestamp: Any, text: str = "x") -> Json:
    return {"role": role, "content": [{"type": "text", "text": text}], "timestamp": timestamp}


def times(messages: Any) -> list[Any]:
    return [item["timestamp"] for item in messages]


@holds("C23")
def test_the_anchor_is_the_first_user_message_since_the_run_began() -> None:
    anchor = None
    for item in (message("custom", 1), message("assistant", 2), message("user", 3), message("user", 4)):
        anchor = observed_anchor(anchor, item)
    assert anchor == 3
    assert math.isnan(observed_anchor(None, message("user", None)) or 0)


@holds("C24", "case agent 117")
def test_a_run_keeps_what_follows_its_first_message_and_standing_messages() -> None:
    messages = [
        message("user", 1),
        message("custom", 2),
        message("user", 3),
        message("assistant", 4),
        message("user", 5, "steering"),
        message("toolResult", 6),
    ]
    assert times(from_anchor(messages, 3)) == [2, 3, 4, 5, 6]
    assert from_anchor(messages, 3)[1] is messages[2]


@holds("C25", "case agent 118")
@pytest.mark.parametrize("anchor", [3, 99, math.nan, math.inf, True])
def test_an_anchor_beyond_doubt_is_needed_to_drop_anything(anchor: float) -> None:
    messages = [message("user", 1), message("user", 3), message("user", 3), message("assistant", 3)]
    assert from_anchor(messages, anchor) is messages
    assert run_trajectory(messages, anchor, "x") is messages


@holds("C25")
def test_a_time_that_is_no_number_matches_no_anchor() -> None:
    messages = [message("user", "3"), message("user", None), {"role": "user", "content": "x"}, message("user", True)]
    assert from_anchor(messages, 1) is messages


@holds("C25")
def test_without_an_anchor_the_text_of_the_prompt_tells() -> None:
    messages = [message("user", 1, "old"), message("custom", 2), message("user", 3, "work"), message("user", 4, "more")]
    assert times(run_trajectory(messages, None, "work")) == [2, 3, 4]
    assert run_trajectory(messages, None, "other") is messages
    assert run_trajectory(messages, None, None) is messages
    plain = [message("user", 1, "old"), {"role": "user", "content": "work", "timestamp": 2}, {"role": "user"}]
    assert run_trajectory(plain, None, "work") == plain[1:]
    twice = [*messages, message("user", 5, "work")]
    assert run_trajectory(twice, None, "work") is twice


@holds("C24", "case agent 119")
def test_a_note_appended_to_the_prompt_does_not_hide_where_the_run_began() -> None:
    talk = Conversation()
    talk.say("user", "old")
    talk.run("work")
    talk.native[-1]["content"] += [{"type": "image", "data": "", "mimeType": "image/png"}]
    talk.native[-1]["content"][0]["text"] += " [image: a.png]"
    assert talk.request()[1:] == talk.native[1:]


@holds("C26", "case agent 121")
def test_a_bootstrap_run_keeps_everything_until_an_answer_is_accepted() -> None:
    talk = Conversation(mode="off")
    talk.native.append(message("system", 0, "You help."))
    talk.say("user", "old")
    talk.say("assistant", "older answer", stopReason="stop")
    talk.switch("active")
    talk.run("work")
    messages = talk.request()
    assert "runtime context" in label_of(messages[0])
    assert messages[2:] == talk.native[1:]
    assert "Before you finish, reconcile" in messages[1]["content"][1]["text"]
    talk.answer("done")
    talk.run("next")
    messages = talk.request()
    assert times(messages[1:]) == [0, talk.native[-1]["timestamp"]]
    assert "Before you finish, reconcile" not in messages[1]["content"][1]["text"]


def after_completed_run() -> Conversation:
    talk = Conversation()
    talk.say("custom", "note")
    talk.run("work")
    talk.request()
    talk.answer("done")
    talk.switch("passive")
    return talk


@holds("C27", "case agent 122")
def test_after_a_completed_run_passive_mode_hides_old_requests() -> None:
    talk = after_completed_run()
    assert talk.request()[1:] == [talk.native[0]]
    talk.say("assistant", "late words of nobody's turn")
    talk.say("user", "hello")
    talk.say("assistant", "hi", stopReason="stop")
    messages = talk.request()
    assert "exit handoff" in label_of(messages[0])
    assert messages[1:] == [talk.native[0], *talk.native[-2:]]


@holds("C27", "case agent 123")
def test_an_interrupted_run_is_kept_from_its_anchor_on() -> None:
    talk = Conversation()
    talk.say("user", "old")
    talk.run("work")
    talk.say("assistant", content=[{"type": "toolCall", "id": "t", "name": "read", "arguments": {}}])
    talk.switch("passive")
    talk.say("toolResult", "late", toolCallId="t")
    assert talk.request()[1:] == talk.native[1:]


@holds("C27", "case agent 123")
def test_without_an_anchor_or_when_saving_failed_everything_is_kept() -> None:
    messages = [message("user", 1), message("assistant", 2)]
    unknown = leave_active(5, is_unfinished=True, anchor=None, captured=None)
    failed = leave_active(5, is_unfinished=False, anchor=1, captured=None, could_not_save=True)
    done = leave_active(5, is_unfinished=False, anchor=1, captured=None)
    assert (unknown.keeps_context, failed.keeps_context, done.keeps_context) == (True, True, False)
    assert unknown.chosen(messages) is messages
    assert failed.chosen(messages) is messages
    assert done.chosen(messages) == []
    assert done.anchor is None
    assert (unknown.is_unfinished, done.is_unfinished) == (True, False)


@holds("C27")
def test_a_message_at_the_very_time_of_the_switch_is_kept() -> None:
    messages = [message("user", 4), message("custom", 1), message("user", 5), message("user", "7")]
    assert times(Handoff(5).chosen(messages)) == [1, 5, "7"]
    assert times(Handoff(6).chosen(messages)) == [1]


@holds("C28", "case agent 124")
def test_a_handoff_survives_a_reload_and_is_shown_with_the_present_state() -> None:
    talk = after_completed_run()
    talk.say("user", "hello")
    before = talk.request()
    talk.reload()
    after = talk.request()
    assert talk.rebase == "session"
    assert content_of(after[0]) == content_of(before[0])
    assert after[1:] == before[1:]
    # Nothing is known of a handoff in another session.
    other = Conversation(mode="passive")
    other.say("user", "hello")
    assert "passive memory" in label_of(other.request()[0])


@holds("C26", "C28", "case agent 125")
def test_active_again_shows_its_head_then_the_handoff_then_what_came_after() -> None:
    talk = Conversation()
    for number in range(100):
        talk.run(f"old {number}")
        talk.answer("done")
    talk.patch(is_silent=True, cwd={"working": {"x": 1}})
    talk.switch("passive")
    talk.say("user", "hello")
    talk.say("assistant", "hi", stopReason="stop")
    talk.switch("active")
    talk.run("work")
    messages = talk.request()
    assert "runtime context" in label_of(messages[0])
    assert "exit handoff" in label_of(messages[1])
    assert len(messages[1]["content"]) == 1
    assert content_of(messages[1])["state"] == {"working": {"x": 1}}
    assert messages[2:] == talk.native[-3:]
    talk.say("assistant", "thinking")
    again = talk.request()
    assert talk.rebase is None
    assert again[: len(messages)] == messages


@holds("C28")
def test_off_keeps_the_boundary_and_shows_nothing_of_it() -> None:
    talk = after_completed_run()
    talk.switch("off")
    assert talk.request() == talk.native
    talk.switch("passive")
    assert "exit handoff" in label_of(talk.request()[0])
