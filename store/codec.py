"""JSON text in and out: the one place that reads or writes bytes of JSON.

Two readers, on purpose. ``parse_strict`` is for text from outside (tools, command line, files that anybody may have
edited): it refuses whatever would be read as something else than what is written. ``decode`` is for rows that this
program wrote and SQLite guards: it is ten times faster. ``orjson`` alone is no strict gate: it reads large integers
as floats and lets the last of two equal keys win, and both can no longer be seen afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import orjson

from .algebra import INT_MAX, CallError, shown

_DIGITS_MAX = len(str(INT_MAX)) + 1


def canonical(value: Any) -> bytes:
    """``value`` as canonical text (store 1.3): one line, no spaces, keys sorted by code point, UTF-8, final newline.

    Keys sort by code point, not by UTF-16 unit as the original does; readers never depend on order (store 1.3.2).
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def compact(value: Any) -> str:
    """``value`` as one line without spaces, members in the given order, non-ASCII written raw."""
    return orjson.dumps(value).decode()


def pretty(value: Any) -> str:
    """``value`` for a person: two spaces a level."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def decode(text: bytes | str) -> Any:
    """What this program wrote, quickly. Only for text whose origin is certain."""
    return orjson.loads(text)


def parse_stream_piece(text: str) -> Any:
    """JSON of another program's stream, where each of thousands of pieces counts: quick, and only as strict as that.

    What no strict reader takes although people send it (halves of a surrogate pair, ``NaN``) is read as written.

    Raises:
      ValueError: it is no JSON.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        try:
            return json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def identity(data: bytes | None) -> str:
    """The file identity of store 1.9.1: ``sha256:`` and lowercase hex of the raw bytes, or ``missing``."""
    return "missing" if data is None else "sha256:" + hashlib.sha256(data).hexdigest()


def parse_strict(text: bytes | str) -> Any:
    """Exactly one JSON value (Ours-5). Nulls are let through: whether one is allowed depends on its place.

    Raises:
      CallError: E_JSON for invalid UTF-8, trailing text, duplicate keys, NaN, infinities, integers beyond 64 bits,
        or nesting that no parser should follow. ``data["reason"]`` is a short name of the cause.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _refuse("utf8", f"invalid UTF-8 at byte {error.start}: write the text as UTF-8") from None
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _refuse("syntax", f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _refuse("depth", "nested too deeply: at most 200 containers") from None


def _refuse(reason: str, message: str) -> CallError:
    return CallError("E_JSON", message, reason=reason)


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _refuse("duplicate-key", f"key {shown(key)} stands twice in one object: keep one of them")
        found[key] = value
    return found


def _integer(digits: str) -> int:
    # The length first: converting a million digits to find out that they are too many would be the attack.
    if len(digits) > _DIGITS_MAX or abs(number := int(digits)) > INT_MAX:
        raise _refuse("integer-range", f"integer {shown(digits)} is beyond 64 bits: write it as a string")
    return number


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _refuse("float-range", f"number {shown(text)} is too large: write it as a string")
    return number


def _constant(name: str) -> Any:
    raise _refuse("constant", f"{name} is not JSON: leave the member out or write null where it is allowed")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
