"""One line of the tool protocol, read strictly: what is asked, or why it is no request (H1, H2, H3).

Who is told what depends on where a fault stands. Inside ``arguments`` it is the caller's value that breaks the value
contract: the answer keeps the request's id and says E_JSON with the place. Anywhere else the line is no request, its
id can not be trusted, and the answer says E_REQUEST with the id null.

Most lines have no fault, so they are parsed once, strictly. Only a refused line is parsed again by a reader that
accepts everything which has the form of JSON and marks each fault where it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs

from .. import CallError, RequestError, StrataflowError, parse_strict, shown

# The arguments are one container around the values of scopes, which may have 200.
DEPTH_MAX = 201
# Deeper than any value that is accepted, and shallow enough for every parser.
_PARSED_DEPTH_MAX = 300
_DIGITS_MAX = 19
_INT_MAX = 2**63 - 1
_MEMBERS = ("id", "call", "arguments", "session", "cwd", "request_id")
_TEXTS = ("call", "session", "cwd", "request_id")
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


@attrs.frozen
class ToolRequest:
    """What a line asks.

    Attributes:
      session, cwd: None where the command line decides.
      fault: why its arguments cannot be used; its turn comes all the same, so that answers of a session keep order.
      request_id: what the client calls this change, over restarts; ``id`` only matches an answer with its line.
    """

    id: Any
    call: str
    arguments: Any
    session: str | None
    cwd: str | None
    fault: StrataflowError | None = None
    request_id: str | None = None


@attrs.frozen
class Refusal:
    """Why a line is no request."""

    error: StrataflowError


@attrs.frozen
class _Fault:
    """Stands where the value contract is broken."""

    reason: str
    text: str


def parse_request(line: bytes) -> ToolRequest | Refusal:
    """Read one line, given without its end."""
    try:
        value, may_be_faulty = _parsed(line)
    except CallError as error:
        return _no_request(error.message)
    return _request(value, may_be_faulty)


def parse_arguments(document: bytes) -> Any:
    """A whole document that holds the arguments of one call.

    Raises:
      CallError: E_JSON: it is not JSON, or breaks the value contract at the place given in ``data["pointer"]``.
    """
    value, may_be_faulty = _parsed(document)
    for pointer, found in _faults(value, "") if may_be_faulty else ():
        raise _fault_error(pointer, found)
    return value


def _parsed(text: bytes) -> tuple[Any, bool]:
    """The value, with marks where it breaks the contract, and whether it may break it.

    Raises:
      CallError: E_JSON: the text does not have the form of JSON.
    """
    try:
        value = parse_strict(text)
    except CallError as error:
        if error.data["reason"] in ("syntax", "utf8"):
            raise
    else:
        return value, b"\\ud" in text or b"\\uD" in text or text.count(b"[") + text.count(b"{") > DEPTH_MAX
    try:
        return _MARKING.decode(_without_depths(text.decode())), True
    except json.JSONDecodeError as fault:
        message = f"not JSON: {fault.msg} at line {fault.lineno} column {fault.colno}"
        raise CallError("E_JSON", message, reason="syntax") from None


def _fault_error(pointer: str, fault: _Fault) -> CallError:
    where = f"at {shown(pointer)}" if pointer else "as a whole"
    message = f"the value {where} cannot be used: {fault.text}"
    return CallError("E_JSON", message, pointer=pointer, reason=fault.reason)


def _request(value: Any, may_be_faulty: bool) -> ToolRequest | Refusal:
    if isinstance(value, _Fault):
        return _no_request(value.text)
    if type(value) is not dict:
        return _no_request(f"a request is a JSON object, not {shown(value)}")
    unknown = [name for name in value if name not in _MEMBERS]
    missing = [name for name in _MEMBERS[:3] if name not in value]
    wrong = [name for name in _TEXTS if name in value and type(value[name]) is not str]
    if unknown:
        return _no_request(f"{shown(unknown[0])} is not a member of a request; it has {', '.join(_MEMBERS)}")
    if missing:
        return _no_request(f"the member {missing[0]!r} is missing")
    if wrong:
        return _no_request(f"the member {wrong[0]!r} must be a string")
    fault: StrataflowError | None = None
    if may_be_faulty:
        for name in ("id", *_TEXTS):
            for _, found in _faults(value.get(name), ""):
                return _no_request(f"the member {name!r} is not usable: {found.text}")
        for pointer, found in _faults(value["arguments"], ""):
            fault = _fault_error(pointer, found)
            break
    places = value.get("session"), value.get("cwd")
    return ToolRequest(value["id"], value["call"], value["arguments"], *places, fault, value.get("request_id"))


def _no_request(reason: str) -> Refusal:
    return Refusal(RequestError("E_REQUEST", f"not a request: {reason}; send one JSON object a line"))


# -- finding faults ---------------------------------------------------------------------------------------------


def _faults(value: Any, pointer: str, depth: int = 0) -> Iterator[tuple[str, _Fault]]:
    """Every fault inside, in the order of the text, each with its JSON Pointer."""
    if isinstance(value, _Fault):
        yield pointer, value
    elif type(value) is str:
        yield from ((pointer, fault) for fault in _surrogates(value))
    elif type(value) in (dict, list):
        if depth >= DEPTH_MAX:
            yield pointer, _Fault("depth", "more than 200 nested containers")
            return
        items = value.items() if type(value) is dict else enumerate(value)
        for key, item in items:
            place = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            if type(key) is str:
                for fault in _surrogates(key):
                    yield place.encode("utf-8", "backslashreplace").decode(), fault
            yield from _faults(item, place, depth + 1)


def _surrogates(text: str) -> Iterator[_Fault]:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            yield _Fault("surrogate", f"a lone surrogate U+{ord(text[error.start]):04X} at character {error.start}")


def _without_depths(text: str) -> str:
    """``text`` without what lies deeper than any parser should go; its form is kept."""
    depth, kept, start = 0, [], 0
    for match in _STRINGS_AND_BRACKETS.finditer(text):
        if match[0] in ("[", "{"):
            depth += 1
            if depth == _PARSED_DEPTH_MAX + 1:
                kept.append(text[start : match.start()] + "[")
        elif match[0] in ("]", "}"):
            if depth == _PARSED_DEPTH_MAX + 1:
                kept.append("]")
                start = match.end()
            depth -= 1
    if depth > _PARSED_DEPTH_MAX:
        return "".join(kept)  # brackets are left open: no JSON, as the parser will say
    return "".join(kept) + text[start:]


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            return _Fault("duplicate-key", f"key {shown(key)} stands twice in one object")
        found[key] = value
    return found


def _integer(digits: str) -> Any:
    if len(digits.lstrip("-")) > _DIGITS_MAX or abs(int(digits)) > _INT_MAX:
        return _Fault("integer-range", f"integer {shown(digits)} is beyond 64 bits")
    return int(digits)


def _float(text: str) -> Any:
    number = float(text)
    return _Fault("float-range", f"number {shown(text)} is too large") if abs(number) == float("inf") else number


def _constant(name: str) -> Any:
    return _Fault("constant", f"{name} is not JSON")


_MARKING = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
