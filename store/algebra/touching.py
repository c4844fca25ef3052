"""Whether a net record has to do with a read path: for logs, conflicts and watchers.

Only the record is looked at, not the values before and after it, so a record that is thousands of transitions old can
be asked as well as the newest. The record and the path are followed side by side until one of them ends::

    record {"working": {"tasks": {"t1": null}}}
    working.tasks.t1.note   touched: t1 was removed with everything in it
    working.tasks           touched: something in it changed
    working.tasks.t2        not touched; of the effective view it may have changed (U3)

Invariants:
  U1  A path of one scope reads the same before and after every record that does not touch it.
  U2  Whatever looks at the past (an offset, a stored record) is moved by every record of its scopes.
  U3  A path of the effective view reads the same before and after every record of which ``may_change`` is false. An
      object in place of a scalar uncovers what broader scopes have beside it, and a record does not say what it
      replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .history import ScopeName
from .merge import Json, is_index_form
from .paths import NUMBER_CAP, ReadPath, Step
from .planes import PLANES


def looks_at(path: ReadPath, scope: ScopeName) -> bool:
    """Whether anything in this scope can matter to ``path``. An offset counts boundaries of all scopes (U2)."""
    return path.root in ("effective", scope) or path.offset > 0


def touches(path: ReadPath, scope: ScopeName, record: Json) -> bool:
    """Whether ``record``, the net change of ``scope``, changed something at the path, above it or below it. (U1, U2)"""
    return looks_at(path, scope) and _meets(path, record, path.steps, False)


def may_change(path: ReadPath, scope: ScopeName, record: Json) -> bool:
    """As ``touches``; of the effective view also whether it may have uncovered or hidden something there. (U3)"""
    return looks_at(path, scope) and _meets(path, record, path.steps, path.root == "effective")


def _meets(path: ReadPath, record: Json, steps: Sequence[Step], beside: bool) -> bool:
    """``beside``: a change beside the path, inside of a plane, counts too."""
    if path.offset or path.record_index is not None:
        return bool(record)
    if not steps:
        return any(plane in record for plane in PLANES)
    node: Any = record
    for number, step in enumerate(steps):
        if type(node) is not dict:
            return True  # replaced or removed as a whole
        if isinstance(step, str):
            if step not in node:
                return beside and number > 0
            node = node[step]
        elif not is_index_form(node):
            return True  # an object where the path expects an array
        elif isinstance(step, int):
            if f"[{step}]" not in node:
                return False
            node = node[f"[{step}]"]
        else:
            return any(step[0] <= _index(key) < step[1] for key in node)
    return True


def _index(key: str) -> int:
    # int() of thousands of digits is refused by Python itself, and no array is that long.
    return int(key[1:-1]) if len(key) <= 20 else NUMBER_CAP
