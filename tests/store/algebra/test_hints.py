"""The dangling-reference hint (T56 to T64)."""

from __future__ import annotations

import pytest

from kit.holds import holds
from kit.pure_harness import PureHarness
from kit.pure_views import ask, code, view
from strataflow.store.algebra import ReadError, View


def hint_paths(seen: View, path: str) -> list[str]:
    (hint,) = ask(seen, path)["hint"]
    assert hint["type"] == "dangling-reference"
    return list(hint["paths"])


OWNERS = {
    "intents": {"next": {"see": {"$ref": "cwd.lazy.missing"}}},
    "working": {"note": "look at `$cwd.lazy.missing` first", "near": "$cwd.lazy.missingExtra"},
}


@holds("T56", "T57", "T58", "T62", "case agent 31", "case agent 32", "case agent 34")
def test_a_missing_value_is_answered_with_its_present_owners() -> None:
    seen = view(cwd=OWNERS)
    assert ask(seen, "cwd.lazy.missing")["value"] is None
    assert hint_paths(seen, "cwd.lazy.missing") == ["cwd.intents.next.see", "cwd.working.note"]
    assert code(seen, "cwd.lazy.missing", "keys") == "E_MISSING"
    assert code(seen, ["cwd.lazy.missing", "cwd"]) == "E_MISSING"
    assert ask(seen, "cwd.lazy.missing", "patch") == {"patch": {}}


@holds("T57", "case agent 33")
def test_a_value_that_nobody_mentions_stays_an_ordinary_error() -> None:
    with pytest.raises(ReadError) as caught:
        ask(view(cwd=OWNERS), "cwd.lazy.invented")
    assert "mention" not in str(caught.value)


@holds("T59", "case agent 35")
def test_a_bare_path_also_matches_its_effective_form() -> None:
    seen = view(session={"working": {"a": "see $effective.lazy.missing"}})
    assert hint_paths(seen, "lazy.missing") == ["session.working.a"]
    assert code(seen, "session.lazy.missing") == "E_MISSING"


@holds("T60", "T62", "case agent 36", "case agent 37")
def test_the_search_is_about_the_present_and_shows_no_values() -> None:
    harness = PureHarness()
    harness.call("patch_state", {"cwd": {"lazy": {"t": 1, "owner": {"ref": "$cwd.lazy.t"}}}})
    harness.call("patch_state", {"cwd": {"lazy": {"t": None}}})
    answer = harness.call("read_state", {"path": "cwd.lazy.t"})
    assert answer["hint"][0]["paths"] == ["cwd.lazy.owner.ref"]
    assert harness.call("read_state", {"path": "cwd[1].lazy.t"}) == {"value": 1}
    harness.call("patch_state", {"cwd": {"lazy": {"owner": None, "other": 1}}})
    with pytest.raises(ReadError, match="E_MISSING"):
        harness.call("read_state", {"path": "cwd.lazy.t"})


@holds("T61", "T63", "case agent 38")
def test_more_than_three_owners_are_cut_with_a_remark() -> None:
    seen = view(cwd={"working": {f"n{number}": "$cwd.lazy.x" for number in range(5)}})
    assert hint_paths(seen, "cwd.lazy.x") == ["cwd.working.n0", "cwd.working.n1", "cwd.working.n2"]
    assert "more owners may exist" in ask(seen, "cwd.lazy.x")["hint"][0]["message"]
    assert "more owners" not in ask(view(cwd=OWNERS), "cwd.lazy.missing")["hint"][0]["message"]


@holds("T61", "T65")
def test_the_search_ends_after_ten_thousand_values() -> None:
    def seen(size: int) -> View:
        return view(cwd={"working": {"a": list(range(size)), "b": "$cwd.lazy.x"}})

    assert hint_paths(seen(9_998), "cwd.lazy.x") == ["cwd.working.b"]
    assert code(seen(9_999), "cwd.lazy.x") == "E_MISSING"


@holds("T60", "T62")
def test_owners_below_awkward_keys_are_named_by_their_nearest_parent() -> None:
    seen = view(cwd={"working": {"list": [0, {"a b": {"c": ["$cwd.lazy.x", {"$ref": "cwd.lazy.x"}]}}]}})
    assert hint_paths(seen, "cwd.lazy.x") == ["cwd.working.list[1]"]


@holds("T56", "T58", "T60")
def test_an_index_outside_an_array_can_be_a_dangling_reference() -> None:
    seen = view(cwd={"lazy": {"m": [1]}, "working": {"n": "see $cwd.lazy.m[4]."[:-1], "response": "$cwd.lazy.m[4]"}})
    assert hint_paths(seen, "cwd.lazy.m[4]") == ["cwd.working.n"]
    assert code(seen, "cwd.working[4]") == "E_KIND"


@holds("T56", "case agent 39")
def test_unavailable_history_never_has_a_hint() -> None:
    seen = view(cwd={"working": {"n": "$session[3].lazy.t"}})
    assert code(seen, "session[3].lazy.t") == "E_HISTORY_ORIGIN"
