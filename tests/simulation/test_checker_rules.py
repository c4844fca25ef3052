"""Every rule of the history checker, planted by hand: the smallest history that breaks it, and one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.documents import rows, sections
from kit.told_stories import Json, Story, w
from strataflow.runtime.simulation.checker import RULES, check, told
from strataflow.runtime.simulation.history import FinalScope, History, Life, PowerCut, Read


def test_a_history_without_calls_is_correct() -> None:
    assert check(History()) == []


def test_calls_that_were_acknowledged_and_are_there_are_correct() -> None:
    story = Story()
    story.patch({"global": w(1), "session": w({"x": 2})}, "g1c0s1")
    story.read("effective.working", {"k": {"x": 2}})
    story.read("global.working.k", 1, process="p2", fresh=True)
    story.patch({"global": w(1)}, "g1c0s1", changed=False)
    story.end(global_=w(1), s=w({"x": 2}))
    assert story.rules() == {}


def test_an_acknowledged_call_that_is_not_in_the_end_is_a_lost_write() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.patch({"cwd": w("b")})
    story.end(global_={}, cwd=w("b"))
    assert story.rules() == {"lost-write": (1,)}


def test_a_deletion_that_did_not_happen_is_a_lost_write() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.patch({"global": w(None)})
    story.history.final.append(FinalScope("", w("a"), 2))
    # Something was there that it deleted, and nothing was written twice: so it can not be there again.
    assert story.rules() == {"lost-write": (2,)}


def test_a_later_write_that_gave_way_to_an_earlier_one_is_lost() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.patch({"global": w("b")})
    story.history.final.append(FinalScope("", w("a"), 2))
    assert story.rules() == {"lost-write": (1, 2)}


def test_a_value_that_nobody_wrote_is_a_phantom() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.read("global.working.k", "b")
    assert story.rules() == {"phantom-write": (2,)}


def test_a_refused_call_that_is_there_is_a_phantom() -> None:
    story = Story()
    story.patch({"global": w("a")}, ending="refused", code="E_INDEX")
    story.end(global_=w("a"))
    assert story.rules() == {"phantom-write": (1,)}


def test_a_refused_call_that_has_a_row_is_a_phantom() -> None:
    story = Story()
    story.patch({"global": w("a")}, ending="refused", code="E_INDEX")
    story.history.outcomes["r1"] = 1
    assert story.rules() == {"phantom-write": (1,)}


def test_a_request_with_two_rows_is_a_double_write() -> None:
    story = Story()
    story.patch({"global": w(["a"])}, request_id="r")
    story.patch({"global": w(["a"])}, request_id="r", changed=False)
    assert story.rules() == {"double-write": (1, 2)}


def test_a_request_that_is_told_the_same_again_is_correct() -> None:
    story = Story()
    first = story.patch({"global": w(["a"])}, request_id="r")
    story.patch({"global": w("b")})
    story.patch({"global": w(["a"])}, request_id="r", seq=1).transition_id = first.transition_id
    story.history.final.append(FinalScope("", w("b"), 2))
    assert story.rules() == {}


def test_a_call_that_is_stored_once_more_later_is_a_double_write() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.patch({"global": w("b")})
    story.history.final.append(FinalScope("", w("a"), 3))
    assert story.names() == {"double-write"}


def test_a_call_of_which_one_scope_is_missing_is_a_torn_write() -> None:
    story = Story()
    story.patch({"global": w("a"), "cwd": w("b")})
    story.end(global_=w("a"), cwd={})
    assert story.rules() == {"torn-write": (1,)}


def test_a_read_of_half_a_call_is_a_torn_write() -> None:
    story = Story()
    story.patch({"global": {"working": {"k": "a", "l": "b"}}}, process="p2")
    story.read("global.working", {"k": "a"})
    assert story.rules() == {"torn-write": (1, 2)}


def test_a_call_that_ended_before_another_began_has_the_earlier_row() -> None:
    story = Story()
    story.patch({"global": w("a")}, seq=2)
    story.patch({"cwd": w("b")}, seq=1)
    assert story.rules() == {"wrong-order": (1, 2)}


def test_calls_that_overlap_may_have_their_rows_in_any_order() -> None:
    story = Story()
    story.patch({"global": w("a")}, seq=2, ended_s=5.0)
    story.patch({"cwd": w("b")}, seq=1)
    assert story.rules() == {}


def test_a_transaction_that_missed_a_change_is_not_serializable() -> None:
    story = Story()
    story.patch({"global": w(1)})
    story.patch({"global": w(2)}, process="p2")
    story.transaction(Read("global.working.k", 1), {"global": w(2, "n")})
    assert story.rules() == {"not-serializable": (1, 2, 3)}


def test_a_transaction_that_missed_a_new_key_is_not_serializable() -> None:
    story = Story()
    story.patch({"global": w(1)}, process="p2")
    story.transaction(Read("global.working", None, True, "keys"), {"cwd": w(2)})
    assert story.rules() == {"not-serializable": (1, 2)}


def test_a_transaction_reads_its_own_patches_and_not_the_unrelated() -> None:
    story = Story()
    story.transaction(
        Read("cwd.working.k", None, True), {"cwd": w(1)}, Read("cwd.working.k", 1), {"cwd": w(2)}, revision="g0c1s0"
    )
    story.patch({"global": w(1, "other")}, process="p2")
    story.transaction(Read("cwd.working.k", 2), {"cwd": w(3)})
    assert story.rules() == {}


@pytest.mark.parametrize(
    "told_of",
    [
        {"path": "global.working.k", "read": 1, "now": 1},
        {"path": "global.working.k", "read": 2, "now": 3},
        {"path": "global.working.other", "read": 1, "now": 3},
    ],
    ids=["unchanged", "of something else", "not read"],
)
def test_a_conflict_about_nothing_is_false(told_of: Json) -> None:
    story = Story()
    story.patch({"global": w(1)})
    call = story.transaction(Read("global.working.k", 1), {"cwd": w(2)}, ending="refused", code="E_CONFLICT")
    call.conflicts = [{"projection": "value", "transition": None, **told_of}]
    assert story.rules() == {"false-conflict": (2,)}


def test_a_conflict_with_what_never_was_is_false() -> None:
    story = Story()
    story.patch({"global": w(1)})
    call = story.transaction(Read("global.working.k", 1), {"cwd": w(2)}, ending="refused", code="E_CONFLICT")
    call.conflicts = [{"path": "global.working.k", "projection": "value", "read": 1, "now": 7, "transition": None}]
    assert story.rules() == {"false-conflict": (2,)}


def test_a_conflict_with_somebody_in_the_way_is_correct() -> None:
    story = Story()
    story.patch({"global": w(1)})
    call = story.transaction(
        Read("global.working.k", 1), {"cwd": w(2)}, ending="refused", code="E_CONFLICT", ended_s=9.0
    )
    changer = story.patch({"global": w(7)}, process="p2")
    call.conflicts = [
        {"path": "global.working.k", "projection": "value", "read": 1, "now": 7, "transition": {"seq": changer.seq}}
    ]
    assert story.rules() == {}
    call.conflicts[0]["transition"] = {"seq": 1}
    story.history.calls[0].patches = {"cwd": w(1)}
    story.history.calls[0].seq, changer.seq = 1, 2
    call.steps, call.conflicts[0]["read"] = [Read("global.working.k", None, True), {"cwd": w(2)}], None
    assert story.rules() == {"false-conflict": (1, 2)}


def test_a_read_older_than_the_own_change_is_stale() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.read("global.working.k", None)
    assert story.rules() == {"stale-read": (1, 2)}


def test_a_read_older_than_one_before_it_is_stale() -> None:
    story = Story()
    story.patch({"global": w("a")}, process="p2")
    story.read("global.working.k", "a")
    story.read("global.working.k", None)
    assert story.rules() == {"stale-read": (2, 3)}


def test_another_process_may_lag_behind_unless_it_reads_fresh() -> None:
    story = Story()
    story.patch({"global": w("a")}, process="p2")
    story.read("global.working.k", None)
    assert story.rules() == {}
    story.read("global.working.k", None, fresh=True)
    assert story.rules() == {"stale-read": (1, 3)}


def test_what_was_acknowledged_before_a_session_was_opened_is_seen_in_it() -> None:
    story = Story()
    story.patch({"global": w("a")}, process="p2")
    story.call("open")
    story.read("global.working.k", None)
    assert story.rules() == {"stale-read": (1, 2, 3)}


def test_what_was_acknowledged_before_a_process_began_is_seen_in_it() -> None:
    story = Story()
    story.patch({"global": w("a")}, process="p2")
    story.history.lives.append(Life("p1", 0.7))
    story.read("global.working.k", None)
    assert story.rules() == {"stale-read": (1, 2)}


def test_a_read_of_two_moments_at_once_is_stale() -> None:
    story = Story()
    story.patch({"global": w("a", "k")}, process="p2")
    story.patch({"global": w("b", "l")}, process="p2")
    story.read("global.working", {"l": "b"})
    assert story.rules() == {"stale-read": (1, 2, 3)}


def test_a_read_of_what_began_afterwards_is_from_the_future() -> None:
    story = Story()
    story.read("global.working.k", "a")
    story.patch({"global": w("a")})
    assert story.rules() == {"future-read": (1,)}


def test_a_read_at_an_offset_shows_that_moment_and_no_other() -> None:
    story = Story()
    for value in "abc":
        story.patch({"global": w(value)})
    story.read("global[1].working.k", "b")
    assert story.rules() == {}
    story.read("global[2].working.k", "b")
    assert story.names() == {"wrong-past"}


def test_a_private_value_in_another_session_has_leaked() -> None:
    story = Story()
    story.patch({"session": w("mine")}, session=("/a", "other"), process="p2")
    story.read("session.working.k", "mine")
    assert story.rules() == {"leaked": (2,)}


def test_a_value_of_another_directory_has_leaked_too() -> None:
    story = Story()
    story.patch({"cwd": w("theirs")}, session=("/b", "s"), process="p2")
    story.read("effective.working", {"k": "theirs"})
    assert story.rules() == {"leaked": (2,)}


def test_private_memory_of_another_session_in_the_end_has_leaked() -> None:
    story = Story()
    story.patch({"session": w("mine")}, session=("/a", "other"))
    story.end(other=w("mine"), s=w("mine"))
    assert story.rules() == {"leaked": ()}


def test_a_revision_that_skips_one_is_wrong() -> None:
    story = Story()
    story.patch({"global": w("a")}, "g1c0s0")
    story.patch({"global": w("b")}, "g3c0s0")
    assert story.rules() == {"wrong-revision": (2,)}


def test_a_revision_that_did_not_grow_is_wrong() -> None:
    story = Story()
    story.patch({"global": w("a")}, "g1c0s0")
    story.patch({"global": w("b")}, "g1c0s0")
    assert story.rules() == {"wrong-revision": (1, 2)}


def test_a_revision_in_the_end_that_does_not_count_the_calls_is_wrong() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.history.final.append(FinalScope("", w("a"), 2))
    assert story.rules() == {"wrong-revision": ()}


def test_a_change_that_is_told_as_none_is_a_wrong_receipt() -> None:
    story = Story()
    story.patch({"global": w("a")}, "g0c0s0", changed=False)
    assert story.rules() == {"wrong-receipt": (1,)}


def test_nothing_new_that_is_told_as_a_change_is_a_wrong_receipt() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.patch({"global": w("a")})
    assert story.names() >= {"wrong-receipt"}


def test_two_calls_that_are_told_one_row_have_a_wrong_receipt() -> None:
    story = Story()
    story.patch({"global": w("a")}, ended_s=9.0)
    story.patch({"cwd": w("b")}, seq=1)
    assert story.names() == {"wrong-receipt"}


def test_an_edit_of_an_element_that_is_not_there_can_not_be_accepted() -> None:
    story = Story()
    story.patch({"global": w(["a"])})
    story.patch({"global": w({"[1]": "b"})})
    assert story.names() == {"wrong-receipt"}


def test_an_empty_object_in_the_end_is_a_wrong_end() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.end(global_={"working": {"k": "a", "hollow": {}}})
    assert story.rules() == {"wrong-final": ()}


def test_an_edit_that_hit_another_element_is_a_wrong_end() -> None:
    story = Story()
    story.patch({"global": w(["a", "b"])})
    story.patch({"global": w({"[0]": "c"})})
    story.history.final.append(FinalScope("", w(["a", "c"]), 2))
    assert story.names() == {"wrong-final"}


def test_files_that_say_something_else_are_bad() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.history.final.append(FinalScope("", w("a"), 1, file_value=w("b")))
    assert story.rules() == {"bad-file": ()}


def test_files_that_can_not_be_read_are_bad() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.history.final.append(FinalScope("", w("a"), 1, file_problem="no JSON"))
    assert story.rules() == {"bad-file": ()}


def test_a_power_cut_may_take_a_tail_only_where_that_was_accepted() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.patch({"global": w("b")})
    story.history.cuts.append(PowerCut(1.8, 1))
    story.end(global_=w("a"))
    assert story.rules() == {"lost-tail": (2,)}
    story.history.may_lose_tail = True
    assert story.rules() == {}
    story.history.lives.append(Life("p1", 0.0, 1.8, "power"))
    assert story.rules() == {"lost-tail": (2,)}


def test_a_power_cut_of_unknown_depth_may_take_a_tail_and_never_the_middle() -> None:
    story = Story()
    story.history.may_lose_tail = True
    for key in "klm":
        story.patch({"global": w("a", key)})
    story.history.final = [FinalScope("", {"working": {"k": "a"}}, 1)]
    assert check(story.history) == []
    story.history.final = [FinalScope("", {"working": {"k": "a", "m": "a"}}, 2)]
    assert story.names() == {"lost-write"}


def test_rows_after_a_power_cut_have_the_numbers_of_those_that_are_gone() -> None:
    story = Story()
    story.history.may_lose_tail = True
    story.patch({"global": w("a")}, "g1c0s0")
    story.patch({"global": w("b")}, "g2c0s0")
    story.history.cuts.append(PowerCut(1.8, 1))
    story.patch({"global": w("c", "l")}, "g2c0s0", seq=2, process="p2")
    story.read("global.working", {"k": "a", "l": "c"}, process="p2")
    story.history.final.append(FinalScope("", {"working": {"k": "a", "l": "c"}}, 2))
    assert story.rules() == {}


def test_an_unseen_call_that_is_there_proves_the_store_a_liar() -> None:
    story = Story()
    story.patch({"global": w("a")}, ending="unknown")
    story.history.outcomes["r1"] = None
    story.end(global_=w("a"))
    assert story.rules() == {"outcome-lies": (1,)}


def test_a_stored_call_that_is_not_there_proves_the_store_a_liar() -> None:
    story = Story()
    story.patch({"global": w("a")}, ending="unknown")
    story.history.outcomes["r1"] = 1
    story.end(global_={})
    assert story.names() == {"outcome-lies"}


def test_an_unanswered_call_may_be_there_or_not_as_the_store_says() -> None:
    story = Story()
    story.patch({"global": w("a")}, ending="unknown")
    story.history.outcomes["r1"] = 1
    story.patch({"cwd": w("b")}, ending="unknown")
    story.history.outcomes["r2"] = None
    story.end(global_=w("a"), cwd={})
    story.history.final[1] = FinalScope("--a--", {}, 0)
    assert story.rules() == {}


def test_nothing_is_judged_by_a_call_of_which_nobody_knows_anything() -> None:
    for value in ({}, w("a")):
        story = Story()
        story.patch({"global": w("a")}, ending="unknown")
        story.history.final.append(FinalScope("", value, len(value)))
        assert story.rules() == {}
    story.history.final.append(FinalScope("--a--", w("b"), 1))
    assert story.rules() == {"phantom-write": ()}


def test_an_accepted_request_that_is_unseen_in_the_end_was_forgotten() -> None:
    story = Story()
    story.patch({"global": w("a")})
    story.history.outcomes["r1"] = None
    story.end(global_=w("a"))
    assert story.rules() == {"forgotten-request": (1,)}


def test_a_violation_is_told_with_who_when_what_and_answer() -> None:
    story = Story()
    story.patch({"global": w("a")}, "g1c0s0")
    story.read("global.working.k", None)
    (violation,) = check(story.history)
    assert told(violation, story.history).splitlines() == [
        "stale-read: call 2 read at global.working.k (working.k) something older than its process had seen",
        '  #1 p1 /a s 0.000000..0.500000 patch {"global":{"working":{"k":"a"}}} -> row 1 g1c0s0',
        "  #2 p1 /a s 1.000000..1.500000 read global.working.k=nothing -> ok",
    ]


def test_the_page_on_the_checker_says_what_each_rule_is() -> None:
    table = rows(sections("docs/explanation/history-checker.md")["The rules"])
    assert [row[0].strip("`") for row in table[1:]] == [*RULES]


def test_every_rule_is_planted_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [rule for rule in RULES if f'"{rule}"' not in source] == []
