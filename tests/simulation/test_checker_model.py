"""The checker's own idea of memory, held against the algebra: they share no line, and must agree on everything."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kit.json_strategies import CALLS, OBJECTS, PATCHES, SCOPE_VALUES, VALUES
from strataflow.runtime.simulation.checker.model import Taken, take
from strataflow.runtime.simulation.checker.paths import look, parse
from strataflow.runtime.simulation.checker.values import (
    ABSENT,
    Unfit,
    differences,
    merged,
    pruned,
    same,
    with_leaf,
)
from strataflow.runtime.simulation.history import Call
from strataflow.store import CallError, ReadError
from strataflow.store import algebra as store
from strataflow.store.algebra import Boundary, View, empty_scope

Json = dict[str, Any]
NAMES = ("global", "cwd", "session")


def scope(value: Json) -> Any:
    return attrs.evolve(empty_scope(Boundary("b", None, 0)), value=value)


def staged(values: list[Json], patches: Json) -> Any:
    return store.stage_patch(dict(zip(NAMES, map(scope, values), strict=True)), patches)


def taken(values: list[Json], patches: Json) -> Taken:
    call = Call(1, "p", "/a", "s", "patch", 0.0, patches=patches)
    return take(call, (values[0], values[1], values[2]))


@given(VALUES, VALUES)
def test_both_ideas_of_equality_agree(left: Any, right: Any) -> None:
    assert same(left, right) == store.same(left, right)


@given(OBJECTS, PATCHES)
def test_both_ideas_of_a_merge_agree(value: Json, patch: Json) -> None:
    value = store.prune(value)
    try:
        expected = store.prune(store.merge(value, patch))
    except CallError:
        with pytest.raises(Unfit):
            merged(value, patch)
        return
    after = merged(value, patch)
    assert same(after, expected)
    assert (after is value) == same(value, expected)


@given(st.lists(SCOPE_VALUES, min_size=3, max_size=3), CALLS)
def test_both_ideas_of_a_call_agree(values: list[Json], patches: Json) -> None:
    values = [store.prune(value) for value in values]
    try:
        call = staged(values, patches)
    except CallError:
        return  # the algebra refuses more than the checker knows of: nobody says such a call was accepted
    found = taken(values, patches)
    for name, before, after, is_changed in zip(NAMES, values, found.after, found.changed(), strict=True):
        assert same(after, call.values.get(name, before))
        assert is_changed == (name in call.records)


INTENTS = st.dictionaries(
    st.sampled_from("ij"),
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {
                "$ref": st.sampled_from(
                    ["cwd.working.a", "cwd.working.a.b", "cwd.working", "cwd.lazy.b", "global.working.a"]
                )
            }
        ),
    ),
)


@given(
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"intents": INTENTS}),
            st.fixed_dictionaries({"intents": INTENTS, "working": PATCHES}),
            st.fixed_dictionaries({"working": PATCHES, "lazy": PATCHES}),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_both_ideas_of_ownership_agree(patches: list[Json]) -> None:
    value: Json = {}
    for patch in patches:
        try:
            call = staged([{}, value, {}], {"cwd": patch})
        except CallError:
            continue
        found = taken([{}, value, {}], {"cwd": patch})
        after = call.values.get("cwd", value)
        assert same(found.after[1], after)
        assert sorted(".".join(("cwd", *keys)) for _, keys in found.gone) == sorted(call.cascaded)
        value = after


STEPS = st.sampled_from([".a", ".b", ".c", ".é", "[0]", "[1]", "[0:1]", "[1..2]"])
PATHS = st.builds(
    lambda root, steps: root + "".join(steps),
    st.sampled_from(["effective", "global", "cwd", "session", "working", "effective.lazy", "cwd.contract", "lazy"]),
    st.lists(STEPS, max_size=3),
)
ANSWERS = st.builds(
    lambda value, text: {**value, **({"response": text} if text else {})}, SCOPE_VALUES, st.text(max_size=2)
)


@given(st.lists(ANSWERS, min_size=3, max_size=3), PATHS, st.sampled_from(["value", "keys"]))
@example([{"working": {"a": {"b": 1}}}, {"working": {"a": 2}}, {"working": {"a": {"c": 3}}}], "working.a", "value")
@example([{}, {"artifacts": {"x": {"description": "y", "hash": "z"}}}, {}], "effective.artifacts", "value")
def test_both_ideas_of_a_read_agree(values: list[Json], path: str, projection: str) -> None:
    view = View(dict(zip(NAMES, map(scope, values), strict=True)), lambda: ())
    parsed = parse(path)
    assume(parsed is None or not parsed.offset)  # the past is the matter of a replay
    try:
        result = store.read(view, {"path": path, "projection": projection})
    except ReadError as error:
        if error.code != "E_PATH":
            assert parsed is not None
            assert look(parsed, (values[0], values[1], values[2]), projection) is ABSENT
        return
    assert parsed is not None
    found = look(parsed, (values[0], values[1], values[2]), projection)
    expected = result.keys if projection == "keys" else result.value
    assert (found is ABSENT and expected is None) or same(found, expected)


@given(OBJECTS, OBJECTS)
def test_leaves_that_differ_lead_from_one_value_to_the_other(found: Json, right: Json) -> None:
    found, right = pruned(found), pruned(right)
    value = right
    for keys, leaf, _ in differences(found, right):
        value = with_leaf(value, keys, leaf)
    assert same(value, found)
    assert (not list(differences(found, right))) == same(found, right)
