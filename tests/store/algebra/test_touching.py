"""Which paths a net record touches, by example and against what reads of them give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kit.json_strategies import SCOPE_PATCHES, SCOPE_VALUES
from kit.pure_views import view
from strataflow.store.algebra import (
    CallError,
    ReadError,
    look,
    may_change,
    merge_pruned,
    net_record,
    parse_path,
    prune,
    same,
    touches,
)

RECORD = {"working": {"tasks": {"t1": None, "t2": {"done": True}}, "list": [1, 2]}, "response": "done"}


@pytest.mark.parametrize(
    "path",
    "cwd cwd.working cwd.working.tasks cwd.working.tasks.t1 cwd.working.tasks.t1.note cwd.working.tasks.t2.done "
    "cwd.working.list cwd.working.list[1] cwd.working.list[0:1] cwd.response working.tasks.t1 effective response "
    "cwd[1].contract session[2] cwd.patches cwd.patches[3]".split(),
)
def test_a_record_touches_what_it_changed_above_and_below(path: str) -> None:
    assert touches(parse_path(path), "cwd", RECORD)
    assert may_change(parse_path(path), "cwd", RECORD)


@pytest.mark.parametrize(
    "path",
    "cwd.contract cwd.working.tasks.t3 cwd.working.tasks.t2.note cwd.lazy session.working global global.patches "
    "contract working.tasks.t3 lazy".split(),
)
def test_a_record_does_not_touch_what_lies_beside_it(path: str) -> None:
    assert not touches(parse_path(path), "cwd", RECORD)


def test_of_the_effective_view_a_change_beside_the_path_may_count() -> None:
    # An object in place of a scalar uncovers what broader scopes have beside it.
    assert may_change(parse_path("working.tasks.t3"), "cwd", RECORD)
    assert not may_change(parse_path("cwd.working.tasks.t3"), "cwd", RECORD)
    assert not may_change(parse_path("contract"), "cwd", RECORD)


@pytest.mark.parametrize("path", ["cwd.patches[0]", "cwd", "cwd[1]"])
def test_an_empty_record_touches_nothing_at_all(path: str) -> None:
    assert not touches(parse_path(path), "cwd", {})


def test_an_old_record_that_edits_an_array_touches_its_elements_alone() -> None:
    record = {"working": {"list": {"[3]": {"a": 1}}}}
    touched = [f"cwd.working.list{steps}" for steps in ("", "[3]", "[3].a", "[2:4]", "[0:9]")]
    beside = [f"cwd.working.list{steps}" for steps in ("[2]", "[3].b", "[0:3]", "[4..9]")]
    assert [path for path in touched + beside if touches(parse_path(path), "cwd", record)] == touched


def test_an_index_of_thousands_of_digits_is_only_far_away() -> None:
    record = {"working": {"list": {f"[{'9' * 5_000}]": 1}}}
    assert not touches(parse_path("cwd.working.list[0:3]"), "cwd", record)
    assert touches(parse_path("cwd.working.list"), "cwd", record)


def test_an_object_where_the_path_expects_an_array_is_touched() -> None:
    assert touches(parse_path("cwd.working.list[0]"), "cwd", {"working": {"list": {"a": 1}}})


STEPS = st.sampled_from([".a", ".b", ".c", "[0]", "[1]", "[0:1]"])
PATHS = st.builds(
    lambda root, plane, steps: root + plane + "".join(steps),
    st.sampled_from(["effective", "global", "cwd", "session"]),
    st.sampled_from(["", ".working", ".contract", ".lazy"]),
    st.lists(STEPS, max_size=4),
)


def shown_at(path: str, scopes: dict[str, Any]) -> Any:
    """What a read of the path gives; absent in one form only."""
    try:
        return [look(view(scopes["global"], scopes["cwd"], scopes["session"]), parse_path(path), "value").value]
    except ReadError:
        return []


@given(
    scopes=st.fixed_dictionaries(dict.fromkeys(("global", "cwd", "session"), SCOPE_VALUES)),
    name=st.sampled_from(["global", "cwd", "session"]),
    patch=SCOPE_PATCHES,
    path=PATHS,
)
def test_what_a_record_does_not_touch_reads_the_same_before_and_after(
    scopes: dict[str, Any], name: Any, patch: dict[str, Any], path: str
) -> None:
    try:
        parsed = parse_path(path)
    except ReadError:
        assume(False)
    scopes = {scope: prune(value) for scope, value in scopes.items()}
    try:
        after = merge_pruned(scopes[name], patch)
        record = net_record(scopes[name], after)
    except CallError:
        assume(False)
    if not same(shown_at(path, scopes), shown_at(path, {**scopes, name: after})):
        assert may_change(parsed, name, record)
        assert parsed.root == "effective" or touches(parsed, name, record)
