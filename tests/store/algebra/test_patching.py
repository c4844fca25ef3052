"""Merging, deleting, pruning, array edits, records and atomicity (P1 to P24, T17)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kit.holds import holds
from kit.pure_harness import PureHarness
from kit.pure_views import ORIGIN, scope
from strataflow.store.algebra import (
    SCOPES,
    Boundary,
    CallError,
    StoreError,
    acknowledgement,
    apply_patch,
    empty_scope,
    prune,
    replay,
    stage_patch,
    stage_response,
)
from strataflow.store.algebra.missing import MissingDeletion

Json = dict[str, Any]


def staged_working(before: Json, patch: Json) -> tuple[Any, list[tuple[str, str]]]:
    """The working plane after a patch of it, and the missing deletions."""
    value = {"working": before} if before else {}
    staged = stage_patch({"session": scope(value)}, {"session": {"working": patch}})
    missing = [(item.path, item.unavailable_path) for item in staged.missing_deletions]
    return staged.values.get("session", value).get("working"), missing


@holds("P1", "P2", "case agent 46")
def test_an_object_merges_and_null_removes_a_key() -> None:
    assert staged_working({"i": {"a": 1, "b": 2}}, {"i": {"a": None, "c": "new"}})[0] == {"i": {"b": 2, "c": "new"}}


@holds("P5", "T17", "case agent 47", "case agent 48")
def test_a_deletion_below_an_absent_parent_changes_nothing_and_is_reported() -> None:
    path = "/session/working/missing/child"
    assert staged_working({}, {"missing": {"child": None}}) == (None, [(path, "/session/working")])
    assert staged_working({"a": 1}, {"missing": {"child": None}})[1] == [(path, "/session/working/missing")]


@holds("T17", "case agent 49")
def test_a_missing_deletion_is_a_json_pointer_with_escapes() -> None:
    _, missing = staged_working({"a/b~c": {"x": 1}}, {"a/b~c": {"leaf": None}})
    assert missing == [("/session/working/a~1b~0c/leaf",) * 2]


@holds("T17", "case agent 50")
def test_array_elements_appear_in_a_missing_deletion_by_their_index() -> None:
    _, missing = staged_working({"items": [{"keep": 1}]}, {"items": {"[0]": {"absent": None}}})
    assert missing == [("/session/working/items/0/absent",) * 2]


@holds("T17")
def test_missing_deletions_come_in_authored_order_depth_first() -> None:
    _, missing = staged_working({"x": 1}, {"z": None, "x": {"deep": {"a": None}}, "b": {"c": None}, "a": None})
    assert [path.removeprefix("/session/working/") for path, _ in missing] == ["z", "x/deep/a", "b/c", "a"]
    assert missing[1][1] == "/session/working/x"


@holds("P3", "T17", "case agent 52")
def test_a_deletion_inside_a_new_object_is_only_a_marker_but_counts_as_missing() -> None:
    after, missing = staged_working({}, {"added": {"discarded": None, "value": 0}})
    assert after == {"added": {"value": 0}}
    assert missing == [("/session/working/added/discarded", "/session/working")]


@holds("T17", "O4")
def test_deleting_what_a_cascade_will_delete_is_not_missing() -> None:
    value = {"working": {"a": 1}, "intents": {"t": {"$ref": "cwd.working.a"}}}
    staged = stage_patch({"cwd": scope(value)}, {"cwd": {"intents": {"t": None}, "working": {"a": None}}})
    assert staged.missing_deletions == ()
    assert staged.cascaded == ()


@holds("T17", "case agent 51", "case agent 53")
def test_a_missing_deletion_in_one_scope_leaves_a_write_in_another_alone() -> None:
    harness = PureHarness()
    answer = harness.call("patch_state", {"global": {"working": {"x": None}}, "cwd": {"working": {"y": 1}}})
    assert answer["revision"] == "g0c1s0"
    assert len(answer["missing_deletions"]) == 1
    assert answer["text"].count("\n\n") == 1


@holds("P24", "T14-T16", "case agent 54")
def test_a_repeated_patch_is_already_current_and_quiet() -> None:
    harness = PureHarness()
    patch = {"session": {"working": {"a": [1, {"b": 2}], "o": {"x": 1}}}}
    assert harness.call("patch_state", patch)["changed"]
    again = harness.call("patch_state", patch)
    assert (again["changed"], again["step"], again["missing_deletions"]) == (False, 1, [])
    assert again["text"].startswith("\nAlready current")


@holds("P20", "T16", "case agent 55")
def test_no_op_deletions_everywhere_are_no_transition() -> None:
    harness = PureHarness()
    planes = ("intents", "contract", "working", "artifacts", "lazy")
    patch = {name: {plane: {"x": None} for plane in planes} for name in ("global", "cwd", "session")}
    answer = harness.call("patch_state", patch)
    assert (answer["changed"], answer["step"], len(answer["missing_deletions"])) == (False, 0, 15)


@holds("P12", "case agent 56")
def test_pruning_removes_empty_members_and_keeps_slots_and_empty_arrays() -> None:
    value = {"chain": {"leaf": {}}, "kept": {"empty": {}, "v": 0}, "items": [{}, {"e": {}}], "list": []}
    assert prune(value) == {"kept": {"v": 0}, "items": [{}, {}], "list": []}
    assert value["chain"] == {"leaf": {}}


@holds("P12", "case agent 57")
def test_emptied_planes_vanish_from_their_scope_only() -> None:
    harness = PureHarness()
    card = {"/x": {"description": "d"}}
    harness.call("patch_state", {"session": {"intents": {"i": "x"}, "artifacts": card}, "cwd": {"intents": {"i": "x"}}})
    harness.call("patch_state", {"session": {"intents": {"i": None}, "artifacts": {"/x": None}, "contract": {}}})
    assert harness.call("read_state", {"paths": ["session", "cwd"]})["value"] == [{}, {"intents": {"i": "x"}}]


@holds("P5", "case agent 58")
def test_a_deletion_below_a_scalar_or_an_array_removes_the_field() -> None:
    after, missing = staged_working({"s": 1, "a": [1], "k": 0}, {"s": {"x": None}, "a": {"x": None}})
    assert after == {"k": 0}
    assert [unavailable for _, unavailable in missing] == ["/session/working/s", "/session/working/a"]


@holds("P12", "P14", "case agent 59-61")
def test_empty_objects_inside_an_array_are_pruned_inside_and_repeat_as_a_no_op() -> None:
    before, _ = staged_working({}, {"whole": [{"empty": {}}, {}, []]})
    assert before == {"whole": [{}, {}, []]}
    assert not stage_patch(
        {"cwd": scope({"working": before})}, {"cwd": {"working": {"whole": [{}, {"empty": {}}, []]}}}
    ).changed


@holds("P12")
def test_an_emptied_array_element_stays_as_an_empty_object() -> None:
    assert staged_working({"l": [{"a": 1}]}, {"l": {"[0]": {"a": None}}})[0] == {"l": [{}]}


@holds("P13")
def test_old_empty_branches_become_deletions_once() -> None:
    old = scope({"working": {"chain": {"empty": {}}, "k": 1}, "lazy": {}}, is_pruned=False)
    staged = stage_patch({"cwd": old}, {"cwd": {"working": {"k": 1}}})
    assert staged.records["cwd"] == {"working": {"chain": None}, "lazy": None}
    after = old.accept(Boundary("t", "origin", 2), staged.records["cwd"], staged.values["cwd"], 7)
    assert not stage_patch({"cwd": after}, {"cwd": {"working": {"k": 1}}}).changed


@holds("P2", "case agent 62")
def test_removing_the_last_local_key_reveals_the_inherited_one() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"global": {"working": {"k": "g"}}, "cwd": {"working": {"k": "c"}}})
    harness.call("patch_state", {"cwd": {"working": {"k": None}}})
    assert harness.call("read_state", {"path": "working.k"}) == {"value": "g"}


@holds("P6", "case agent 63")
def test_index_patches_change_only_the_named_elements() -> None:
    before = ["first", "second", {"note": "old", "keep": True}, ["n", {"value": "old"}]]
    patch = {"[1]": "2nd", "[2]": {"note": "new"}, "[3]": {"[1]": {"value": "new"}}}
    after, _ = staged_working({"m": before}, {"m": patch})
    assert after["m"] == ["first", "2nd", {"note": "new", "keep": True}, ["n", {"value": "new"}]]
    assert before[1] == "second"


@holds("P7", "T9", "case agent 64")
@pytest.mark.parametrize("patch", [{"[2]": 1}, {"[9007199254740992]": 1}, {"[0]": None}, {"[" + "9" * 5000 + "]": 1}])
def test_a_bad_index_is_rejected_with_its_place(patch: Json) -> None:
    before = {"l": [1, 2]}
    with pytest.raises(CallError) as caught:
        staged_working(before, {"l": {"[1]": 5, **patch}})
    assert caught.value.code == "E_INDEX"
    assert caught.value.data["pointer"].startswith("/session/working/l/")
    assert before == {"l": [1, 2]}


def test_a_bad_index_in_a_nested_array_is_named_by_all_its_indexes() -> None:
    with pytest.raises(CallError) as caught:
        staged_working({"l": [0, [1]]}, {"l": {"[1]": {"[7]": 1}}})
    assert caught.value.data["pointer"] == "/session/working/l/1/7"


@holds("P8", "case agent 65", "case agent 67")
def test_an_object_without_indexes_replaces_an_array_and_index_keys_of_objects_are_plain() -> None:
    assert staged_working({"l": [1]}, {"l": {"replacement": True}})[0] == {"l": {"replacement": True}}
    assert staged_working({"l": [1]}, {"l": {"[0]": 1, "x": 2}})[0] == {"l": {"[0]": 1, "x": 2}}
    assert staged_working({"l": {"[0]": "a"}}, {"l": {"[0]": "b"}})[0] == {"l": {"[0]": "b"}}
    assert staged_working({}, {"l": {"[0]": "b"}})[0] == {"l": {"[0]": "b"}}


@holds("Ours-7")
def test_an_array_that_would_become_an_index_object_is_refused() -> None:
    with pytest.raises(CallError, match="E_INDEX"):
        staged_working({"l": [1, 2]}, {"l": {"[0]": 1, "x": None}})


@holds("P17", "case agent 66")
def test_one_bad_index_in_two_scopes_stores_nothing() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"global": {"lazy": {"l": [1]}}, "cwd": {"lazy": {"l": [1]}}})
    with pytest.raises(CallError, match="E_INDEX"):
        harness.call("patch_state", {"global": {"lazy": {"l": {"[0]": 2}}}, "cwd": {"lazy": {"l": {"[1]": 2}}}})
    assert harness.call("read_state", {"path": "global.lazy.l"}) == {"value": [1]}


@holds("P17", "P20", "case agent 68", "case agent 69")
def test_every_combination_of_scopes_is_one_transition_with_one_identity() -> None:
    for mask in range(1, 8):
        harness = PureHarness()
        used = [name for bit, name in enumerate(SCOPES) if mask >> bit & 1]
        answer = harness.call("patch_state", {name: {"working": {"a": 1}} for name in reversed(used)})
        states = harness.states(harness.session())
        identities = {state.newest.id for name, state in states.items() if name in used}
        assert (answer["scopes"], answer["step"], len(identities)) == (used, 1, 1)
        assert [states[name].revision for name in SCOPES] == [int(name in used) for name in SCOPES]


@holds("P18", "case agent 70", "case agent 71")
def test_writes_of_two_sessions_to_different_fields_both_survive() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"global": {"working": {"x": 1, "both": "first"}}}, session="one")
    harness.call("patch_state", {"global": {"working": {"y": 2, "both": "second"}}}, session="two")
    answer = harness.call("read_state", {"path": "global.working"}, session="one")
    assert answer == {"value": {"x": 1, "y": 2, "both": "second"}}


@holds("P21")
def test_staging_changes_neither_the_state_nor_the_patch() -> None:
    value = {"working": {"l": [1, {"a": 1}], "o": {"x": {"y": 1}}}, "intents": {"t": {"$ref": "cwd.working.o"}}}
    patch = {"working": {"l": {"[1]": {"a": 2}}, "n": {"m": [1]}}, "intents": {"t": None}}
    before = copy.deepcopy((value, patch))
    first = stage_patch({"cwd": scope(value)}, {"cwd": patch})
    assert (value, patch) == before
    assert stage_patch({"cwd": scope(value)}, {"cwd": patch}) == first


def test_a_patch_copies_the_path_to_its_change_and_shares_the_rest() -> None:
    value: Json = {"working": {"a": {"x": 1}, "b": {"y": [1]}}, "lazy": {"big": [{}]}}
    after = stage_patch({"cwd": scope(value)}, {"cwd": {"working": {"a": {"x": 2}}}}).values["cwd"]
    assert after["lazy"] is value["lazy"]
    assert after["working"]["b"] is value["working"]["b"]
    assert after["working"] is not value["working"]


@holds("Ours-5", "P15")
def test_a_number_written_in_another_spelling_keeps_the_stored_one() -> None:
    after, _ = staged_working({"a": 1, "l": [1, 2], "o": 0}, {"a": 1.0, "l": [1.0, 2], "o": 5})
    assert repr(after) == "{'a': 1, 'l': [1, 2], 'o': 5}"


@holds("store 1.4.5", "P19")
def test_a_stored_record_may_remove_a_plane_and_must_fit_its_scope() -> None:
    assert replay({"working": {"a": 1}, "response": "x"}, {"working": None, "response": ""}) == {"response": ""}
    with pytest.raises(StoreError, match="E_CORRUPT"):
        replay({"working": {"l": [1]}}, {"working": {"l": {"[3]": 1}}})


@holds("store 1.5.8", "A8", "A10")
def test_evidence_goes_with_its_card_and_does_not_wait_for_a_new_one() -> None:
    cards = {"/a": {"description": "a"}, "/b": {"description": "b"}}
    evidence = {"/a": {"compilerRevision": "artifact-v1"}, "/b": {}, "/stale": {}}
    old = scope({"artifacts": cards, "working": {"x": 1}}, evidence=evidence)
    gone = stage_patch({"cwd": old}, {"cwd": {"artifacts": {"/a": None, "/stale": {"description": "s"}}}})
    assert gone.evidence == {"cwd": {"/b": {}}}
    assert stage_patch({"cwd": old}, {"cwd": {"working": {"x": 2}}}).evidence == {}
    edited = stage_patch({"cwd": old}, {"cwd": {"artifacts": {"/a": {"description": "new"}}}})
    assert edited.evidence == {}
    assert set(evidence) == {"/a", "/b", "/stale"}
    both = stage_patch({"cwd": old}, {"cwd": {"artifacts": {"/a": None, "/b": None}}})
    assert both.records["cwd"] == {"artifacts": None}
    assert both.evidence == {"cwd": {"/stale": {}}}


@holds("P22", "P23", "store 3.4.3", "store 3.4.4", "case store 70-72")
def test_an_answer_is_a_transition_only_if_it_differs() -> None:
    empty = empty_scope(ORIGIN)
    assert stage_response(empty, "Same").records == {"session": {"response": "Same"}}
    answered = scope({"response": "Same", "working": {"a": 1}})
    assert not stage_response(answered, "Same").changed
    cleared = stage_response(answered, "")
    assert cleared.records == {"session": {"response": ""}}
    assert not stage_response(scope(cleared.values["session"]), "").changed
    assert not stage_response(empty, "").changed


@holds("store 3.4.6")
def test_an_answer_cleans_up_the_empty_objects_of_a_foreign_session() -> None:
    old = scope({"response": "Same", "working": {"a": {}}}, is_pruned=False)
    assert stage_response(old, "Same").records == {"session": {"working": None}}


def test_an_answer_that_is_no_storable_text_is_refused() -> None:
    empty = empty_scope(ORIGIN)
    with pytest.raises(CallError, match="E_SHAPE"):
        stage_response(empty, None)  # type: ignore[arg-type]
    with pytest.raises(CallError, match="E_JSON"):
        stage_response(empty, "\ud800")


def test_a_library_patch_returns_a_value_of_its_own() -> None:
    value: Json = {"a": [{"x": 1}], "b": {"c": 1}}
    patch: Json = {"n": {"m": [1]}, "b": {"c": None}}
    after = apply_patch(value, patch)
    assert after == {"a": [{"x": 1}], "n": {"m": [1]}}
    after["a"][0]["x"] = 2
    after["n"]["m"].append(2)
    assert (value["a"], patch["n"]) == ([{"x": 1}], {"m": [1]})
    with pytest.raises(CallError, match="E_NULL"):
        apply_patch({}, {"a": [None]})
    with pytest.raises(CallError, match="E_SHAPE"):
        apply_patch({}, [])  # type: ignore[arg-type]


@holds("T14", "T17")
def test_the_acknowledgement_names_scopes_and_missing_deletions() -> None:
    assert "cwd scope" in acknowledgement(("cwd",), True)
    missing = (MissingDeletion("/cwd/working/x", "/cwd/working"), MissingDeletion("/cwd/lazy/y", "/cwd/lazy/y"))
    text = acknowledgement(("global", "cwd"), False, missing)
    assert text.startswith("\nAlready current in global+cwd scopes")
    assert text.count("\n\n") == 2
    assert "/cwd/working/x" in text
