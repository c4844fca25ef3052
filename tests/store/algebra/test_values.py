"""The value contract (Ours-5): exact types, bounds, copies, equality."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kit.holds import holds
from strataflow.store.algebra import (
    CONTAINERS_MAX,
    INT_MAX,
    SCOPES,
    Boundary,
    CallError,
    ReadError,
    ScopeState,
    StoreError,
    View,
    check_materialised,
    check_patch_arguments,
    detach_checked,
    kind,
    known_planes,
    merge,
    net_record,
    overlay,
    prune,
    read,
    replay,
    same,
    stage_patch,
)


class Text(str):
    pass


class Number(int):
    pass


class Colour(enum.IntEnum):
    RED = 1


@attrs.frozen
class Card:
    description: str


def refused(value: Any, allow_null: bool = True, depth: int = 0) -> tuple[str, str]:
    with pytest.raises(CallError) as caught:
        detach_checked(value, allow_null=allow_null, pointer="/cwd", depth=depth)
    assert caught.value.code == "E_JSON"
    assert len(str(caught.value)) < 400
    return caught.value.data["pointer"], caught.value.data["reason"]


@holds("Ours-5", "store 1.3.3")
@pytest.mark.parametrize(
    "value",
    [
        INT_MAX + 1,
        -INT_MAX - 1,
        10**5000,
        float("nan"),
        float("inf"),
        -float("inf"),
        b"bytes",
        bytearray(b"bytes"),
        (1, 2),
        {1},
        frozenset(),
        datetime.date(2026, 1, 1),
        decimal.Decimal(1),
        1j,
        Text("x"),
        Number(1),
        Colour.RED,
        Card("d"),
        collections.OrderedDict(a=1),
        collections.defaultdict(list),
        range(3),
        object(),
        "\ud800",
        "a\udfffb",
        {"\udc00": 1},
        {1: 2},
        {None: 1},
        {Text("x"): 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_plain_json_is_refused_with_its_pointer(value: Any) -> None:
    pointer, reason = refused({"a/b": [0, {"~": value}]})
    assert pointer.startswith("/cwd/a~1b/1/~0")
    assert reason


@holds("Ours-5", "P16")
@pytest.mark.parametrize(
    "value", [0, -0.0, 1e308, INT_MAX, -INT_MAX, True, "", "\x00", "a𝄞é☃", [], {}, {"": {"": 1}}, "x" * 10**6]
)
def test_a_plain_value_is_kept_exactly(value: Any) -> None:
    copied = detach_checked([value], allow_null=False)[0]
    assert type(copied) is type(value)
    assert repr(copied) == repr(value)


@holds("Ours-5", "P4")
def test_null_is_refused_only_where_it_has_no_meaning() -> None:
    assert detach_checked({"a": [None]}, allow_null=True) == {"a": [None]}
    assert refused({"a": [None]}, allow_null=False)[0] == "/cwd/a/0"


@holds("Ours-5")
def test_two_hundred_nested_containers_are_accepted_and_one_more_is_refused() -> None:
    deepest: Any = {}
    for _ in range(CONTAINERS_MAX - 1):
        deepest = {"k": deepest}
    assert detach_checked(deepest, allow_null=False) == deepest
    assert refused([deepest])[0].count("/k") == CONTAINERS_MAX - 1
    refused(deepest, depth=1)


@holds("Ours-5", "case agent 44")
def test_a_cycle_is_refused_and_does_not_hang() -> None:
    ring: dict[str, Any] = {}
    ring["again"] = [ring]
    assert "cycle" in refused(ring)[1]


@holds("Ours-5", "P15", "store 1.3.4")
def test_equality_keeps_booleans_and_numbers_apart_but_not_spellings_of_a_number() -> None:
    assert same({"a": 1, "b": [0, 2]}, {"b": [-0.0, 2.0], "a": 1.0})
    assert not same([True], [1])
    assert not same(False, 0)
    assert not same(2**53 + 1, float(2**53))
    assert not same({"a": 1}, {"b": 1})
    assert not same([1], [1, 1])
    assert not same("1", 1)


def test_every_kind_of_value_has_its_json_name() -> None:
    examples: list[Any] = [[], {}, "", 1, 1.5, True, None]
    names = [kind(value) for value in examples]
    assert names == ["array", "object", "string", "number", "number", "boolean", "null"]


@holds("store 1.4.6")
def test_foreign_top_level_fields_are_filtered_and_nested_ones_are_kept() -> None:
    value: dict[str, Any] = {"contract": {"x": {"extra": 1}}, "extra": {"y": 2}}
    assert known_planes(value) == {"contract": {"x": {"extra": 1}}}
    clean: dict[str, Any] = {"lazy": {}}
    assert known_planes(clean) is clean


@holds("store 1.4.7", "A2", "A7")
@pytest.mark.parametrize(
    "value, pointer",
    [
        ({"working": []}, "/working"),
        ({"lazy": None}, "/lazy"),
        ({"response": {}}, "/response"),
        ({"working": {"a": [None]}}, "/working/a/0"),
        ({"lazy": {"a": {"b": None}}}, "/lazy/a/b"),
        ({"artifacts": {"/x": {"kind": "k"}}}, "/artifacts/~1x"),
        ({"artifacts": {" ": {"description": "d"}}}, "/artifacts/ "),
        ({"artifacts": {"/x": {"description": "d", "hash": "sha256:12"}}}, "/artifacts/~1x"),
        ({"artifacts": {"/x": {"description": "d", "compiler": " "}}}, "/artifacts/~1x"),
        ({"artifacts": {"/x": {"description": "d", "compiled_at": 1}}}, "/artifacts/~1x"),
        ({"working": {"n": 2**63}}, "/working/n"),
    ],
)
def test_a_damaged_scope_is_corrupt_and_the_place_is_named(value: Any, pointer: str) -> None:
    with pytest.raises(StoreError) as caught:
        check_materialised(value, "global")
    assert caught.value.code == "E_CORRUPT"
    assert caught.value.data["pointer"] == pointer


@holds("store 1.4.8", "store 1.4.6")
def test_a_valid_scope_may_hold_an_old_response_and_foreign_fields() -> None:
    check_materialised({"response": "old", "foreign": [None], "artifacts": {"/x": {"description": "d"}}}, "global")


def test_the_deepest_value_leaves_half_of_the_stack_to_its_user() -> None:
    for make in (lambda below: {"k": below}, lambda below: [below], lambda below: [{"k": below}]):
        value: Any = 1
        while _depth(value) < CONTAINERS_MAX - 3:
            value = make(value)
        at_depth(500, functools.partial(exercise, value))


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, (dict, list)):
        value = value["k"] if isinstance(value, dict) else value[0]
        depth += 1
    return depth


def at_depth(frames: int, work: Callable[[], None]) -> None:
    if frames == 0:
        work()
    else:
        at_depth(frames - 1, work)


def exercise(value: Any) -> None:
    """Everything that walks values, on one that is as deep as can be."""
    state = ScopeState({"working": {"a": value}}, 0, {}, Boundary("origin", None, 1))
    patches = check_patch_arguments({"cwd": {"working": {"a": value, "b": value}}})
    staged = stage_patch({"cwd": state}, patches)
    assert same(replay(state.value, staged.records["cwd"]), staged.values["cwd"])
    assert same(prune(merge(state.value, patches["cwd"])), staged.values["cwd"])
    assert same(net_record(state.value, staged.values["cwd"]), staged.records["cwd"])
    assert same(overlay(state.value, state.value), state.value)
    check_materialised(state.value, "cwd")
    scopes = dict.fromkeys(SCOPES, state)
    seen = View(scopes, lambda: (Boundary("origin", None, 1),))
    assert same(read(seen, {"path": "effective.working.a"}).value, value)
    with pytest.raises(ReadError):
        read(seen, {"path": "cwd.lazy.x"})
