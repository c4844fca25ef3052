"""JSON text as JavaScript writes it, and what is no entry."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.holds import holds
from strataflow import CallError
from strataflow.store.trace import line_of, parse_line
from strataflow.store.trace.lines import number_text

# As node prints them.
SPELLINGS = {
    1e21: "1e+21",
    1.5: "1.5",
    0.1: "0.1",
    1e-7: "1e-7",
    1e-6: "0.000001",
    123456789012345680000.0: "123456789012345680000",
    1e20: "100000000000000000000",
    1.7976931348623157e308: "1.7976931348623157e+308",
    5e-324: "5e-324",
    1.234e-6: "0.000001234",
    1.234e-7: "1.234e-7",
    4.35: "4.35",
    100.0: "100",
    1e16: "10000000000000000",
    12345678901234567890.0: "12345678901234567000",
    -1e-9: "-1e-9",
    -5.5e30: "-5.5e+30",
    -0.0: "0",
}


@holds("host 1.1.4")
@pytest.mark.parametrize("value, text", SPELLINGS.items())
def test_numbers_are_spelled_as_javascript_spells_them(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_comes_back_from_its_spelling(value: float) -> None:
    assert float(number_text(value)) == value


@holds("host 1.1.2", "host 1.1.3")
def test_text_is_written_as_itself_but_for_what_must_be_escaped() -> None:
    line = line_of(
        {"type": "x", "t": 'ü 世\u2028\u2029\x7f "\\\b\t\n\f\r\x00\x1f', "none": None, "no": False, "l": [1]}
    )
    assert line.decode() == (
        '{"type":"x","t":"ü 世\u2028\u2029\x7f \\"\\\\\\b\\t\\n\\f\\r\\u0000\\u001f","none":null,"no":false,"l":[1]}'
    )
    assert parse_line(line) == json.loads(line)


@holds("case host 13")
def test_half_a_character_is_escaped_and_two_halves_are_one() -> None:
    assert line_of({"type": "\ud83d"}) == b'{"type":"\\ud83d"}'
    assert line_of({"type": "\ud83d\ude00"}).decode() == '{"type":"😀"}'
    assert line_of({"type": "\ude00\ud83d"}) == b'{"type":"\\ude00\\ud83d"}'
    assert parse_line(b'{"type":"\\ud83d"}') == {"type": "\ud83d"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(-(2.0**53), 2.0**53)  # a larger one is spelled as an integer, and is one to Python then
    | st.text(st.characters(codec="utf-8")),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_whatever_json_can_say_comes_back_and_is_written_the_same_again(value: Any) -> None:
    line = line_of({"type": "x", "value": value})
    assert b"\n" not in line
    found = parse_line(line)
    assert found is not None
    assert json.loads(line)["value"] == value
    assert parse_line(line_of(found)) == found


@pytest.mark.parametrize(
    "value, pointer",
    [
        ({"a": [1, math.nan]}, "/value/a/1"),
        (math.inf, "/value"),
        ({"a/b": {"~": (1, 2)}}, "/value/a~1b/~0"),
        ({1: 2}, "/value"),
        (b"x", "/value"),
        ({"s": {1}}, "/value/s"),
    ],
)
def test_what_json_cannot_say_is_refused_by_its_place(value: Any, pointer: str) -> None:
    with pytest.raises(CallError) as refused:
        line_of({"type": "x", "value": value})
    assert (refused.value.code, refused.value.data["pointer"]) == ("E_JSON", pointer)


def test_an_entry_nested_beyond_reason_is_refused_by_name() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(CallError, match="nested too deeply"):
        line_of({"type": "x", "value": value})
    assert parse_line(b'{"type":"x","v":' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None


@holds("host 1.8.1", "host 1.8.8")
@pytest.mark.parametrize(
    "line",
    [b"", b"  \r", b"null", b"5", b'"x"', b"[]", b"{}", b'{"type":5}', b"{not", b'{"type":"x","n":NaN}', b"\x00"],
)
def test_what_is_no_object_with_a_type_is_no_entry(line: bytes) -> None:
    assert parse_line(line) is None


def test_bytes_that_are_no_text_are_read_as_the_original_reads_them() -> None:
    assert parse_line(b'{"type":"x","t":"\xff"}') == {"type": "x", "t": "\ufffd"}
    assert parse_line(b'{"type":"x","n":123456789012345678901234567890}\r') == {"type": "x", "n": 1.2345678901234568e29}
