"""Reading the past: offsets, stored records, the patch projection (T41 to T55, Ours-16)."""

from __future__ import annotations

import pytest

from kit.holds import holds
from kit.pure_harness import PureHarness
from kit.pure_views import ORIGIN, ask, code, scope
from strataflow.store.algebra import (
    SCOPES,
    Boundary,
    Lineage,
    ReadError,
    ScopeName,
    ScopeState,
    TailRecord,
    View,
    empty_scope,
    read,
)


def eight_transitions(limit: int = 7) -> PureHarness:
    harness = PureHarness(limit)
    for number in range(8):
        harness.call("patch_state", {name: {"working": {"n": number}} for name in ("global", "cwd", "session")})
    return harness


@holds("T41", "T42", "store 3.6.4", "case agent 16")
def test_offsets_up_to_the_limit_read_every_retained_state() -> None:
    harness = eight_transitions()
    for root in ("effective", "global", "cwd", "session"):
        paths = [f"{root}[{offset}].working.n" for offset in range(8)]
        assert harness.call("read_state", {"paths": paths}) == {"value": [7, 6, 5, 4, 3, 2, 1, 0]}
        with pytest.raises(ReadError, match=r"E_HISTORY_RANGE.*0 to 7"):
            harness.call("read_state", {"path": f"{root}[8]"})


@holds("T41", "store 3.6.5", "case agent 17")
def test_a_fresh_session_has_nothing_before_its_origin() -> None:
    with pytest.raises(ReadError, match="E_HISTORY_ORIGIN"):
        PureHarness().call("read_state", {"path": "effective[1]"})
    assert PureHarness().call("read_state", {"path": "effective", "projection": "patch"}) == {"patch": {}}


@holds("T43", "store 3.6.6", "case agent 19")
def test_stored_records_are_counted_per_scope_with_their_transition() -> None:
    harness = PureHarness()
    for name, number in (("global", 1), ("session", 2), ("global", 3)):
        harness.call("patch_state", {name: {"lazy": {"t": number}}})
    seen = harness.view(harness.session())
    newest = read(seen, {"path": "global.patches"})
    assert newest.to_json() == {"patch": {"lazy": {"t": 3}}}
    assert newest.transition_id == seen.scopes["global"].newest.id
    assert ask(seen, "global.patches[1]") == {"patch": {"lazy": {"t": 1}}}
    assert code(seen, "cwd.patches") == code(seen, "global.patches[2]") == "E_HISTORY_ORIGIN"
    assert code(seen, "global.patches[8]") == "E_HISTORY_RANGE"


@holds("T43", "case agent 20", "case agent 21")
def test_the_form_of_stored_records_is_special_only_as_a_whole_single_path() -> None:
    seen = eight_transitions().view(PureHarness().session())
    for path in (
        "global[1].patches",
        "effective.patches",
        "cwd.patches.working",
        "cwd.patches[0:1]",
        "cwd.patches[0][0]",
    ):
        assert code(seen, path) == "E_MISSING"
    assert code(seen, "cwd.patches", "keys") == code(seen, "cwd.patches", "patch") == "E_READ_SHAPE"
    assert code(seen, ["cwd.patches", "cwd"]) == "E_MISSING"


@holds("T52", "T53", "case agent 22", "case agent 23")
def test_the_patch_projection_shows_what_changed_along_a_path() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"cwd": {"working": {"rule": "first", "list": [1, 2]}}})
    harness.call("patch_state", {"global": {"working": {"removed": 1}}})
    harness.call("patch_state", {"global": {"working": {"removed": None}}, "cwd": {"working": {"rule": "second"}}})
    seen = harness.view(harness.session())
    assert ask(seen, ["working.rule", "working.removed", "working.removed.deeper"], "patch") == {
        "patch": ["second", None, None]
    }
    assert ask(seen, "cwd.working.missing", "patch") == {"patch": {}}
    assert ask(seen, "cwd[1].working.rule", "patch") == {"patch": {}}
    assert ask(seen, "cwd[2].working.rule", "patch") == {"patch": "first"}
    assert ask(seen, "cwd[1].working.rule") == {"value": "first"}
    assert code(seen, "cwd[2].working[0]", "patch") == "E_KIND"
    assert code(seen, "cwd[2].working.rule.x", "patch") == "E_MISSING"


