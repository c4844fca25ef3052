"""Reading the past: offsets, stored records and what a transition changed (T41 to T43, T52 to T55, Ours-16).

An offset counts the visible boundaries of the session back from its head, whatever root it is used with. Nothing that
is no longer retained reads as empty: it is an error that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import attrs

from .cards import readable_cards
from .errors import ReadError, shown
from .history import Boundary, ScopeName, ScopeState, TailRecord
from .merge import Json
from .overlay import Layers, flattened, plane_layers, step_into
from .paths import ReadPath
from .planes import PLANES, known_planes
from .record import EVERYTHING, joined_guide
from .selection import follow, select, wrong_kind
from .values import same


class Sight(Protocol):
    """What is needed of a view."""

    @property
    def limit(self) -> int: ...

    @property
    def scopes(self) -> Mapping[ScopeName, ScopeState]: ...

    def history(self) -> tuple[Boundary, ...]:
        """The visible boundaries, oldest first."""

    def states(self, path: ReadPath) -> tuple[ScopeState, ...]:
        """The scopes that ``path`` looks at."""


@attrs.frozen
class Past:
    """One path and the moment it asks for."""

    _sight: Sight
    _path: ReadPath

    def values(self) -> list[Json]:
        """The scopes that the path looks at, as they were at its offset."""
        states = self._sight.states(self._path)
        boundaries = self._boundaries()
        return [state.value_at(boundaries[-1].position) for state in states]

    def record(self, index: int) -> TailRecord:
        """The scope's ``index``-th latest record, as stored (T43)."""
        (state,) = self._sight.states(self._path)
        self._check_range(index)
        records = state.visible_records(self._sight.limit)
        if index >= len(records):
            self._not_retained()
        record = records[-1 - index]
        return TailRecord(record.boundary, known_planes(record.patch))

    def patch(self) -> Any:
        """What the transition at the offset changed at the path."""
        path = self._path
        states = self._sight.states(path)
        *earlier, boundary = self._boundaries()
        if not earlier:
            patch = {} if boundary.is_origin else self._oldest_patch(states, boundary)
        elif path.root == "effective":
            patch = effective_patch(states, earlier[-1].position, boundary.position)
        else:
            record = states[0].record_at(boundary.position)
            patch = record.patch if record else {}
        return _at_path(path, patch, states, boundary)

    def _oldest_patch(self, states: tuple[ScopeState, ...], boundary: Boundary) -> Json:
        """At the oldest retained boundary what was before is gone, but a scope may still know its record (Ours-16)."""
        records = () if self._path.root == "effective" else states[0].visible_records(self._sight.limit)
        for record in records:
            if record.boundary.position == boundary.position:
                return record.patch
        return self._not_retained()

    def _boundaries(self) -> tuple[Boundary, ...]:
        """The visible history up to the moment of the offset, which is the last."""
        offset = self._path.offset
        self._check_range(offset)
        boundaries = self._sight.history()
        if offset >= len(boundaries):
            self._not_retained()
        return boundaries[: len(boundaries) - offset]

    def _check_range(self, number: int) -> None:
        limit = self._sight.limit
        if number > limit:
            raise ReadError(
                "E_HISTORY_RANGE",
                f"{shown(self._path.text)} is outside the history limit, 0 to {limit}",
                path=self._path.text,
                limit=limit,
            )

    def _not_retained(self) -> NoReturn:
        raise ReadError(
            "E_HISTORY_ORIGIN",
            f"{shown(self._path.text)} predates what is retained; read a newer moment",
            path=self._path.text,
        )


def _at_path(path: ReadPath, patch: Json, states: tuple[ScopeState, ...], boundary: Boundary) -> Any:
    """The part of ``patch`` that ``path`` names (T53)."""
    patch = _readable(patch)
    node: Any = patch
    for at, step in enumerate(path.steps):
        if node is None:
            return None
        if type(node) is dict:
            if not isinstance(step, str):
                wrong_kind(path, at, node)
            if step not in node:
                return {}
            node = node[step]
        elif type(node) is list:
            return follow(path, at, node)
        else:
            return select(path, [state.value_at(boundary.position) for state in states])
    return node


def _readable(patch: Json) -> Json:
    """The six planes of a patch in their order; an emptied response is a deletion (T54), provenance is not shown."""
    result = {plane: patch[plane] for plane in PLANES if plane in patch}
    if result.get("response") == "":
        result["response"] = None
    if "artifacts" in result:
        result["artifacts"] = readable_cards(result["artifacts"])
    return result


def effective_patch(states: Sequence[ScopeState], before: int, after: int) -> Json:
    """The difference between the effective views at two positions; removed keys are null.

    Only what the records in between touched is compared, so the cost does not follow the size of the state.
    """
    guide: Any = {}
    for state in states:
        for record in state.tail:
            if before < record.boundary.position <= after:
                guide = joined_guide(guide, record.patch)
    old_values = [state.value_at(before) for state in states]
    new_values = [state.value_at(after) for state in states]
    patch: Json = {}
    for plane in PLANES:
        if plane in guide:
            _note(patch, plane, plane_layers(old_values, plane), plane_layers(new_values, plane), guide[plane])
    return patch


def _note(patch: Json, key: str, old: Layers, new: Layers, guide: Any) -> None:
    """Add the change of one key to ``patch``, if there is any."""
    if len(old) == len(new) and all(left is right for left, right in zip(old, new, strict=True)):
        return
    if not new:
        patch[key] = None
    elif not old:
        patch[key] = flattened(new)
    elif type(old[0]) is dict and type(new[0]) is dict:
        change = _difference(old, new, guide)
        if change:
            patch[key] = change
    elif not same(old[0], new[0]):
        patch[key] = flattened(new)


def _difference(old: Layers, new: Layers, guide: Any) -> Json:
    change: Json = {}
    keys = guide if type(guide) is dict else dict.fromkeys(key for layer in (*old, *new) for key in layer)
    for key in keys:
        below = guide[key] if type(guide) is dict else EVERYTHING
        _note(change, key, step_into(old, key), step_into(new, key), below)
    return change
