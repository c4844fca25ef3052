"""Arguments of tool calls: what is converted, what is refused, and that a value that fits is left alone."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.holds import holds
from kit.json_strategies import containers
from strataflow.runtime.agent.arguments import checked, converted

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "5", "true"])
VALUES = LEAVES | containers(LEAVES)
KINDS = ("string", "integer", "number", "boolean", "null", "array", "object")


@pytest.mark.parametrize(
    "schema, value, expected",
    [
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, True, "true"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "5.5", "5.5"),
        ({"type": "number"}, " 1.5 ", 1.5),
        ({"type": "number"}, "inf", "inf"),
        ({"type": "integer"}, True, 1),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "boolean"}, 0, False),
        ({"type": "string"}, None, ""),
        ({"type": "integer", "default": 7}, None, 7),
        ({"type": "array"}, None, None),
        ({"type": "array", "items": {"type": "integer"}}, "5", [5]),
        ({"type": ["string", "null"]}, None, None),
        ({"type": ["integer", "string"]}, "5", "5"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "5", "m": "5"}, {"n": 5, "m": "5"}),
        ({}, "5", "5"),
        (True, "5", "5"),
    ],
)
@holds("host 5.5.2")
def test_arguments_are_converted_where_their_meaning_is_beyond_doubt(schema: Any, value: Any, expected: Any) -> None:
    found = converted(schema, value)
    assert (found, type(found)) == (expected, type(expected))


@given(VALUES, st.sampled_from(KINDS))
def test_a_value_that_fits_its_schema_is_never_changed(value: Any, kind: str) -> None:
    schema = {"type": kind}
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        assert converted(schema, value) == value


@given(VALUES, st.sampled_from(KINDS))
def test_conversion_is_finished_after_one_time(value: Any, kind: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": kind}}}
    once = converted(schema, {"a": value})
    assert converted(schema, once) == once


@holds("AC-175", "host 5.5.3")
def test_what_does_not_fit_is_refused_with_the_place_and_what_was_received() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}, "required": ["c"]}
    with pytest.raises(ValueError, match="Validation failed") as caught:
        checked("echo", schema, {"a": {"x": "€"}})
    text = str(caught.value)
    assert text.startswith('Validation failed for tool "echo":\n')
    assert "  - a: " in text
    assert "  - arguments: " in text
    assert '"x": "€"' in text


def test_arguments_that_are_no_object_are_refused_like_others() -> None:
    with pytest.raises(ValueError, match="Validation failed"):
        checked("echo", {"type": "object"}, None)


def test_a_schema_may_refer_to_itself_but_never_to_the_network() -> None:
    own = {"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert checked("echo", own, {"a": 1}) == {"a": 1}
    with pytest.raises(ValueError, match="Validation failed"):
        checked("echo", own, {"a": "x"})
    with pytest.raises(Exception, match="localhost"):
        checked("echo", {"$ref": "http://localhost:1/schema.json"}, {})
