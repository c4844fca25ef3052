"""The value contract: which Python values memory may hold, how they are copied and when two are equal.

Memory is JSON: ``dict`` with ``str`` keys, ``list``, ``str``, ``bool``, ``int`` within ±(2^63 - 1), finite ``float``,
and ``None`` where the patch language gives it a meaning. Types are exact. A subclass, a tuple or a date is refused and
never converted: a value that comes back different from what was stored is worse than an error.

Invariants:
  V1  What passed ``detach_checked`` shares no container with its input, has no cycle and at most 200 levels.
  V2  Therefore every later walk over stored values may recurse.
"""

from __future__ import annotations

import math
from typing import Any

from .errors import CallError, shown

CONTAINERS_MAX = 200
INT_MAX = 2**63 - 1


class _Refused(Exception):
    """A value outside the contract; callers on the way up add their key, so that only a refusal pays for a path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = []


def pointer_token(key: str | int) -> str:
    """One step of a JSON Pointer, with its slash."""
    return f"/{key}" if type(key) is int else "/" + str(key).replace("~", "~0").replace("/", "~1")


def place(pointer: str) -> str:
    """A JSON Pointer for an error text. That of the whole value is empty and would say nothing."""
    return f"at {shown(pointer)}" if pointer else "as a whole"


def detach_checked(value: Any, *, allow_null: bool, pointer: str = "", depth: int = 0) -> Any:
    """A deep copy of ``value`` if the whole of it keeps the contract.

    Args:
      allow_null: whether ``None`` may stand inside (it may in a patch, not in a state).
      pointer: JSON Pointer of ``value`` for the error.
      depth: containers around ``value``; together with its own at most 200.

    Raises:
      CallError: E_JSON; ``data`` has ``pointer`` and ``reason``.
    """
    try:
        return _detach_checked(value, allow_null, depth)
    except _Refused as refused:
        where = pointer + "".join(pointer_token(key) for key in reversed(refused.path))
        raise CallError(
            "E_JSON",
            f"the value {place(where)} cannot be stored: {refused.reason}; pass plain JSON data",
            pointer=where,
            reason=refused.reason,
        ) from None


def _detach_checked(value: Any, allow_null: bool, depth: int) -> Any:
    kind_of = type(value)
    if kind_of is str:
        if not value.isascii():
            _check_text(value)
        return value
    if kind_of is bool:
        return value
    if kind_of is int:
        if not -INT_MAX <= value <= INT_MAX:
            raise _Refused("an integer outside ±(2^63-1)")
        return value
    if kind_of is float:
        if not math.isfinite(value):
            raise _Refused(f"{value} is not a finite number")
        return value
    if value is None:
        if not allow_null:
            raise _Refused("null is not a value of memory")
        return value
    if kind_of is dict or kind_of is list:
        # A cycle never ends before this limit, so it needs no check of its own. (V1)
        if depth >= CONTAINERS_MAX:
            raise _Refused(f"more than {CONTAINERS_MAX} nested containers, or a cycle")
        return _detach_container(value, allow_null, depth + 1)
    raise _Refused(f"a Python {kind_of.__name__} is not plain JSON data")


def _detach_container(value: Any, allow_null: bool, depth: int) -> Any:
    key: str | int = 0
    try:
        if type(value) is list:
            items = []
            for key, item in enumerate(value):  # noqa: B007 (the handler below names the place)
                items.append(_detach_checked(item, allow_null, depth))
            return items
        members = {}
        for key, item in value.items():
            if type(key) is not str:
                raise _Refused(f"an object key of type {type(key).__name__}")
            if not key.isascii():
                _check_text(key)
            members[key] = _detach_checked(item, allow_null, depth)
        return members
    except _Refused as refused:
        refused.path.append(key if type(key) is int else _printable(key))
        raise


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = ord(text[error.start])
        raise _Refused(f"a lone surrogate U+{found:04X} at character {error.start}") from None


def _printable(key: object) -> str:
    """A key for a pointer: itself, or something that can be encoded and does not echo a foreign object."""
    if type(key) is not str:
        return shown(key)
    return key.encode("utf-8", "backslashreplace").decode()


def detach(value: Any) -> Any:
    """A deep copy of a value that is known to keep the contract. Scalars are shared, containers never."""
    kind_of = type(value)
    if kind_of is dict:
        return {key: detach(item) if type(item) is dict or type(item) is list else item for key, item in value.items()}
    if kind_of is list:
        return [detach(item) if type(item) is dict or type(item) is list else item for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal as JSON: ``True`` is not ``1``, ``1`` is ``1.0``, order of keys does not matter."""
    if left is right:
        return True
    kind_of = type(left)
    if kind_of is not type(right):
        numbers = (kind_of is int or kind_of is float) and (type(right) is int or type(right) is float)
        return numbers and bool(left == right)
    if kind_of is dict:
        if len(left) != len(right):
            return False
        for key, item in left.items():
            if key not in right:
                return False
            other = right[key]
            if item is not other and not same(item, other):
                return False
        return True
    if kind_of is list:
        if len(left) != len(right):
            return False
        # Written out: a generator would take two more frames a level.
        for item, other in zip(left, right, strict=True):  # noqa: SIM110
            if item is not other and not same(item, other):
                return False
        return True
    return bool(left == right)


_KINDS = {
    list: "array",
    dict: "object",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def kind(value: Any) -> str:
    """The JSON name of the type of ``value``: array, object, string, number, boolean or null."""
    return _KINDS[type(value)]
