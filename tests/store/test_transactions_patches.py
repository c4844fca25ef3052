"""Patches of a transaction: seen by its own reads, one transition in the end, and refused without a trace."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kit.tiny_stores import TinyStore, conflicts_of
from strataflow.store import CallError, ReadError, SessionAddress


@pytest.fixture
def store() -> TinyStore:
    return TinyStore()


@pytest.fixture
def main(store: TinyStore) -> SessionAddress:
    address = store.open("main")
    store.patch(address, cwd={"working": {"n": 1, "list": [1, 2, 3], "tree": {"a": 1, "b": {"c": 2}}}})
    return address


# -- own patches -------------------------------------------------------------------------------------------------------


def test_several_patches_are_one_transition_with_one_net_record(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"n": 5, "draft": "x"}}})
    attempt.patch({"cwd": {"working": {"draft": None, "list": [9]}}, "session": {"lazy": {"a": 1}}})
    attempt.patch({"cwd": {"working": {"n": 6}}})
    rows = store.rows
    receipt = store.finish(main, attempt)
    assert (store.rows, receipt.scopes, receipt.changed) == (rows + 1, ("cwd", "session"), True)
    assert store.memory.images["--project--"].state.tail[-1].patch == {"working": {"n": 6, "list": [9]}}  # type: ignore[union-attr]
    assert receipt.replaced == {"/cwd/working/n": 1, "/cwd/working/list": [1, 2, 3]}
    assert receipt.text == "\nPatch accepted in cwd+session scopes."


def test_patches_that_undo_each_other_are_no_transition(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"n": 5}}})
    attempt.patch({"cwd": {"working": {"n": 1}}})
    rows = store.rows
    receipt = store.finish(main, attempt)
    assert (store.rows, receipt.changed, receipt.transition_id) == (rows, False, None)
    assert receipt.text.startswith("\nAlready current in cwd scope")


def test_own_patches_do_not_hide_that_what_they_rest_on_changed(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"tree": {"a": 100}}}})
    attempt.read("cwd.working.tree.a")  # what this patch says, whatever was there before
    attempt.read("cwd.working.tree")
    store.patch(main, cwd={"working": {"tree": {"a": 2}}})
    assert conflicts_of(store, main, attempt) == []
    store.patch(main, cwd={"working": {"tree": {"b": {"c": 3}}}})
    ((path, _, read, now),) = conflicts_of(store, main, attempt)
    assert path == "cwd.working.tree"
    assert (read, now) == ({"a": 100, "b": {"c": 2}}, {"a": 100, "b": {"c": 3}})


def test_a_cascade_is_worked_out_on_memory_as_it_is_at_the_end(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, cwd={"intents": {"ship": {"notes": {"$ref": "cwd.working.tree"}}}})
    attempt = store.begin(main)
    attempt.patch({"cwd": {"intents": {"ship": None}}})
    store.patch(main, cwd={"intents": {"keep": {"also": {"$ref": "cwd.working.tree.a"}}}})
    receipt = store.finish(main, attempt)
    assert receipt.cascaded == ()
    assert store.read(main, "cwd.working.tree.a") == 1


def test_missing_deletions_and_cascades_of_all_patches_are_told(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, cwd={"intents": {"ship": {"notes": {"$ref": "cwd.working.tree"}}}})
    attempt = store.begin(main)
    attempt.patch({"cwd": {"intents": {"ship": None}}})
    attempt.patch({"cwd": {"lazy": {"nope": None}}})
    receipt = store.finish(main, attempt)
    assert receipt.cascaded == ("cwd.working.tree",)
    assert [item.path for item in receipt.missing_deletions] == ["/cwd/lazy/nope"]


# -- refused patches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, patch",
    [
        ("E_INDEX", {"working": {"list": {"[7]": 1}, "n": 9}}),
        ("E_NULL", {"working": {"list": [{"a": None}], "n": 9}}),
        ("E_ARTIFACT", {"artifacts": {"card.md": {"kind": 7}}, "working": {"n": 9}}),
        ("E_RETIRED", {"contract": {"compiled_skills": {"a": 1}}, "working": {"n": 9}}),
    ],
)
def test_a_refused_patch_leaves_the_transaction_as_it_was(
    store: TinyStore, main: SessionAddress, code: str, patch: Any
) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"n": 5}}})
    with pytest.raises(CallError) as caught:
        attempt.patch({"global": {"lazy": {"x": 1}}, "cwd": patch})
    assert caught.value.code == code
    assert attempt.read("cwd.working.n").value == 5
    with pytest.raises(ReadError):
        attempt.read("global.lazy.x")
    assert store.finish(main, attempt).scopes == ("cwd",)
    assert store.values(main)[0] == {}


def test_a_refusal_that_would_not_happen_now_is_a_conflict(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    with pytest.raises(CallError):
        attempt.patch({"cwd": {"working": {"list": {"[3]": 4}}}})
    attempt.patch({"cwd": {"working": {"was_short": True}}})
    store.patch(main, cwd={"working": {"list": [1, 2, 3, 4]}})
    assert conflicts_of(store, main, attempt) == [("cwd.working.list", "patch", "E_INDEX", None)]


def test_a_patch_that_would_be_refused_now_is_a_conflict(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"list": {"[2]": 30}}}})
    attempt.read("cwd.working.list[2]")
    store.patch(main, cwd={"working": {"list": [1]}})
    assert conflicts_of(store, main, attempt) == [("cwd.working.list", "patch", None, "E_INDEX")]


def test_patches_that_one_record_can_not_tell_are_refused_at_once(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"list": None}}})
    with pytest.raises(CallError, match="E_INDEX") as caught:
        attempt.patch({"cwd": {"working": {"list": {"[0]": 1}}}})
    assert caught.value.data["pointer"] == "/cwd/working/list"
    attempt.patch({"cwd": {"working": {"list": {"[0]": 1, "name": "x"}}}})
    with pytest.raises(CallError, match="E_INDEX"):
        attempt.patch({"cwd": {"working": {"list": {"name": None}}}})
    store.finish(main, attempt)
    assert store.read(main, "cwd.working.list") == {"[0]": 1, "name": "x"}


def test_arguments_that_no_memory_could_make_right_are_not_in_the_log(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    for arguments in ({}, {"cwd": {}}, {"cwd": {"plane": {}}}, {"cwd": {"working": {"x": object()}}}):
        with pytest.raises(CallError):
            attempt.patch(arguments)
    for path in ("", "cwd.working[", "nowhere.x", 7):
        with pytest.raises(ReadError):
            attempt.read(path)  # type: ignore[arg-type]
    with pytest.raises(ReadError, match="E_READ_SHAPE"):
        attempt.read("cwd.working", "patch")  # type: ignore[arg-type]
    with pytest.raises(ReadError, match="E_READ_SHAPE"):
        attempt.read("cwd.working", "other")  # type: ignore[arg-type]
    assert attempt.log == []


def test_the_caller_may_change_its_patch_afterwards(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    patch: Any = {"cwd": {"working": {"items": [1]}}}
    attempt.patch(patch)
    patch["cwd"]["working"]["items"].append(2)
    store.finish(main, attempt)
    assert store.read(main, "cwd.working.items") == [1]


def test_evidence_goes_with_its_card_also_when_the_card_comes_back(store: TinyStore, main: SessionAddress) -> None:
    card = {"description": "how to build"}
    store.patch(main, cwd={"artifacts": {"/build.md": card, "/other.md": card}})
    image = store.memory.images["--project--"]
    assert image.state is not None
    proof = {"/build.md": {"hash": "a"}, "/other.md": {"hash": "b"}}
    store.memory.images["--project--"] = attrs.evolve(image, state=attrs.evolve(image.state, evidence=proof))
    attempt = store.begin(main)
    attempt.patch({"cwd": {"artifacts": {"/build.md": None}}})
    attempt.patch({"cwd": {"artifacts": {"/build.md": {"description": "how to build it now"}}}})
    store.finish(main, attempt)
    found = store.memory.images["--project--"].state
    assert found is not None
    assert found.evidence == {"/other.md": {"hash": "b"}}
