"""Net records: what one accepted call changed in one scope, as a patch that replays (P19).

The record is the difference between the scope before and after, not what was authored: writes undone by a cascade do
not appear, cascaded keys appear as deletions, arrays and scalars are whole. It is found without walking the scope: a
*guide* names the places that can differ. A guide is shaped like a patch; where it is an object only its keys are
looked at, where it is anything else everything below is compared.

Invariants:
  R1  replay(before, net_record(before, after, guide)) is the same as after.
  R2  An empty record means that nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import CallError, shown
from .merge import Json, is_index_form
from .values import pointer_token, same

# The guide of a step that may have changed anything, such as the first pruning of a foreign scope.
EVERYTHING = None

_MISSING: Any = object()


def joined_guide(left: Any, right: Any) -> Any:
    """A guide to all places that either of two guides names."""
    if type(left) is not dict or type(right) is not dict:
        return EVERYTHING
    guide = dict(left)
    for key, below in right.items():
        guide[key] = joined_guide(left[key], below) if key in left else below
    return guide


def net_record(before: Json, after: Json, touched: Any = EVERYTHING) -> Json:
    """The record that leads from ``before`` to ``after``; ``{}`` if they are equal. Subtrees of ``after`` are shared.

    Args:
      touched: guide to the places that can differ.

    Raises:
      CallError: E_INDEX, an array became an object whose keys are all indexes; such a record would edit the array
        instead of replacing it (Ours-7).
    """
    try:
        return _difference(before, after, touched)
    except _Ambiguous as ambiguous:
        where = "".join(pointer_token(key) for key in reversed(ambiguous.path))
        raise CallError(
            "E_INDEX",
            f"the array at {shown(where)} would become an object with index keys only; "
            "delete it in one call and write the object in the next",
            pointer=where,
        ) from None


class _Ambiguous(Exception):
    """An array that would become an object of indexes; callers on the way up add their key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.path = [key]


def _difference(before: Json, after: Json, touched: Any) -> Json:
    record: Json = {}
    keys: Iterable[str]
    keys = touched if type(touched) is dict else [*before, *(key for key in after if key not in before)]
    for key in keys:
        old = before.get(key, _MISSING)
        new = after.get(key, _MISSING)
        if old is new:
            continue
        if new is _MISSING:
            record[key] = None
        elif type(old) is dict and type(new) is dict:
            below = touched[key] if type(touched) is dict else EVERYTHING
            try:
                change = _difference(old, new, below)
            except _Ambiguous as ambiguous:
                ambiguous.path.append(key)
                raise
            if change:
                record[key] = change
        elif old is _MISSING or not same(old, new):
            if type(old) is list and type(new) is dict and is_index_form(new):
                raise _Ambiguous(key)
            record[key] = new
    return record
