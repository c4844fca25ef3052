"""The patch language: merging an authored patch, replaying a record, pruning.

A patch is merged key by key. ``null`` removes a key, a scalar or an array replaces, an object goes on below. An object
whose keys are all ``[N]`` edits an array in place (the index form). Nothing here mutates its input: the path to a
change is copied once and everything beside it is shared, so the cost follows the patch and the widths on its path.

Invariants:
  G1  A merge that changes nothing returns its target itself, so ``is`` tells whether anything happened.
  G2  A replaced value that is equal keeps its stored spelling (``1`` stays when ``1.0`` is written).
  G3  merge_pruned(target, patch) equals prune(merge(target, patch)) for every target that is pruned already.
"""

from __future__ import annotations

import re
from typing import Any

from .errors import CallError, StoreError, shown
from .values import pointer_token, same

Json = dict[str, Any]

SAFE_INT_MAX = 2**53 - 1

_MISSING: Any = object()
_INDEX = re.compile(r"\[(0|[1-9][0-9]*)\]")


class _BadIndex(Exception):
    """An index that cannot be used; callers on the way up add their key."""

    def __init__(self, reason: str, key: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = [key]


def is_index_form(patch: Json) -> bool:
    """Whether an object aimed at an array edits its elements (P6) instead of replacing it (P8)."""
    match = _INDEX.fullmatch
    return bool(patch) and all(match(key) for key in patch)


def merge(target: Json, patch: Json) -> Json:
    """``target`` after the authored operations of ``patch`` alone (P1 to P9).

    Objects that became empty stay; pruning is a step of its own. Values of the patch are shared, not copied.

    Raises:
      CallError: E_INDEX, ``data`` has the JSON Pointer; ``target`` is as before.
    """
    return _authored(target, patch, False)


def merge_pruned(target: Json, patch: Json) -> Json:
    """``target``, which holds no empty object member, after ``patch`` and the pruning of what it touched. (G3)

    Raises:
      CallError: E_INDEX, as ``merge``.
    """
    return _authored(target, patch, True)


def replay(value: Json, record: Json) -> Json:
    """``value`` after a stored record. Records merge like patches; planes may be null, ``response`` may be empty.

    Raises:
      StoreError: E_CORRUPT, the record does not fit the value it is said to follow.
    """
    try:
        merged: Json = _merge(value, record, False)
        return merged
    except _BadIndex as bad:
        where = _pointer(bad)
        raise StoreError(
            "E_CORRUPT", f"a stored record does not fit its scope at {shown(where)}: {bad.reason}", pointer=where
        ) from None


def _authored(target: Json, patch: Json, prunes: bool) -> Json:
    try:
        merged: Json = _merge(target, patch, prunes)
        return merged
    except _BadIndex as bad:
        where = _pointer(bad)
        raise CallError(
            "E_INDEX", f"{bad.reason} at {shown(where)}; read the array again or send it whole", pointer=where
        ) from None


def _pointer(bad: _BadIndex) -> str:
    return "".join(pointer_token(key) for key in reversed(bad.path))


def _merge(target: Any, patch: Json, prunes: bool) -> Any:
    """An object patch onto anything, or onto nothing. One frame a level: values may be 200 levels deep."""
    if type(target) is not dict:
        if type(target) is list and is_index_form(patch):
            return _merge_array(target, patch, prunes)
        return _new_object(patch, prunes)
    result = target
    key = ""
    try:
        for key, value in patch.items():
            old = target.get(key, _MISSING)
            if value is None:
                new = _MISSING
            elif type(value) is dict:
                new = _merge(old, value, prunes)
                if prunes and not new and type(new) is dict:
                    new = _MISSING  # P12
            else:
                new = _plain(old, value, prunes)
            if new is old:
                continue
            if result is target:
                result = target.copy()
            if new is _MISSING:
                del result[key]
            else:
                result[key] = new
    except _BadIndex as bad:
        bad.path.append(key)
        raise
    return result


def _plain(old: Any, value: Any, prunes: bool) -> Any:
    """What stands where ``old`` stood (or nothing) after an authored scalar or array."""
    if prunes and type(value) is list:
        value = prune(value)
    return old if old is not _MISSING and same(old, value) else value  # G2


def _merge_array(target: list[Any], patch: Json, prunes: bool) -> list[Any]:
    result = target
    for key, value in patch.items():
        digits = key[1:-1]
        # Longer numbers are not even parsed: int() itself refuses thousands of digits.
        index = int(digits) if len(digits) <= 16 else SAFE_INT_MAX + 1
        if index > SAFE_INT_MAX:
            raise _BadIndex("an array index beyond 2^53-1", digits)
        if index >= len(target):
            raise _BadIndex(f"index {index} is outside an array of length {len(target)}", digits)
        if value is None:
            raise _BadIndex(f"index {index} cannot be deleted with null", digits)
        old = target[index]
        try:
            new = _merge(old, value, prunes) if type(value) is dict else _plain(old, value, prunes)
        except _BadIndex as bad:
            bad.path.append(digits)
            raise
        if new is not old:
            if result is target:
                result = target.copy()
            result[index] = new
    return result


def _new_object(patch: Json, prunes: bool) -> Json:
    """What a patch leaves where there was no object: null is only a marker (P3)."""
    result = {}
    for key, value in patch.items():
        if value is None:
            continue
        if type(value) is dict:
            value = _new_object(value, prunes)
            if prunes and not value:
                continue
        elif prunes and type(value) is list:
            value = prune(value)
        result[key] = value
    return result


def prune(value: Any) -> Any:
    """``value`` without empty object members, at any depth (P12); itself if there are none.

    Elements of arrays stay, also when they became empty; so does the root.
    """
    if type(value) is dict:
        return _prune_object(value)
    if type(value) is list:
        items = value
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                pruned = prune(item)
                if pruned is not item:
                    if items is value:
                        items = value.copy()
                    items[index] = pruned
        return items
    return value


def _prune_object(value: Json) -> Json:
    result = value
    for key, item in value.items():
        if type(item) is dict or type(item) is list:
            pruned = prune(item)
            is_gone = type(pruned) is dict and not pruned
            if is_gone or pruned is not item:
                if result is value:
                    result = value.copy()
                if is_gone:
                    del result[key]
                else:
                    result[key] = pruned
    return result
