"""Receipts of accepted patches: what they tell and what they leave out (T19 to T32, cases 86 to 104)."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from kit.conversations import Conversation, content_of, dump, id_of, updates_in
from kit.holds import holds
from strataflow.store.projection import receipt_text

Json = dict[str, Any]


def known(**scopes: Json) -> Conversation:
    """A conversation whose head shows a memory that begins with these scopes."""
    talk = unknown(**scopes)
    talk.run("work")
    talk.request()
    return talk


def unknown(**scopes: Json) -> Conversation:
    """The same before any head."""
    talk = Conversation()
    if scopes:
        talk.patch(is_silent=True, **scopes)
    return talk


def entries(updates: Json | None) -> list[Json]:
    """The entries of a receipt that must exist."""
    assert updates is not None
    found: list[Json] = updates["effective"]
    return found


@holds("T19", "T21", "case agent 86")
def test_a_write_that_comes_out_as_written_has_no_second_block() -> None:
    talk = known(session={"working": {"key": 1}})
    assert talk.patch(session={"working": {"key": 2}}) is None
    assert len(talk.native[-1]["content"]) == 1


@holds("T19", "T21")
def test_a_receipt_names_the_head_and_is_one_line_of_json() -> None:
    talk = known(session={"working": {"key": 1}})
    talk.foreign(cwd={"working": {"é": 1}, "lazy": {"l": 2}})
    updates = talk.patch(session={"intents": {"i": {"$ref": "session.working.key"}}})
    assert updates is not None
    assert updates["projection"] == id_of(talk.sent[-1].messages)
    text = receipt_text(updates, dump)
    assert text == "\n" + json.dumps({"state_updates": updates}, ensure_ascii=False, separators=(",", ":"))
    assert talk.native[-1]["content"][1] == {"type": "text", "text": text}
    updates = talk.patch(session={"intents": {"i": None}})
    assert list(updates or {}) == ["projection", "effective", "cascaded"]


@holds("T23", "case agent 87")
def test_a_broad_write_tells_the_narrower_value_that_masks_it() -> None:
    talk = known(session={"working": {"x": "mine"}})
    assert entries(talk.patch(global_={"working": {"x": "theirs"}})) == [{"path": ["working", "x"], "value": "mine"}]
    deeper = talk.patch(cwd={"working": {"x": {"deep": {"er": 1}}}})
    assert entries(deeper) == [{"path": ["working", "x"], "value": "mine"}]


@holds("T24", "T25", "T27", "case agent 88")
def test_only_what_others_changed_is_told_beside_an_own_write() -> None:
    talk = known(global_={"working": {"theirs": 1}})
    talk.foreign(global_={"working": {"theirs": 2}})
    assert entries(talk.patch(session={"working": {"own": 1}})) == [{"path": ["working", "theirs"], "value": 2}]
    # It was told; neither another patch nor the next request repeats it.
    assert talk.patch(session={"working": {"own": 2}}) is None
    assert updates_in(talk.request()) == []


@holds("T31", "T16", "case agent 89")
def test_a_repeated_write_still_tells_what_others_changed() -> None:
    talk = known(session={"working": {"own": 1}})
    step = talk.session().step
    talk.foreign(global_={"working": {"theirs": 2}})
    assert entries(talk.patch(session={"working": {"own": 1}})) == [{"path": ["working", "theirs"], "value": 2}]
    assert talk.session().step == step
    assert "Already current" in talk.native[-1]["content"][0]["text"]


@holds("T23", "case agent 90")
def test_deleting_an_override_tells_the_value_that_shows_again() -> None:
    talk = known(global_={"working": {"x": "broad"}}, session={"working": {"x": "narrow"}})
    assert entries(talk.patch(session={"working": {"x": None}})) == [{"path": ["working", "x"], "value": "broad"}]


@holds("T22", "T27", "case agent 91")
def test_deleting_the_only_key_of_a_plane_tells_that_the_plane_is_gone() -> None:
    talk = known(session={"working": {"x": 1}})
    assert entries(talk.patch(session={"working": {"x": None}})) == [{"path": ["working"], "deleted": True}]


@holds("T27", "case agent 92")
def test_deleting_what_was_never_visible_tells_nothing() -> None:
    talk = known(session={"working": {"x": 1}})
    assert talk.patch(cwd={"working": {"never": None, "x": {"deep": None}}}, session={"contract": {"no": None}}) == {
        "projection": id_of(talk.sent[-1].messages),
        "effective": [{"path": ["working", "x"], "value": 1}],
    }
    assert talk.patch(cwd={"working": {"never": None}}, session={"contract": {"no": None}}) is None


@holds("T27")
def test_a_deletion_behind_a_narrower_value_tells_nothing_new() -> None:
    talk = known(cwd={"working": {"x": "broad"}}, session={"working": {"x": "narrow"}})
    assert talk.patch(cwd={"working": {"x": None}}) is None


@holds("T27", "case agent 93")
def test_two_scopes_that_write_one_place_are_told_unless_the_session_ends_it() -> None:
    talk = known(session={"working": {"z": {"c": 0}}})
    assert talk.patch(global_={"working": {"x": 1}}, session={"working": {"x": 2}}) is None
    # Two leaves that do not meet.
    assert talk.patch(global_={"working": {"z": {"a": 1}}}, session={"working": {"z": {"b": 2}}}) is None
    updates = talk.patch(global_={"working": {"o": 3}}, session={"working": {"o": {"b": 2}}})
    assert entries(updates) == [{"path": ["working", "o"], "value": {"b": 2}}]
    updates = talk.patch(cwd={"working": {"w": 5}}, global_={"working": {"w": 4}})
    assert entries(updates) == [{"path": ["working", "w"], "value": 5}]


@holds("T27", "case agent 94")
def test_a_new_object_is_told_only_if_something_foreign_stands_in_it() -> None:
    talk = known(session={"working": {"y": 1}})
    assert talk.patch(session={"working": {"fresh": {"nested": {"a": 1}}}}) is None
    talk.foreign(cwd={"working": {"joint": {"theirs": 0}}})
    updates = talk.patch(session={"working": {"joint": {"nested": {"a": 1}}}})
    whole = {"theirs": 0, "nested": {"a": 1}}
    assert entries(updates) == [{"path": ["working", "joint"], "value": whole}]


@holds("T25", "case agent 95")
def test_an_indexed_write_is_foreseen_only_by_whoever_knows_the_array() -> None:
    scopes = {"session": {"working": {"rows": [{"name": "old", "id": 1}]}}}
    patch = {"working": {"rows": {"[0]": {"name": "new"}}}}
    assert known(**scopes).patch(session=patch) is None
    updates = unknown(**scopes).patch(session=patch)
    assert updates == {"projection": None, "effective": [{"path": ["working", "rows", 0, "name"], "value": "new"}]}


@holds("T25", "case agent 96")
def test_an_array_whose_length_others_changed_is_told_whole() -> None:
    talk = known(cwd={"working": {"rows": [{"name": "a"}]}})
    talk.foreign(cwd={"working": {"rows": [{"name": "b"}, {"name": "c"}]}})
    updates = talk.patch(cwd={"working": {"rows": {"[1]": {"name": "own"}}}})
    rows = [{"name": "b"}, {"name": "own"}]
    assert entries(updates) == [{"path": ["working", "rows"], "value": rows}]


@holds("T25")
def test_an_index_beyond_a_masking_array_tells_that_array() -> None:
    talk = known(global_={"working": {"rows": [1, 2, 3]}}, session={"working": {"rows": [9]}})
    updates = talk.patch(global_={"working": {"rows": {"[2]": 7}}})
    assert entries(updates) == [{"path": ["working", "rows"], "value": [9]}]
    updates = talk.patch(global_={"working": {"rows": {"[0]": 7}}})
    assert entries(updates) == [{"path": ["working", "rows", 0], "value": 9}]


@holds("T22")
def test_keys_that_look_like_syntax_are_keys() -> None:
    talk = known(session={"working": {"y": 1}})
    talk.foreign(cwd={"working": {"a.b": {"[0]": 1}}, "contract": {"é": 2}})
    updates = talk.patch(session={"working": {"y": 2}})
    assert entries(updates) == [
        {"path": ["contract", "é"], "value": 2},
        {"path": ["working", "a.b"], "value": {"[0]": 1}},
    ]


@holds("T28", "case agent 97")
def test_navigation_is_told_only_if_the_own_keys_do_not_explain_it() -> None:
    talk = known(session={"lazy": {"plan": "x"}})
    assert talk.patch(session={"lazy": {"notes": ["n"], "plan": {"a": 1}}}) is None
    talk.foreign(cwd={"lazy": {"extra": "secret body"}})
    updates = talk.patch(session={"lazy": {"more": 1}})
    assert updates is not None
    assert updates["effective"] == []
    keys = {"extra": "string", "plan": "object", "notes": "array", "more": "number"}
    assert updates["lazy_navigation"] == {"available": True, "path": "effective.lazy", "keys": keys}
    assert "secret" not in json.dumps(updates)


@holds("T28", "case agent 98")
def test_navigation_is_told_when_a_lazy_key_goes() -> None:
    talk = known(session={"lazy": {"plan": "x", "notes": 1}})
    updates = talk.patch(session={"lazy": {"plan": None}})
    assert updates is not None
    assert updates["lazy_navigation"]["keys"] == {"notes": "number"}
    updates = talk.patch(session={"lazy": {"notes": None}})
    assert updates is not None
    assert updates["lazy_navigation"] == {"available": False, "path": "effective.lazy"}
    # An unavailable catalog is complete: what comes next can be foreseen.
    assert talk.patch(session={"lazy": {"again": "x"}}) is None


@holds("T28")
@pytest.mark.parametrize(
    "before, patch",
    [
        ({"cwd": {"lazy": {"a": 1}}}, {"cwd": {"lazy": {"b": 1}}, "session": {"lazy": {"b": 2}}}),
        ({"cwd": {"lazy": {"a": [1]}}}, {"cwd": {"lazy": {"a": {"x": 1}}}}),
        ({"cwd": {"lazy": {f"k{number}": 1 for number in range(33)}}}, {"cwd": {"lazy": {"k1": None, "k2": None}}}),
        ({"cwd": {"lazy": {f"k{number}": 1 for number in range(32)}}}, {"cwd": {"lazy": {"k33": 1}}}),
    ],
    ids=["two scopes", "onto an array", "unknown before", "unknown after"],
)
def test_a_catalog_that_can_not_be_foreseen_is_told(before: Json, patch: Json) -> None:
    talk = known(**before)
    updates = talk.patch(**patch)
    assert updates is not None
    assert "lazy_navigation" in updates


@holds("T28")
def test_navigation_that_did_not_change_is_not_told() -> None:
    talk = known(session={"lazy": {"plan": "x"}})
    assert talk.patch(session={"lazy": {"plan": "y"}}) is None
    assert talk.patch(cwd={"lazy": {"plan": {"masked": True}}}) is None


CARD = {"description": "what it does", "compilation": {"facts": [1, 2]}}


@holds("T25", "T27", "case agent 99")
def test_a_card_that_merges_as_foreseen_is_not_told_but_a_hint_is() -> None:
    talk = known(cwd={"artifacts": {"/src/a": CARD}})
    assert talk.patch(cwd={"artifacts": {"/src/a": {"kind": "module", "compilation": {"facts": {"[1]": 3}}}}}) is None
    merged = {**CARD, "compilation": {"facts": [1, 3]}, "kind": "module"}
    talk.hints = {"/src/a": "the source is newer"}
    updates = talk.patch(cwd={"artifacts": {"/src/a": {"tags": ["t"]}}})
    hinted = {**merged, "tags": ["t"], "hint": "the source is newer"}
    assert entries(updates) == [{"path": ["artifacts", "/src/a"], "value": hinted}]
    # Known and unchanged it is part of the card.
    assert talk.patch(cwd={"artifacts": {"/src/a": {"tags": ["u"]}}}) is None
    talk.hints = {"/src/a": "newer still"}
    assert len(entries(talk.patch(cwd={"artifacts": {"/src/a": {"tags": ["v"]}}}))) == 1
    talk.hints = {}
    updates = talk.patch(cwd={"artifacts": {"/src/a": {"tags": ["w"]}}})
    assert entries(updates) == [{"path": ["artifacts", "/src/a"], "value": {**merged, "tags": ["w"]}}]


@holds("T27", "T25", "case agent 100")
def test_a_card_edited_behind_a_shorter_array_is_told_as_it_is_seen() -> None:
    talk = known(
        global_={"artifacts": {"/a": {"description": "d", "steps": [1, 2, 3]}}},
        session={"artifacts": {"/a": {"description": "d", "steps": [9]}}},
    )
    updates = talk.patch(global_={"artifacts": {"/a": {"steps": {"[2]": 7}}}})
    assert entries(updates) == [{"path": ["artifacts", "/a"], "value": {"description": "d", "steps": [9]}}]
    assert talk.scopes()["global"].value["artifacts"]["/a"]["steps"] == [1, 2, 7]


@holds("T25")
def test_cards_come_one_by_one_and_deleted_ones_too() -> None:
    talk = known(cwd={"working": {"w": 1}})
    talk.foreign(cwd={"artifacts": {"/a": CARD, "/b": CARD}})
    updates = talk.patch(session={"working": {"y": 2}})
    assert [entry["path"] for entry in entries(updates)] == [["artifacts", "/a"], ["artifacts", "/b"]]
    updates = talk.patch(cwd={"artifacts": {"/a": None}})
    assert entries(updates) == [{"path": ["artifacts", "/a"], "deleted": True}]


@holds("T29", "O7", "case agent 101")
def test_a_cascade_is_listed_even_where_nothing_effective_changed() -> None:
    talk = known(global_={"working": {"keep": 1}})
    for scope in ("global_", "cwd", "session"):
        name = scope.rstrip("_")
        intent = {"task": {"$ref": f"{name}.lazy.deep.{name}"}}
        # Written and closed between two requests: no head ever showed the intents.
        talk.foreign(key="main", **{scope: {"intents": intent, "lazy": {"deep": {name: 1}}}})
    closing = {"intents": {"task": None}}
    updates = talk.patch(global_=closing, cwd=closing, session=closing)
    assert updates is not None
    assert updates["effective"] == []
    assert updates["cascaded"] == ["global.lazy.deep.global", "cwd.lazy.deep.cwd", "session.lazy.deep.session"]


@holds("T29", "case agent 102")
def test_a_cascade_with_a_fallback_tells_the_owner_and_the_value() -> None:
    talk = known(
        global_={"working": {"plan": "broad"}},
        session={"working": {"plan": "narrow"}, "intents": {"task": {"$ref": "session.working.plan"}}},
    )
    updates = talk.patch(session={"intents": {"task": None}})
    assert updates is not None
    assert updates["cascaded"] == ["session.working.plan"]
    assert updates["effective"] == [
        {"path": ["intents"], "deleted": True},
        {"path": ["working", "plan"], "value": "broad"},
    ]


@holds("T32", "case agent 103")
def test_no_receipt_holds_lazy_bodies_or_provenance() -> None:
    talk = known(cwd={"working": {"w": 1}})
    talk.foreign(cwd={"lazy": {"k": {"deep": "body"}}, "artifacts": {"/a": CARD}})
    state = talk.scopes()["cwd"]
    # As an old store may hold it: a card with members of the runtime.
    state.value["artifacts"]["/a"]["compiled_at"] = "2020"
    updates = talk.patch(session={"working": {"y": 2}, "lazy": {"own": "body"}})
    assert "body" not in json.dumps(updates)
    assert "compiled_at" not in json.dumps(updates)
    assert entries(updates) == [{"path": ["artifacts", "/a"], "value": CARD}]


@holds("T32", "case agent 104")
def test_in_passive_mode_no_receipt_shows_an_answer() -> None:
    talk = Conversation(mode="passive")
    talk.say("user", "hello")
    talk.request()
    talk.memory.call("accept_response", {"text": "stored"})
    assert talk.patch(session={"working": {"y": 2}}) is None
    assert updates_in(talk.request()) == []


@holds("T26")
def test_an_entry_above_another_takes_its_place() -> None:
    talk = known(cwd={"working": {"x": {"a": 1, "b": {"c": 2}}}})
    talk.foreign(cwd={"working": {"x": {"b": {"c": 3}}}})
    updates = talk.patch(global_={"working": {"x": 5}})
    assert entries(updates) == [{"path": ["working", "x"], "value": {"a": 1, "b": {"c": 3}}}]


@holds("T25")
def test_an_authored_empty_object_names_no_place() -> None:
    talk = known(session={"working": {"x": 1}})
    assert talk.patch(cwd={"working": {"x": {"y": {}}, "z": {}}, "artifacts": {"/a": {}}}) is None
    assert unknown(cwd={"artifacts": {"/a": CARD}}).patch(cwd={"artifacts": {"/a": {}}}) is None


@holds("T24", "T27")
def test_without_a_head_deletions_are_told_and_writes_are_not() -> None:
    talk = unknown(session={"working": {"x": 1}})
    assert talk.patch(session={"working": {"y": 2}}) is None
    updates = talk.patch(session={"working": {"x": None, "never": None}})
    assert entries(updates) == [
        {"path": ["working", "x"], "deleted": True},
        {"path": ["working", "never"], "deleted": True},
    ]
    assert updates is not None
    assert updates["projection"] is None


@holds("P13", "T23")
def test_the_first_patch_of_an_old_scope_tells_what_its_empty_objects_hid() -> None:
    talk = unknown(global_={"working": {"x": 5}})
    value: Json = {"working": {"x": {}, "y": 1}}
    odd = attrs.evolve(talk.scopes()["session"], value=value, base=value, is_pruned=False)
    talk.memory.scopes["/project", "main"] = odd
    talk.run("work")
    assert content_of(talk.request()[0])["state"] == {"working": {"y": 1}}
    updates = talk.patch(session={"working": {"y": 2}})
    assert entries(updates) == [{"path": ["working", "x"], "value": 5}]


@holds("T27")
def test_an_object_of_indexes_that_replaced_an_unseen_object_is_told() -> None:
    talk = known(cwd={"working": {"x": [1, 2]}})
    talk.foreign(cwd={"working": {"x": None}})
    # The author thinks of the array; the patch makes an object.
    updates = talk.patch(cwd={"working": {"x": {"[0]": 5}}})
    assert entries(updates) == [{"path": ["working", "x"], "value": {"[0]": 5}}]


@holds("T30", "case agent 110")
def test_what_a_receipt_told_is_not_told_again_by_a_request() -> None:
    talk = known(cwd={"working": {"x": 1}})
    talk.foreign(cwd={"working": {"x": 2}})
    assert len(entries(talk.patch(cwd={"working": {"y": 1}}))) == 1
    assert updates_in(talk.request()) == []
    assert talk.rebase is None


@holds("T30")
def test_a_receipt_that_was_lost_is_told_by_the_next_request() -> None:
    talk = known(cwd={"working": {"x": 1}})
    talk.patch(cwd={"working": {"x": 2}})
    # The run was aborted: the host keeps neither the call nor its result.
    del talk.native[-2:]
    talk.patch(cwd={"working": {"z": 3}})
    (update,) = updates_in(talk.request())
    told = [{"path": ["working", name], "value": value} for name, value in (("z", 3), ("x", 2))]
    assert sorted(update["state_updates"]["effective"], key=dump) == sorted(told, key=dump)
    assert updates_in(talk.request()) == [update]


def test_a_receipt_shares_no_container_with_the_memory() -> None:
    talk = known(cwd={"working": {"x": 1}})
    talk.foreign(cwd={"working": {"theirs": {"list": [1]}}})
    updates = talk.patch(cwd={"working": {"y": 1}})
    entries(updates)[0]["value"]["list"].append(2)
    assert talk.scopes()["cwd"].value["working"]["theirs"] == {"list": [1]}


@holds("T25", "T23", "P1")
def test_what_a_scalar_had_hidden_is_told_when_an_object_takes_its_place() -> None:
    talk = known(global_={"working": {"k": {"a": 1, "b": 2}}}, session={"working": {"k": {"a": 3}}})
    hidden = talk.patch(cwd={"working": {"k": "scalar"}})
    assert entries(hidden) == [{"path": ["working", "k"], "value": {"a": 3}}]
    shown = talk.patch(cwd={"working": {"k": {"a": 3}}})
    assert entries(shown) == [{"path": ["working", "k", "b"], "value": 2}]


@holds("T30", "C17")
def test_what_an_arrived_receipt_told_between_two_lost_ones_is_taken_back() -> None:
    talk = known(session={"working": {"a": 1}})
    talk.patch(is_lost=True, session={"working": {"first": True}})
    talk.patch(cwd={"artifacts": {"/q": {"description": "one"}}})
    talk.patch(is_lost=True, cwd={"artifacts": {"/q": None}})
    (update,) = updates_in(talk.request())
    assert update["state_updates"]["effective"] == [
        {"path": ["working", "first"], "value": True},
        {"path": ["artifacts"], "deleted": True},
    ]


@holds("T23", "T27", "case agent 87")
def test_a_broad_write_that_a_narrower_scope_hides_beside_an_object_is_told_to_be_hidden() -> None:
    talk = known(cwd={"contract": {"b": []}}, session={"contract": {"b": {"own": 1}}})
    updates = talk.patch(global_={"contract": {"b": {"new": 2}}})
    assert entries(updates) == [{"path": ["contract", "b", "new"], "deleted": True}]
    assert talk.patch(global_={"contract": {"b": {"gone": None}}}) is None