@holds("T53")
def test_a_scalar_in_a_record_leads_on_into_the_state_of_that_moment() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"cwd": {"working": {"a": 1}}})
    harness.call("patch_state", {"cwd": {"working": {"a": {"b": 2}}}})
    seen = harness.view(harness.session())
    assert ask(seen, "cwd[0].working.a.b", "patch") == {"patch": 2}
    assert code(seen, "cwd[1].working.a.b", "patch") == "E_MISSING"


@holds("T55", "P19", "case agent 24")
def test_an_edited_array_is_whole_in_its_record_and_ranges_select_from_it() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"cwd": {"working": {"memory": ["a", "b"]}}})
    harness.call("patch_state", {"cwd": {"working": {"memory": {"[1]": "B"}}}})
    seen = harness.view(harness.session())
    assert ask(seen, "cwd.working.memory", "patch") == {"patch": ["a", "B"]}
    assert ask(seen, "effective.working.memory[0:1]", "patch") == {"patch": ["a"]}
    assert code(seen, "cwd.working.memory[2]", "patch") == "E_RANGE"


@holds("T54", "P23", "case agent 25")
def test_a_cleared_answer_reads_null_and_its_patch_is_a_deletion() -> None:
    harness = PureHarness()
    harness.call("accept_response", {"text": "Done."})
    harness.call("accept_response", {"text": ""})
    seen = harness.view(harness.session())
    assert ask(seen, ["session.response", "session[1].response"]) == {"value": [None, "Done."]}
    assert ask(seen, ["effective.response", "session.response"], "patch") == {"patch": [None, None]}
    assert ask(seen, "session") == {"value": {}}
    assert ask(seen, "session.patches") == {"patch": {"response": ""}}


@holds("Ours-16")
def test_what_is_no_longer_retained_is_never_an_empty_answer() -> None:
    harness = eight_transitions(limit=3)
    harness.call("patch_state", {"cwd": {"working": {"n": 9}}})
    seen = harness.view(harness.session())
    assert ask(seen, "cwd[2].working.n", "patch") == {"patch": 6}
    assert ask(seen, "cwd[3].working.n") == {"value": 5}
    assert ask(seen, "global[3].working.n", "patch") == {"patch": 5}
    assert code(seen, "effective[3]", "patch") == "E_HISTORY_ORIGIN"
    assert code(seen, "cwd[3]", "patch") == "E_HISTORY_ORIGIN"
    empty = eight_transitions(limit=0)
    assert code(empty.view(empty.session()), "cwd", "patch") == "E_HISTORY_ORIGIN"


def test_the_history_is_asked_only_for_the_past() -> None:
    def history() -> tuple[Boundary, ...]:
        raise AssertionError("a present read needs no history")

    seen = View({name: scope({"working": {"a": 1}}) for name in SCOPES}, history)
    assert ask(seen, ["effective.working", "cwd[0].working.a"]) == {"value": [{"a": 1}, 1]}


@holds("Ours-15", "Ours-16")
def test_a_past_view_of_a_session_ends_where_its_scopes_were_folded() -> None:
    first, second = Boundary("first", "origin", 2), Boundary("second", "first", 3)
    folded = ScopeState(
        {"working": {"n": 2}}, 2, {"working": {"n": 1}}, first, (TailRecord(second, {"working": {"n": 2}}),)
    )
    scopes: dict[ScopeName, ScopeState] = {"global": empty_scope(ORIGIN), "cwd": folded, "session": empty_scope(ORIGIN)}
    lineage = Lineage((ORIGIN,), 1)
    seen = View(scopes, lambda: lineage.boundaries(scopes.values(), 7))
    assert ask(seen, "cwd[1].working.n") == {"value": 1}
    assert code(seen, "cwd[2].working.n") == "E_HISTORY_ORIGIN"
    assert code(seen, "cwd[1]", "patch") == "E_HISTORY_ORIGIN"
