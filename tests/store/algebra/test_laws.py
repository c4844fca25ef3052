"""Goal: the laws of the patch language for any value. Method: random values and patches, and a slow model of it all."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kit.holds import holds
from kit.json_strategies import CALLS, OBJECTS, PATCHES, SCOPE_PATCHES, SCOPE_VALUES, VALUES
from kit.naive_model import NaiveModel, naive_merge, naive_overlay, naive_prune
from kit.pure_harness import PureHarness
from kit.pure_views import scope
from strataflow.store.algebra import (
    PLANES,
    CallError,
    StrataflowError,
    detach,
    detach_checked,
    merge,
    merge_pruned,
    net_record,
    overlay,
    overlay_shared,
    prune,
    replay,
    same,
    stage_patch,
)

Json = dict[str, Any]


def merged(target: Json, patch: Json) -> Json:
    """The merge, or no example at all when the patch is refused."""
    try:
        return merge(target, patch)
    except CallError:
        assume(False)
        raise


def shuffled(value: Any) -> Any:
    """The same value with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@holds("P1", "P2", "P6", "P8")
@given(OBJECTS, PATCHES)
def test_a_merge_agrees_with_the_slow_model(target: Json, patch: Json) -> None:
    assert same(merged(target, patch), naive_merge(target, patch))


@given(OBJECTS, PATCHES)
def test_a_merge_changes_neither_of_its_arguments(target: Json, patch: Json) -> None:
    before = copy.deepcopy((target, patch))
    merged(target, patch)
    assert (target, patch) == before


@given(OBJECTS, PATCHES)
def test_merging_and_pruning_in_one_walk_is_the_same_as_in_two(target: Json, patch: Json) -> None:
    target = prune(target)
    expected = prune(merged(target, patch))
    assert same(merge_pruned(target, patch), expected)


@given(OBJECTS, PATCHES)
def test_a_merge_without_effect_returns_the_target_itself(target: Json, patch: Json) -> None:
    target = prune(target)
    merged(target, patch)
    after = merge_pruned(target, patch)
    assert (after is target) == same(after, target)


@holds("P12")
@given(OBJECTS)
def test_pruning_agrees_with_the_slow_model_and_ends_at_once(value: Json) -> None:
    pruned = prune(value)
    assert same(pruned, naive_prune(value))
    assert prune(pruned) is pruned


@holds("P19", "store 3.1.6", "Ours-7")
@given(SCOPE_VALUES, SCOPE_PATCHES)
def test_a_record_replays_to_exactly_the_accepted_value(value: Json, patch: Json) -> None:
    value = prune(value)
    try:
        staged = stage_patch({"cwd": scope(value)}, {"cwd": patch})
    except CallError:
        return
    if not staged.changed:
        assert same(merge_pruned(value, patch), value)
        return
    replayed = replay(value, staged.records["cwd"])
    assert same(replayed, staged.values["cwd"])
    # Exactly: the spelling of numbers is stored too, and 1 is the same as 1.0 only when it was 1 before.
    assert json.dumps(replayed, sort_keys=True) == json.dumps(staged.values["cwd"], sort_keys=True)


@given(SCOPE_VALUES, SCOPE_PATCHES)
def test_a_guided_record_is_the_same_as_a_compared_one(value: Json, patch: Json) -> None:
    value = prune(value)
    try:
        after = merge_pruned(value, patch)
        guided = net_record(value, after, patch)
    except CallError:
        return
    assert same(guided, net_record(value, after))


@holds("P13", "P19")
@given(SCOPE_VALUES, SCOPE_PATCHES)
def test_a_foreign_scope_is_pruned_once_and_its_record_replays(value: Json, patch: Json) -> None:
    try:
        staged = stage_patch({"session": scope(value, is_pruned=False)}, {"session": patch})
    except CallError:
        return
    after = staged.values.get("session", value)
    assert prune(after) is after or not staged.changed
    assert same(replay(value, staged.records.get("session", {})), after)


