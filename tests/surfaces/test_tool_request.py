"""Lines of the tool protocol: what is a request, and who is told what of a fault (H1, H2, H3, Ours-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from kit.json_strategies import VALUES
from strataflow.runtime import CallError
from strataflow.runtime.surfaces.tool_request import Refusal, ToolRequest, parse_arguments, parse_request


def parsed(line: bytes | str) -> ToolRequest:
    found = parse_request(line.encode() if isinstance(line, str) else line)
    assert isinstance(found, ToolRequest), found
    return found


def with_arguments(text: str) -> str:
    return f'{{"id": 7, "call": "patch_state", "arguments": {text}}}'


NOT_REQUESTS = [
    b"",
    b"   ",
    b"x",
    b"[1]",
    b"null",
    b'"text"',
    b'{"id": 1, "call": "status", "arguments": {}} {}',
    b'{"id": 1, "call": "status", "arguments": {}',
    b'{"call": "status", "arguments": {}}',
    b'{"id": 1, "arguments": {}}',
    b'{"id": 1, "call": "status"}',
    b'{"id": 1, "call": 5, "arguments": {}}',
    b'{"id": 1, "call": "status", "arguments": {}, "session": null}',
    b'{"id": 1, "call": "status", "arguments": {}, "cwd": 3}',
    b'{"id": 1, "call": "status", "arguments": {}, "extra": 1}',
    b'{"id": 1, "id": 2, "call": "status", "arguments": {}}',
    b'{"id": NaN, "call": "status", "arguments": {}}',
    b'{"id": 1e999, "call": "status", "arguments": {}}',
    b'{"id": 9223372036854775808, "call": "status", "arguments": {}}',
    b'{"id": "\\ud800", "call": "status", "arguments": {}}',
    b'{"id": ' + b"[" * 250 + b"]" * 250 + b', "call": "status", "arguments": {}}',
    b'{"id": 1, "call": "status", "arguments": {}, "session": "\\udfff"}',
    b'{"id": 1, "call": "status", "arguments": {"a": "\xff"}}',
    b'{"id": 1, "call": "status", "arguments": {"a": "\xed\xa0\x80"}}',
    b'\xef\xbb\xbf{"id": 1, "call": "status", "arguments": {}}',
    b'{"id": 1, "call": "status", "arguments": {"a": 1, "a": 2,}}',
    b'{"id": 1, "call": "status", "arguments": ' + b"[" * 100_000,
    b'{"id": 1, "call": "status", "arguments": ' + b"[" * 1_000 + b"}" * 1_000 + b"}",
]


@pytest.mark.parametrize("line", NOT_REQUESTS, ids=[line[:60].decode("latin-1") for line in NOT_REQUESTS])
def test_a_line_that_is_no_request_says_so_without_an_id(line: bytes) -> None:
    found = parse_request(line)
    assert isinstance(found, Refusal)
    assert found.error.code == "E_REQUEST"


FAULTS = [
    ('{"cwd": {"working": {"a": 1, "a": 2}}}', "/cwd/working", "duplicate-key"),
    ('{"cwd": {"working": {"a": [1, NaN]}}}', "/cwd/working/a/1", "constant"),
    ('{"cwd": {"working": {"a": -Infinity}}}', "/cwd/working/a", "constant"),
    ('{"cwd": {"working": {"a": 1e999}}}', "/cwd/working/a", "float-range"),
    ('{"cwd": {"working": {"a": 9223372036854775808}}}', "/cwd/working/a", "integer-range"),
    ('{"cwd": {"working": {"a": -9223372036854775808}}}', "/cwd/working/a", "integer-range"),
    ('{"cwd": {"working": {"a/~b": "\\ud83d"}}}', "/cwd/working/a~1~0b", "surrogate"),
    ('{"cwd": {"working": {"\\udc00": 1}}}', "/cwd/working/\\udc00", "surrogate"),
    ('{"cwd": {"working": {"a": ' + "9" * 100_000 + "}}}", "/cwd/working/a", "integer-range"),
    ('[1, {"a": 1, "a": 2}]', "/1", "duplicate-key"),
    ("NaN", "", "constant"),
]


@pytest.mark.parametrize("text, pointer, reason", FAULTS, ids=[text[:60] for text, _, _ in FAULTS])
def test_arguments_that_break_the_contract_keep_the_id_and_name_the_place(text: str, pointer: str, reason: str) -> None:
    request = parsed(with_arguments(text))
    assert request.id == 7
    assert request.fault is not None
    assert request.fault.code == "E_JSON"
    assert request.fault.data == {"pointer": pointer, "reason": reason}
    assert len(str(request.fault)) < 400


@pytest.mark.parametrize("depth", [202, 299, 300, 301, 302, 990, 100_000])
def test_arguments_nested_too_deeply_are_refused_with_their_id_at_any_depth(depth: int) -> None:
    request = parsed(with_arguments("[" * depth + '"]}{["' + "]" * depth))
    assert request.id == 7
    assert request.fault is not None
    assert request.fault.data["reason"] == "depth"


def test_arguments_of_two_hundred_containers_in_a_scope_are_let_through() -> None:
    text = '{"cwd": ' + '{"a":' * 199 + "{}" + "}" * 199 + "}"
    assert parsed(with_arguments(text)).fault is None


def test_what_keeps_the_contract_arrives_as_it_was_written() -> None:
    text = '{"a": [null, true, 1, 1.0, -0.0, 9223372036854775807, "\\u0000 \\ud83d\\ude00 é\u2028"], "b": {}}'
    request = parsed(with_arguments(text))
    assert request.fault is None
    assert json.dumps(request.arguments) == json.dumps(json.loads(text))
    assert parsed('{"id": null, "call": "x", "arguments": [], "session": "s", "cwd": "/c"}\r') == ToolRequest(
        None, "x", [], "s", "/c"
    )


@given(VALUES)
def test_any_plain_value_survives_the_way_through_a_line(value: Any) -> None:
    request = parsed(json.dumps({"id": value, "call": "x", "arguments": value}))
    assert request.fault is None
    assert json.dumps(request.arguments) == json.dumps(value) == json.dumps(request.id)


def test_a_document_of_arguments_is_checked_in_the_same_way() -> None:
    assert parse_arguments(b'{"cwd": {}}\n') == {"cwd": {}}
    for text, reason in ((b"{", "syntax"), (b"\xff", "utf8"), (b"", "syntax"), (b"{} {}", "syntax")):
        with pytest.raises(CallError) as caught:
            parse_arguments(text)
        assert caught.value.data["reason"] == reason
    with pytest.raises(CallError) as caught:
        parse_arguments(b'{"a": {"b": "\\ud800"}}')
    assert caught.value.data["pointer"] == "/a/b"
