"""Lines of a session file: JSON text as JavaScript writes it, and read as JavaScript reads it (host 1.1).

Written are compact members in their given order, characters as themselves, lone surrogates escaped, numbers as
``JSON.stringify`` spells them. So a line that such a program wrote is the same line when it is written again.

Reading is tolerant, writing is strict: what is no object with a string ``type`` is no entry and is passed over, but a
value that JSON has no word for is refused by name and never converted.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any

from ..algebra import CallError, shown
from ..algebra.values import place, pointer_token
from ..codec import decode

Entry = dict[str, Any]

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_DIGITS_PLAIN_MAX = 21  # from 1e21 on JavaScript writes an exponent
BLANK = b" \t\r\n"


def line_of(value: Entry) -> bytes:
    """``value`` as one line, without its LF.

    Raises:
      CallError: E_JSON, with a JSON Pointer in ``data["pointer"]``, for what JSON can not say: other types than dict
        with str keys, list, str, bool, int, finite float and None, or nesting beyond what Python can follow.
    """
    parts: list[str] = []
    try:
        _write(value, parts, ())
    except RecursionError:
        raise CallError("E_JSON", "an entry is nested too deeply to be written; flatten it", pointer="") from None
    text = "".join(parts)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Two halves that stand side by side are one character, as they would be in JavaScript's strings.
        text = _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
        return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def parse_line(line: bytes) -> Entry | None:
    """The object of a line that has a string ``type``; None for a line that is blank, not JSON or anything else."""
    value = value_of(line)
    return value if type(value) is dict and type(value.get("type")) is str else None


def value_of(line: bytes) -> Any:
    """The JSON value of a line; None also where there is none."""
    try:
        return decode(line)
    except ValueError:
        pass  # Also what the quick reader can not say: escaped halves of characters, bytes that are no UTF-8.
    if not line.strip(BLANK):
        return None
    try:
        return json.loads(line.decode("utf-8", "replace"), parse_constant=_no_constant, parse_int=_integer)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _integer(digits: str) -> int | float:
    # The quick reader gives a float for what has no room in 64 bits, and a long text must not cost its square.
    return int(digits) if len(digits) < 20 else float(digits)


def number_text(value: float) -> str:
    """A finite float as JavaScript writes it: ``1`` for 1.0, ``1e-7``, ``100000000000000000000``, ``1e+21``."""
    if value == 0:
        return "0"
    sign, mantissa = ("-", -value) if value < 0 else ("", value)
    head, _, exponent = repr(mantissa).partition("e")
    whole, _, fraction = head.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= _DIGITS_PLAIN_MAX:
        return sign + digits + "0" * (point - count)
    if 0 < point <= _DIGITS_PLAIN_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def _write(value: Any, parts: list[str], path: tuple[str | int, ...]) -> None:
    kind = type(value)
    if kind is str:
        parts.append(encode_basestring(value))
    elif kind is dict:
        separator = "{"
        for key, member in value.items():
            if type(key) is not str:
                raise _refusal(path, f"the key {shown(key)} is no string")
            parts.append(f"{separator}{encode_basestring(key)}:")
            _write(member, parts, (*path, key))
            separator = ","
        parts.append("}" if value else "{}")
    elif kind is list:
        separator = "["
        for number, item in enumerate(value):
            parts.append(separator)
            _write(item, parts, (*path, number))
            separator = ","
        parts.append("]" if value else "[]")
    elif value is None or kind is bool:
        parts.append("null" if value is None else "true" if value else "false")
    elif kind is int:
        parts.append(str(value))
    elif kind is float and value - value == 0:
        parts.append(number_text(value))
    else:
        raise _refusal(path, f"{shown(value)} has no spelling in JSON")


def _refusal(path: tuple[str | int, ...], reason: str) -> CallError:
    pointer = "".join(map(pointer_token, path))
    text = f"the entry {place(pointer)} cannot be written: {reason}; give plain JSON values"
    return CallError("E_JSON", text, pointer=pointer)
