"""What a patch owes to sources that were read for it, and what its acceptance makes of cards and evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from kit.holds import holds
from strataflow.store.algebra import (
    ARTIFACT_REVISION,
    MISSING,
    SKILL_REVISION,
    Boundary,
    CallError,
    Compilation,
    Fingerprint,
    Json,
    ScopeName,
    ScopeState,
    SkillRead,
    SourceRead,
    StagedCall,
    Unavailable,
    empty_scope,
    replay,
    stage_patch,
)

READ, SKILL = "/src/a.py", "/skills/b/SKILL.md"
SEEN = Fingerprint(12, -5)
HASH = "sha256:" + "ab" * 32
CARD = {"description": "how it parses"}
SKILL_CARD = {"description": "b", "kind": "skill", "compilation": {"does": "b"}}
EMPTY = empty_scope(Boundary("absent", None, 0))


def scope_with(cards: Json, evidence: Mapping[str, Any] | None = None) -> ScopeState:
    value = {"artifacts": cards} if cards else {}
    return attrs.evolve(EMPTY, value=value, base=value, evidence=evidence or {})


def scopes_with(**states: ScopeState) -> dict[ScopeName, ScopeState]:
    return {"global": states.get("global_", EMPTY), "cwd": states.get("cwd", EMPTY), "session": EMPTY}


def counted(scope: ScopeName = "cwd", seen: Any = SEEN) -> Compilation:
    looks = {} if seen is None else {READ: seen}
    return Compilation({READ: SourceRead(READ, scope, SEEN)}, {}, looks)


def skill(scope: ScopeName = "global", source_hash: str | None = HASH, problem: str = "") -> Compilation:
    read = SkillRead(SKILL, scope, source_hash, SEEN if source_hash else None, problem)
    return Compilation({}, {SKILL: read}, {SKILL: SEEN})


def refusal(compilation: Compilation, patches: dict[ScopeName, Json], **states: ScopeState) -> CallError:
    with pytest.raises(CallError) as caught:
        stage_patch(scopes_with(**states), patches, compilation)
    return caught.value


def staged(compilation: Compilation, patches: dict[ScopeName, Json], **states: ScopeState) -> StagedCall:
    return stage_patch(scopes_with(**states), patches, compilation)


@holds("A24", "case agent 152")
def test_an_accepted_card_replaces_the_old_one_whole_and_brings_its_evidence() -> None:
    old = scope_with({READ: {"description": "old", "more": {"x": 1}, "tags": ["t"]}, "/other": CARD})
    found = staged(counted(), {"cwd": {"artifacts": {READ: {**CARD, "none": None}}}}, cwd=old)
    assert found.values["cwd"]["artifacts"] == {READ: CARD, "/other": CARD}
    entry = {"sourceFingerprint": {"size": 12, "mtimeNs": "-5"}, "compilerRevision": ARTIFACT_REVISION}
    assert found.evidence == {"cwd": {READ: entry}}
    assert found.records["cwd"] == {"artifacts": {READ: {"description": "how it parses", "more": None, "tags": None}}}


@holds("A24", "T15")
def test_evidence_alone_is_a_change_and_no_transition() -> None:
    found = staged(counted(), {"cwd": {"artifacts": {READ: CARD}}}, cwd=scope_with({READ: CARD}))
    assert found.changed
    assert not found.records
    again = scope_with({READ: CARD}, found.evidence["cwd"])
    assert not staged(counted(), {"cwd": {"artifacts": {READ: CARD}}}, cwd=again).changed


def test_a_compiled_card_has_its_members_in_the_order_that_a_replay_gives_them() -> None:
    old = scope_with({READ: {"b": {"y": 1, "x": 2}, "description": "old", "a": 1}})
    card = {"a": 2, "description": "new", "b": {"x": 3, "w": 4, "y": 1}}
    found = staged(counted(), {"cwd": {"artifacts": {READ: card}}}, cwd=old)
    replayed = replay(old.value, found.records["cwd"])
    assert repr(found.values["cwd"]) == repr(replayed)
    assert found.values["cwd"]["artifacts"][READ] == card


def test_an_array_of_the_old_card_is_replaced_and_never_edited_in_place() -> None:
    old = scope_with({READ: {**CARD, "steps": [1, 2]}})
    assert refusal(counted(), {"cwd": {"artifacts": {READ: {**CARD, "steps": {"[5]": 1}}}}}, cwd=old).code == "E_INDEX"
    found = staged(counted(), {"cwd": {"artifacts": {READ: {**CARD, "steps": [3]}}}}, cwd=old)
    assert found.values["cwd"]["artifacts"][READ]["steps"] == [3]


@holds("A21", "A23", "case agent 152")
@pytest.mark.parametrize(
    "patches",
    [
        {"session": {"working": {"x": 1}}},
        {"global": {"artifacts": {READ: CARD}}},
        {"cwd": {"artifacts": {READ: None}}},
        {"cwd": {"artifacts": {"/other": CARD}}},
    ],
)
def test_a_patch_without_the_card_of_a_counted_read_is_refused_by_scope_and_path(patches: Any) -> None:
    error = refusal(counted(), patches, cwd=scope_with({READ: CARD}))
    assert error.code == "E_COMPILE_MISSING"
    assert (error.data["scope"], error.data["path"]) == ("cwd", READ)
    assert "cwd" in error.message
    assert READ in error.message


@holds("A22", "T9")
@pytest.mark.parametrize("now", [Fingerprint(13, -5), Fingerprint(12, -4), MISSING, Unavailable("a folder"), None])
def test_a_source_that_is_not_what_was_read_refuses_the_whole_patch(now: Any) -> None:
    mixed: dict[ScopeName, Json] = {"global": {"working": {"x": 1}}, "cwd": {"artifacts": {READ: CARD}}}
    error = refusal(counted(seen=now), mixed)
    assert (error.code, error.data["paths"]) == ("E_SOURCE_CHANGED", [READ])


@holds("T9", "T10")
def test_the_rows_of_compiling_come_in_their_order() -> None:
    both = Compilation({READ: SourceRead(READ, "cwd", SEEN)}, skill("cwd").skills, {READ: MISSING, SKILL: SEEN})
    wrong: dict[ScopeName, Json] = {
        "global": {"artifacts": {SKILL: {}}, "working": {"list": {"[9]": 1}}},
        "cwd": {"artifacts": {SKILL: {}}, "contract": {"compiled_skills": {"x": 1}}},
    }
    state = attrs.evolve(EMPTY, value={"working": {"list": [1]}})
    assert refusal(both, wrong, global_=state).code == "E_SOURCE_CHANGED"  # row 11
    both = attrs.evolve(both, seen={READ: SEEN, SKILL: SEEN})
    assert refusal(both, wrong, global_=state).code == "E_SKILL_SCOPE"  # row 16
    del wrong["global"]["artifacts"]
    assert refusal(both, wrong, global_=state).code == "E_INDEX"  # row 17
    del wrong["global"]
    assert refusal(both, wrong).code == "E_COMPILE_MISSING"  # row 18
    wrong["cwd"]["artifacts"][READ] = {"description": [None]}
    assert refusal(both, wrong).code == "E_SKILL"  # row 19
    wrong["cwd"]["artifacts"][SKILL] = SKILL_CARD
    assert refusal(both, wrong).code == "E_NULL"  # row 20
    wrong["cwd"]["artifacts"][READ] = {"description": " "}
    assert refusal(both, wrong).code == "E_ARTIFACT"  # row 21
    wrong["cwd"]["artifacts"][READ] = CARD
    assert refusal(both, wrong).code == "E_RETIRED"  # row 22


def test_an_empty_card_for_a_counted_read_is_told_what_it_lacks() -> None:
    for card in ({}, {"description": {}}, "text", ["list"]):
        error = refusal(counted(), {"cwd": {"artifacts": {READ: card}}}, cwd=scope_with({READ: CARD}))
        assert error.code == "E_ARTIFACT", card


@holds("A31", "A34", "case agent 156")
def test_a_skill_card_without_anything_is_refused_in_one_line_with_three_problems() -> None:
    error = refusal(skill(), {"global": {"artifacts": {SKILL: {}}}})
    assert error.code == "E_SKILL"
    assert len(error.data["problems"]) == 3
    assert "\n" not in error.message
    assert f'global.artifacts["{SKILL}"]' in error.message
    for word in ("description", "kind", "compilation"):
        assert word in error.message


@holds("A31", "A34")
@pytest.mark.parametrize(
    "change, word",
    [
        ({"description": " "}, "description"),
        ({"kind": "Skill"}, "kind"),
        ({"compilation": {}}, "compilation"),
        ({"compilation": {"gone": None}}, "compilation"),
        ({"compilation": "text"}, "compilation"),
    ],
)
def test_each_part_that_a_skill_card_needs_is_asked_for(change: Json, word: str) -> None:
    error = refusal(skill(), {"global": {"artifacts": {SKILL: {**SKILL_CARD, **change}}}})
    assert error.code == "E_SKILL"
    assert [problem.split()[0] for problem in error.data["problems"]] == [word]


@holds("A32")
def test_a_skill_card_replaces_the_old_one_and_is_proven_by_its_hash() -> None:
    old = scope_with({SKILL: {**CARD, "old": 1}})
    found = staged(skill(), {"global": {"artifacts": {SKILL: SKILL_CARD}}}, global_=old)
    assert found.values["global"]["artifacts"][SKILL] == SKILL_CARD
    assert found.evidence["global"] == {SKILL: {"sourceHash": HASH, "compilerRevision": SKILL_REVISION}}


@holds("A33")
def test_a_skill_card_in_another_scope_is_refused_with_the_right_target() -> None:
    error = refusal(skill(), {"cwd": {"artifacts": {SKILL: SKILL_CARD}}})
    assert (error.code, error.data["scope"], error.data["target"]) == ("E_SKILL_SCOPE", "cwd", "global")
    assert f'global.artifacts["{SKILL}"]' in error.message


@holds("A33", "A10")
def test_a_skill_card_may_be_deleted_from_a_scope_that_it_left() -> None:
    moved: dict[ScopeName, Json] = {
        "global": {"artifacts": {SKILL: SKILL_CARD}},
        "cwd": {"artifacts": {SKILL: None}},
    }
    found = staged(skill(), moved, cwd=scope_with({SKILL: SKILL_CARD}))
    assert found.values["cwd"] == {}
    assert found.values["global"]["artifacts"] == {SKILL: SKILL_CARD}


@holds("A30", "A35", "case agent 155")
def test_a_skill_that_could_not_be_hashed_refuses_its_card_and_nothing_else() -> None:
    unhashed = skill(source_hash=None, problem="permission denied")
    assert staged(unhashed, {"session": {"working": {"x": 1}}}).changed
    assert staged(skill(), {"session": {"working": {"x": 1}}}).changed
    error = refusal(unhashed, {"global": {"artifacts": {SKILL: SKILL_CARD}}})
    assert error.code == "E_SKILL"
    assert "permission denied" in error.message


@holds("A22")
def test_a_skill_that_changed_after_it_was_read_refuses_its_own_card_only() -> None:
    changed = attrs.evolve(skill(), seen={SKILL: Fingerprint(99, 1)})
    assert staged(changed, {"session": {"working": {"x": 1}}}).changed
    assert refusal(changed, {"global": {"artifacts": {SKILL: SKILL_CARD}}}).code == "E_SOURCE_CHANGED"


@holds("store 1.5.8", "A24")
def test_evidence_of_other_cards_stays_and_that_of_deleted_ones_goes() -> None:
    proof = {"sourceFingerprint": {"size": 1, "mtimeNs": "1"}, "compilerRevision": ARTIFACT_REVISION}
    old = scope_with({"/kept": CARD, "/gone": CARD}, {"/kept": proof, "/gone": proof})
    found = staged(counted(), {"cwd": {"artifacts": {READ: CARD, "/gone": None}}}, cwd=old)
    assert found.evidence["cwd"].keys() == {"/kept", READ}
