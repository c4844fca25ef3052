"""Finding cards by tag, what a host says of its Skills, and plans for reading sources again."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from strataflow.store import CallError
from strataflow.store.artifacts import (
    ReadIntent,
    RegisteredSkill,
    RehydrationPhase,
    RehydrationRoute,
    is_current_skill,
    plan_rehydration,
    select_cards,
    skill_note,
    skills_from,
)

CARDS = {
    "/c": {"description": "c", "tags": ["memory", "store"]},
    "/a": {"description": "a", "tags": ["memory"]},
    "/b": {"description": "b", "tags": ["prompt"]},
    "/none": {"description": "none"},
}
HASH = "sha256:" + "ab" * 32


@holds("A17", "case agent 157")
def test_cards_are_selected_by_all_or_any_of_the_tags_and_sorted() -> None:
    assert select_cards(CARDS, ["memory"]) == ["/a", "/c"]
    assert select_cards(CARDS, ["memory", "store"]) == ["/c"]
    assert select_cards(CARDS, ["store", "prompt"], "any") == ["/b", "/c"]
    assert select_cards(CARDS, ["store", "prompt"], "all") == []


@holds("A17", "case agent 157")
@pytest.mark.parametrize("tags, match", [([], "all"), ([""], "all"), ([" x"], "any"), ([1], "all"), (["x"], "or")])
def test_a_query_without_a_usable_tag_is_an_error(tags: Any, match: Any) -> None:
    with pytest.raises(CallError) as caught:
        select_cards(CARDS, tags, match)
    assert caught.value.code == "E_SHAPE"


# -- Skills -------------------------------------------------------------------------------------------------------


@holds("A26", "case agent 153", "case agent 154")
def test_the_owner_of_a_skill_follows_from_who_brought_it() -> None:
    inventory = [
        RegisteredSkill("/u/SKILL.md", "user"),
        {"path": "p/SKILL.md", "provenance": "project", "source": "skill", "name": "p"},
        {"path": "/t/./SKILL.md", "provenance": "temporary"},
        {"path": "/extension.md", "provenance": "user", "source": "extension"},
        {"path": "/both/SKILL.md", "provenance": "user"},
        {"path": "/both/x/../SKILL.md", "provenance": "project"},
        {"path": "/twice/SKILL.md", "provenance": "user"},
        {"path": "/twice/SKILL.md", "provenance": "user"},
    ]
    assert skills_from(inventory, "/srv") == {
        "/u/SKILL.md": "global",
        "/srv/p/SKILL.md": "cwd",
        "/t/SKILL.md": "session",
        "/twice/SKILL.md": "global",
    }


@holds("A26")
@pytest.mark.parametrize("entry", ["text", {"path": "/a"}, {"path": " ", "provenance": "user"}, {"provenance": "user"}])
def test_an_inventory_of_another_shape_is_refused_whole(entry: Any) -> None:
    with pytest.raises(CallError) as caught:
        skills_from([{"path": "/a", "provenance": "user"}, entry], "/srv")
    assert caught.value.code == "E_SHAPE"


@holds("A28")
def test_a_skill_card_is_current_only_with_kind_compilation_revision_and_hash() -> None:
    card = {"description": "d", "kind": "skill", "compilation": {"x": 1}}
    entry = {"sourceHash": HASH, "compilerRevision": "skill-artifact-v1"}
    assert is_current_skill(card, entry, HASH)
    for other in (None, {**card, "kind": "note"}, {**card, "compilation": {}}, {"description": "d", "kind": "skill"}):
        assert not is_current_skill(other, entry, HASH)
    for proof in (
        None,
        {},
        {**entry, "compilerRevision": "artifact-v1"},
        {**entry, "sourceHash": "sha256:" + "0" * 64},
    ):
        assert not is_current_skill(card, proof, HASH)
    assert not is_current_skill(card, entry, None)


@holds("A29")
def test_the_note_names_the_target_what_it_needs_and_that_nothing_has_to_be_done() -> None:
    note = skill_note("/u/SKILL.md", "global", "")
    for words in ('global.artifacts["/u/SKILL.md"]', "description", '"skill"', "compilation", "need not"):
        assert words in note
    assert "permission denied" in skill_note("/u/SKILL.md", "global", "permission denied")


# -- plans --------------------------------------------------------------------------------------------------------


def route(path: str, size: int = 10, intent: ReadIntent = "exact-source", **options: Any) -> RehydrationRoute:
    return RehydrationRoute(path, options.pop("scope", "cwd"), size, intent, **options)


@holds("A36", "A37", "case agent 158")
def test_a_route_that_does_not_fit_is_put_off_and_a_smaller_one_after_it_fits() -> None:
    plan = plan_rehydration("step", [route("z", 20), route("b", 80), route("a", 20)], reads_max=2, bytes_max=50)
    assert plan.reads == ("a", "z")
    assert [(item.path, item.reason) for item in plan.deferred] == [("b", "source-byte-limit")]


@holds("A37")
def test_reads_beyond_the_count_are_put_off_and_the_default_is_one() -> None:
    plan = plan_rehydration("step", [route("a"), route("b")])
    assert (plan.reads, [item.reason for item in plan.deferred]) == (("a",), ["read-count-limit"])
    large = plan_rehydration("step", [route("a", (64 << 10) + 1)])
    assert [item.reason for item in large.deferred] == ["source-byte-limit"]


@holds("A36")
@pytest.mark.parametrize("phase", ["new-bootstrap", "resume-bootstrap", "step"])
def test_routes_of_the_session_are_put_off_in_a_new_session_only(phase: RehydrationPhase) -> None:
    plan = plan_rehydration(phase, [route("a", scope="session", must_compile=True), route("b", intent="routine")])
    if phase == "new-bootstrap":
        assert [(item.path, item.reason) for item in plan.deferred] == [("a", "new-session-scope")]
    else:
        assert plan.reads == ("a",)
    assert plan.materialized == ("b",)


@holds("A36")
@pytest.mark.parametrize(
    "intent, is_read",
    [
        ("routine", False),
        ("new-session", False),
        ("relevant-gap", True),
        ("exact-source", True),
        ("exact-edit", True),
        ("contradiction-or-failure", True),
        ("explicit-request", True),
        ("maintenance", True),
    ],
)
def test_the_intent_says_whether_a_source_is_read_or_its_card_kept(intent: ReadIntent, is_read: bool) -> None:
    assert plan_rehydration("step", [route("a", intent=intent)]).reads == (("a",) if is_read else ())
    assert plan_rehydration("step", [route("a", intent=intent, must_compile=True)]).reads == ("a",)
    enough = plan_rehydration("step", [route("a", intent=intent, card_suffices=True)])
    assert bool(enough.reads) == (is_read and intent != "relevant-gap")


@pytest.mark.parametrize(
    "phase, routes, limits",
    [
        ("later", [], {}),
        ("step", [route("a"), route("a")], {}),
        ("step", [route("a", -1)], {}),
        ("step", [route("a", intent="whim")], {}),  # type: ignore[arg-type]
        ("step", [route("a", scope="effective")], {}),
        ("step", [], {"reads_max": True}),
        ("step", [], {"bytes_max": -1}),
    ],
)
def test_a_plan_of_what_can_not_be_is_refused(phase: Any, routes: Any, limits: Any) -> None:
    with pytest.raises(CallError) as caught:
        plan_rehydration(phase, routes, **limits)
    assert caught.value.code == "E_SHAPE"
