"""What looks like a fault and is none: foreign bytes, views that stand still, what goes with an intent."""

from __future__ import annotations

from kit.told_stories import Story, w
from strataflow.runtime.simulation.history import FinalScope, Superseded


def test_foreign_bytes_win_at_their_row_and_nowhere_else() -> None:
    story = Story()
    story.patch({"global": w("a"), "cwd": w("b")}, "g1c1s0")
    story.history.superseded.append(Superseded(2, "", w("theirs"), 5))
    story.row = 2
    story.patch({"global": w("c", "l")}, "g6c1s0")
    story.read("effective.working", {"k": "b", "l": "c"})
    story.history.final = [FinalScope("", {"working": {"k": "theirs", "l": "c"}}, 6), FinalScope("--a--", w("b"), 1)]
    assert story.rules() == {}
    story.history.final[1] = FinalScope("--a--", {}, 1)
    assert story.names() == {"lost-write"}


def test_a_scope_may_show_its_old_bytes_until_the_foreign_ones_are_read() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.history.superseded.append(Superseded(2, "", w("theirs")))
    story.row = 2
    story.patch({"cwd": w("b", "l")}, process="p2")
    story.read("effective.working", {"k": "a", "l": "b"})
    assert story.rules() == {}


def test_a_session_that_another_process_changed_may_keep_its_view() -> None:
    story = Story()
    story.patch({"session": w("a")})
    story.patch({"session": w("b")}, process="p2")
    story.patch({"global": w("c", "l")}, session=("/a", "t"))
    story.read("effective.working", {"k": "a", "l": "c"})
    assert story.rules() == {}


def test_the_past_of_a_session_that_foreign_bytes_changed_may_be_that_of_the_view_it_keeps() -> None:
    story = Story()
    story.patch({"session": w("a")})
    story.history.superseded.append(Superseded(2, "--a--/s", w("theirs")))
    story.row = 2
    story.patch({"cwd": w("b", "l")}, session=("/a", "t"))
    story.read("session[1].working.k", "a")
    assert story.rules() == {}


def test_what_an_intent_owned_goes_with_it_and_what_others_own_stays() -> None:
    story = Story()
    story.patch({"cwd": {"intents": {"i": {"$ref": "cwd.working.k"}, "j": {"$ref": "cwd.lazy.x"}}}})
    story.patch({"cwd": {"working": {"k": 1, "l": 2}, "lazy": {"x": 3}}})
    story.patch({"cwd": {"intents": {"i": None}}})
    left = {"intents": {"j": {"$ref": "cwd.lazy.x"}}, "working": {"l": 2}, "lazy": {"x": 3}}
    story.history.final.append(FinalScope("--a--", left, 3))
    assert story.rules() == {}
    story.history.final[0] = FinalScope("--a--", {**left, "working": {"k": 1, "l": 2}}, 3)
    assert story.names() == {"lost-write"}
