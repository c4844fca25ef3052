"""What a patch call may look like, and in which order it is judged (T7 to T10)."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from kit.holds import holds
from strataflow.store.algebra import CallError, ReadError, check_patch_arguments, check_read_arguments, stage_patch
from strataflow.store.algebra.cards import RUNTIME_MEMBERS
from strataflow.store.algebra.history import Boundary, empty_scope

EMPTY = empty_scope(Boundary("origin", None, 1))


def code(arguments: Any) -> str:
    """The code with which a call on empty scopes is refused."""
    with pytest.raises(CallError) as caught:
        stage_patch(dict.fromkeys(("global", "cwd", "session"), EMPTY), check_patch_arguments(arguments))
    return caught.value.code


@holds("T7", "T9", "case agent 40")
@pytest.mark.parametrize(
    "arguments, expected",
    [
        (None, "E_SHAPE"),
        ([], "E_SHAPE"),
        ({}, "E_NO_SCOPE"),
        ({"final": False}, "E_FIELD"),
        ({"unchanged": True}, "E_FIELD"),
        ({"scope": "cwd", "patch": {}}, "E_FIELD"),
        ({"session": {}}, "E_SCOPE_EMPTY"),
        ({"session": {"working": {"a": 1}}, "extra": 1}, "E_FIELD"),
        ({1: {}}, "E_FIELD"),
        ({"global": None}, "E_SCOPE_SHAPE"),
        ({"global": [1]}, "E_SCOPE_SHAPE"),
    ],
)
def test_an_input_of_the_wrong_shape_is_rejected(arguments: Any, expected: str) -> None:
    assert code(arguments) == expected


@holds("T8", "T9", "P22", "case agent 41")
@pytest.mark.parametrize("plane", ["contrcat", "notes", "beacon.contract", "response"])
def test_an_unknown_plane_is_quoted_and_the_allowed_ones_are_listed(plane: str) -> None:
    with pytest.raises(CallError, match=f'"{plane}".*intents, contract, working, artifacts, lazy') as caught:
        check_patch_arguments({"session": {plane: {}}})
    assert caught.value.code == "E_PLANE"


@holds("T8", "T9", "case agent 42")
@pytest.mark.parametrize("content", [None, 42, [], "x"])
def test_a_plane_that_is_no_object_is_rejected(content: Any) -> None:
    assert code({"cwd": {"lazy": content}}) == "E_PLANE_SHAPE"


@holds("P4", "P17", "case agent 43")
def test_a_null_in_an_array_of_one_scope_rejects_the_others_too() -> None:
    assert code({"global": {"working": {"ok": 1}}, "cwd": {"working": {"a": [null_deep()]}}}) == "E_NULL"


def null_deep() -> Any:
    return {"x": [[None]]}


@holds("Ours-5", "T65", "case agent 44")
def test_infinity_and_cycles_are_rejected_and_a_long_string_is_accepted() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert code({"cwd": {"working": {"a": float("inf")}}}) == "E_JSON"
    assert code({"cwd": {"working": {"a": ring}}}) == "E_JSON"
    assert check_patch_arguments({"cwd": {"working": {"a": "x" * 10**6}}})


@holds("T9", "case agent 45")
def test_retired_skills_are_rejected_unless_they_come_to_nothing() -> None:
    assert code({"cwd": {"contract": {"compiled_skills": {"a": 1}}}}) == "E_RETIRED"
    for harmless in (None, {}, {"a": None}):
        assert not stage_patch({"cwd": EMPTY}, {"cwd": {"contract": {"compiled_skills": harmless}}}).changed


@holds("A9", "case agent 148")
@pytest.mark.parametrize("member", sorted(RUNTIME_MEMBERS))
@pytest.mark.parametrize("scope", ["global", "cwd", "session"])
def test_a_runtime_member_cannot_be_authored_on_a_card(member: str, scope: str) -> None:
    for value in ("x", None):
        assert code({scope: {"artifacts": {"/x": {"description": "d", member: value}}}}) == "E_PROVENANCE"
    nested = {scope: {"artifacts": {"/x": {"description": "d", "compilation": {member: "x"}}}}}
    assert check_patch_arguments(nested) == nested


@holds("A1-A6")
@pytest.mark.parametrize(
    "card",
    [
        {"kind": "doc"},
        {"description": " \t"},
        {"description": "d", "kind": " "},
        {"description": "d", "kind": 1},
        {"description": "d", "tags": ["a", "a"]},
        {"description": "d", "tags": [""]},
        {"description": "d", "tags": [" a"]},
        {"description": "d", "tags": [1]},
        {"description": "d", "compilation": "text"},
        "text",
    ],
)
def test_an_invalid_card_is_rejected_by_name(card: Any) -> None:
    assert code({"cwd": {"artifacts": {"/x": card}}}) == "E_ARTIFACT"


@holds("A6")
def test_unknown_members_of_a_card_are_accepted_as_they_are() -> None:
    card = {"description": "d", "tags": ["a", "b"], "kind": "k", "compilation": {"x": 1}, "mine": [1]}
    assert stage_patch({"cwd": EMPTY}, {"cwd": {"artifacts": {"/x": card}}}).values["cwd"]["artifacts"]["/x"] == card


@holds("T9", "T10")
def test_each_check_runs_over_all_scopes_before_the_next() -> None:
    assert code({"session": {"working": {"a": float("nan")}}, "global": {"nope": 1}}) == "E_JSON"
    assert code({"global": {"working": 5}, "cwd": {"nope": {}}}) == "E_PLANE"
    assert code({"global": {"artifacts": {"/x": {"hint": 1}}}, "cwd": {"lazy": 5}}) == "E_PLANE_SHAPE"
    assert code({"global": None, "other": 1}) == "E_FIELD"
    assert code({"global": {}, "cwd": None}) == "E_SCOPE_SHAPE"


@holds("T11")
def test_a_later_change_by_the_caller_does_not_reach_the_checked_patch() -> None:
    arguments: Any = {"session": {"working": {"l": [1]}}, "global": {"lazy": {"a": 1}}}
    patches = check_patch_arguments(arguments)
    arguments["session"]["working"]["l"].append(2)
    assert patches == {"global": {"lazy": {"a": 1}}, "session": {"working": {"l": [1]}}}
    assert list(patches) == ["global", "session"]


@holds("Ours-5")
def test_a_subclass_of_dict_around_the_scopes_is_no_plain_json() -> None:
    assert code(collections.OrderedDict(cwd={"working": {}})) == "E_JSON"


@holds("Ours-9")
def test_an_error_shows_little_of_an_offending_value() -> None:
    with pytest.raises(CallError) as caught:
        check_patch_arguments({"session": {"x" * 10**6: {}}})
    assert len(str(caught.value)) < 300


@holds("T33", "T34", "case agent 15")
@pytest.mark.parametrize(
    "arguments",
    [
        None,
        {},
        {"projection": "keys"},
        {"path": "cwd", "paths": ["cwd"]},
        {"path": 1},
        {"path": None},
        {"paths": []},
        {"paths": "cwd"},
        {"paths": ["cwd", 1]},
        {"path": "cwd", "offset": 1},
        {"path": "cwd", "projection": "values"},
        {"path": "cwd", "projection": []},
    ],
)
def test_a_read_of_the_wrong_shape_is_rejected(arguments: Any) -> None:
    with pytest.raises(ReadError, match="E_READ_SHAPE"):
        check_read_arguments(arguments)
