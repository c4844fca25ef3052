"""Intent ownership (O1 to O12): what a deleted intent takes with it."""

from __future__ import annotations

from typing import Any

from kit.holds import holds
from strataflow.store.algebra import Boundary, ScopeState, stage_patch
from strataflow.store.algebra.staging import StagedCall

Json = dict[str, Any]


def staged(value: Json, patch: Json) -> StagedCall:
    state = ScopeState(value=value, revision=0, base=value, base_boundary=Boundary("origin", None, 1))
    return stage_patch({"cwd": state}, {"cwd": patch})


def closing(intents: Json, **planes: Json) -> StagedCall:
    """All intents are deleted in a scope with the given planes."""
    return staged({"intents": intents, **planes}, {"intents": dict.fromkeys(intents)})


@holds("O1", "O4", "case agent 76")
def test_deleting_an_intent_deletes_what_it_owns_and_records_it() -> None:
    refs = [{"$ref": "cwd.working.step"}, {"deep": [{"$ref": "cwd.working.notes.a"}]}, {"$ref": "cwd.lazy.plan"}]
    value = {"working": {"step": 1, "notes": {"a": 1, "b": 2}}, "lazy": {"plan": [1], "keep": 1}}
    outcome = closing({"task": refs}, **value)
    assert outcome.values["cwd"] == {"working": {"notes": {"b": 2}}, "lazy": {"keep": 1}}
    assert outcome.cascaded == ("cwd.lazy.plan", "cwd.working.notes.a", "cwd.working.step")
    assert outcome.records["cwd"] == {
        "intents": None,
        "working": {"step": None, "notes": {"a": None}},
        "lazy": {"plan": None},
    }


@holds("O4", "P19", "case store 65")
def test_a_cascade_that_empties_planes_records_whole_planes() -> None:
    outcome = closing(
        {"t": [{"$ref": "cwd.working.step"}, {"$ref": "cwd.lazy.plan"}]}, working={"step": 1, "o": 2}, lazy={"plan": 1}
    )
    assert outcome.records["cwd"] == {"intents": None, "working": {"step": None}, "lazy": None}


@holds("O2", "O3", "O10", "O11", "case agent 77", "case agent 85")
def test_references_that_are_not_valid_targets_own_nothing() -> None:
    references = [
        "cwd.contract.t",
        "cwd.working",
        "cwd.lazy.plan[0]",
        "working.t",
        "effective.working.t",
        "cwd[0].working.t",
        "cwd.working.gone",
        "global.working.t",
        "cwd.working.naïve",
        "cwd.working.a b",
        "cwd.working.t\n",
        "cwd.artifacts.t",
        "cwd.intents.x",
        "cwd.working.plan.0",
        5,
        None,
        {"$ref": 1},
    ]
    planes: Json = {"contract": {"t": 1}, "working": {"t": 1, "naïve": 1, "a b": 1, "plan": [1]}, "lazy": {"plan": [1]}}
    outcome = closing({"x": [{"$ref": reference} for reference in references] + ["$cwd.working.t"]}, **planes)
    assert outcome.values["cwd"] == planes
    assert outcome.cascaded == ()


@holds("O7", "case agent 78")
def test_writes_in_the_deleting_patch_do_not_save_a_target() -> None:
    value = {"working": {"draft": 1}, "intents": {"t": [{"$ref": "cwd.working.draft"}, {"$ref": "cwd.working.new"}]}}
    outcome = staged(value, {"intents": {"t": None}, "working": {"draft": {"v": 2}, "new": 1, "kept": 1}})
    assert outcome.values["cwd"] == {"working": {"kept": 1}}
    assert outcome.records["cwd"] == {"intents": None, "working": {"draft": None, "kept": 1}}


@holds("O5", "case agent 79")
def test_a_target_with_another_owner_stays() -> None:
    for other in ("cwd.lazy.plan", "cwd.lazy.plan.p.q", "cwd.lazy"):
        value = {
            "lazy": {"plan": {"p": {"q": 1}}},
            "intents": {"old": {"$ref": "cwd.lazy.plan.p"}, "n": {"$ref": other}},
        }
        stays = other != "cwd.lazy"
        assert bool(staged(value, {"intents": {"old": None}}).cascaded) != stays


@holds("O6", "case agent 80")
def test_a_replacing_intent_in_the_same_patch_spares_the_target() -> None:
    value = {"lazy": {"plan": {"p": 1}}, "intents": {"old": {"$ref": "cwd.lazy.plan"}}}
    outcome = staged(value, {"intents": {"old": None, "next": {"$ref": "cwd.lazy.plan.p"}}})
    assert outcome.values["cwd"]["lazy"] == {"plan": {"p": 1}}


@holds("O8", "case agent 81")
def test_editing_an_intent_deletes_nothing() -> None:
    value = {"lazy": {"plan": 1}, "intents": {"t": {"$ref": "cwd.lazy.plan"}}}
    assert staged(value, {"intents": {"t": "plain text"}}).values["cwd"]["lazy"] == {"plan": 1}


@holds("O8", "case agent 82")
def test_an_intent_emptied_by_the_patch_counts_as_deleted() -> None:
    value = {"lazy": {"plan": 1}, "intents": {"t": {"$ref": "cwd.lazy.plan"}}}
    outcome = staged(value, {"intents": {"t": {"$ref": None}}})
    assert outcome.values["cwd"] == {}
    assert outcome.cascaded == ("cwd.lazy.plan",)


@holds("O12", "case agent 83")
def test_deleting_an_absent_intent_is_a_no_op_without_cascade() -> None:
    value = {"lazy": {"plan": 1}, "intents": {"t": {"$ref": "cwd.lazy.plan"}}}
    outcome = staged(value, {"intents": {"other": None}})
    assert not outcome.changed
    assert outcome.cascaded == ()


@holds("O9", "Ours-8", "case agent 84")
def test_only_the_highest_targets_are_listed_by_code_point() -> None:
    refs = ["cwd.working.z", "cwd.working.a.x", "cwd.working.a", "cwd.lazy.a-b", "cwd.lazy.a.x"]
    planes = {"working": {"a": {"x": 1}, "z": 1, "k": 1}, "lazy": {"a": {"x": 1}, "a-b": 1}}
    outcome = closing({"t": [{"$ref": reference} for reference in refs]}, **planes)
    assert outcome.cascaded == ("cwd.lazy.a-b", "cwd.lazy.a.x", "cwd.working.a", "cwd.working.z")


@holds("P10", "O7")
def test_a_null_that_goes_with_a_cascade_is_never_stored_and_not_refused() -> None:
    value = {"working": {"d": [1], "k": 1}, "intents": {"t": {"$ref": "cwd.working.d"}}}
    assert staged(value, {"intents": {"t": None}, "working": {"d": [None]}}).values["cwd"] == {"working": {"k": 1}}