@holds("P15", "store 1.3.4")
@given(SCOPE_VALUES, SCOPE_PATCHES)
def test_the_order_of_keys_decides_nothing(value: Json, patch: Json) -> None:
    value = prune(value)
    outcomes: list[Any] = []
    for one_value, one_patch in ((value, patch), (shuffled(value), shuffled(patch))):
        try:
            staged = stage_patch({"cwd": scope(one_value)}, {"cwd": one_patch})
        except CallError as error:
            outcomes.append(error.code)
        else:
            missing = sorted(item.path for item in staged.missing_deletions)
            outcomes.append([staged.values, staged.records, missing, list(staged.cascaded)])
    assert same(outcomes[0], outcomes[1])


@holds("P25", "Ours-6")
@given(st.lists(SCOPE_VALUES, min_size=1, max_size=3))
def test_the_overlay_agrees_with_the_slow_model(values: list[Json]) -> None:
    expected: Json = {}
    for value in values:
        expected = naive_overlay(expected, value)
    before = copy.deepcopy(values)
    assert same(overlay_shared(*values), expected)
    assert same(overlay(*values), expected)
    assert values == before


@holds("P25")
def test_the_overlay_shows_the_narrowest_answer_that_is_not_empty() -> None:
    assert overlay() == {}
    assert overlay({"response": "old", "lazy": {"a": 1}}, {}, {"response": ""}) == {"response": "old", "lazy": {"a": 1}}
    assert overlay({"response": "old"}, {"response": "new"}) == {"response": "new"}
    assert overlay({"response": ""}) == {}
    with pytest.raises(CallError, match="E_JSON"):
        overlay({"lazy": {"a": None}})


@given(VALUES)
def test_a_detached_value_is_equal_and_shares_no_container(value: Any) -> None:
    for copied in (detach(value), detach_checked(value, allow_null=False)):
        assert same(copied, value)
        assert ids_of(copied).isdisjoint(ids_of(value))


def ids_of(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*(ids_of(item) for item in value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*(ids_of(item) for item in value))
    return set()


@holds("P15", "Ours-5")
@given(VALUES, VALUES)
def test_equality_is_that_of_canonical_json(left: Any, right: Any) -> None:
    assert same(left, right) == (json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True))


SESSIONS = st.sampled_from([("/a", "one"), ("/a", "two"), ("/b", "one")])


@holds("Ours-15", "Ours-16", "store 3.6.4")
@given(st.integers(0, 4), st.lists(st.tuples(SESSIONS, CALLS), max_size=14))
def test_offsets_agree_with_a_list_of_whole_states(limit: int, calls: list[tuple[tuple[str, str], Json]]) -> None:
    harness, model = PureHarness(limit), NaiveModel(limit)
    for (cwd, key), patches in calls:
        harness.session(cwd, key)
        model.open(cwd, key)
        try:
            harness.call("patch_state", patches, cwd, key)
        except CallError:
            continue
        model.patch(cwd, key, patches)
    for (cwd, key), states in model.seen.items():
        for offset in range(limit + 1):
            check_offset(harness, cwd, key, offset, states)


def check_offset(harness: PureHarness, cwd: str, key: str, offset: int, states: list[list[Json]]) -> None:
    def read(path: str, projection: str = "value") -> Any:
        answer = harness.call("read_state", {"path": path, "projection": projection}, cwd, key)
        return answer["value" if projection == "value" else "patch"]

    if offset >= len(states):
        with pytest.raises(StrataflowError, match="E_HISTORY_ORIGIN"):
            read(f"effective[{offset}]")
        return
    state = states[-1 - offset]
    for name, value in zip(("global", "cwd", "session"), state, strict=True):
        for plane in ("working", "contract", "lazy"):
            assert same(read(f"{name}[{offset}].{plane}"), value.get(plane))
    assert same(effective(read, offset), naive_overlay(naive_overlay(state[0], state[1]), state[2]))
    if offset + 1 < len(states):
        # What a transition changed leads from the view before it to the view after it.
        patch = read(f"effective[{offset}]", "patch")
        assert same(naive_merge(effective(read, offset + 1), patch, indexes=False), effective(read, offset))


def effective(read: Any, offset: int) -> Json:
    found = {plane: read(f"effective[{offset}].{plane}") for plane in PLANES}
    return {plane: value for plane, value in found.items() if value is not None}
