"""What changed between two moments, as places of the projected state (T22, T25).

An entry is one place with its new value, or gone. Both sides are resolved along the places that the scopes' records
name, so the cost follows what was written between the two moments, not what is stored. Where records do not lead
from one to the other (a scope was read anew, or its history was cut) everything is compared; what both sides share is
passed over.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from ..algebra import Json, ScopeState, detach, same
from ..algebra.overlay import Layers, flattened, plane_layers, step_into
from ..algebra.record import EVERYTHING, joined_guide
from .shown import NOTHING, Path, Shown


@attrs.frozen
class Entry:
    """One place of the projected state and what stands there now; NOTHING if it is gone."""

    path: Path
    value: Any = NOTHING

    @property
    def is_deleted(self) -> bool:
        """Whether nothing stands there any more."""
        return self.value is NOTHING

    def to_json(self) -> Json:
        """As an update shows it, a copy."""
        if self.is_deleted:
            return {"path": list(self.path), "deleted": True}
        return {"path": list(self.path), "value": detach(self.value)}


def differences(old: Shown, new: Shown) -> Iterator[Entry]:
    """What leads from ``old`` to ``new``, in the order of the planes. No place is below another."""
    if old is new:
        return
    guide = guide_between(old.states, new.states)
    for plane in new.planes():
        below = guide.get(plane, NOTHING) if type(guide) is dict else EVERYTHING
        if plane == "artifacts":
            yield from _cards(old, new, below)
        elif below is not NOTHING:
            yield from _compared((plane,), plane_layers(old.layers, plane), plane_layers(new.layers, plane), below)


def guide_between(old: Iterable[ScopeState], new: Iterable[ScopeState]) -> Any:
    """A guide to all places that can differ between two moments of the same scopes (see ``record``)."""
    guide: Any = {}
    for before, after in zip(old, new, strict=True):
        if before.value is not after.value:
            records = _records_between(before, after)
            if not records:
                return EVERYTHING
            for record in records:
                guide = joined_guide(guide, record)
    return guide


def _records_between(before: ScopeState, after: ScopeState) -> list[Json]:
    """The records that lead from one to the other, newest first; none if they are not known to do so."""
    since = before.newest.position
    # A base that is newer stands at a boundary of another stream, or beyond records that are gone.
    if after.base_boundary.position > since:
        return []
    found = []
    for record in reversed(after.tail):
        if record.boundary.position <= since:
            break
        found.append(record.patch)
    # Each record raises the revision by one; anything else means that this is another stream.
    return found if after.revision - before.revision == len(found) else []


def _cards(old: Shown, new: Shown, guide: Any) -> Iterator[Entry]:
    """Differences of the artifacts. Cards are compared as they are shown, without provenance and with their hint."""
    before, after = plane_layers(old.layers, "artifacts"), plane_layers(new.layers, "artifacts")
    if not after:
        if before:
            yield Entry(("artifacts",))
        return
    touched: dict[str, Any] = {}
    if guide is not NOTHING:
        names = guide if type(guide) is dict else [path for layer in (*before, *after) for path in layer]
        touched.update(dict.fromkeys(names))
    if old.hints != new.hints:
        touched.update(dict.fromkeys([*old.hints, *new.hints]))
    for path in touched:
        left, right = old.card(path), new.card(path)
        if left is not right:
            there = [() if card is NOTHING else (card,) for card in (left, right)]
            yield from _compared(("artifacts", path), there[0], there[1], EVERYTHING)


def _compared(path: Path, old: Layers, new: Layers, guide: Any) -> Iterator[Entry]:
    if len(old) == len(new) and all(map(operator.is_, old, new)):
        return
    if not new:
        yield Entry(path)
        return
    # A plane that is new is no value of its own: it comes key by key.
    is_object = type(new[0]) is dict and (type(old[0]) is dict if old else len(path) == 1)
    if is_object:
        for key in _keys_to_compare(old, new, guide):
            below = guide[key] if type(guide) is dict and key in guide else EVERYTHING
            yield from _compared((*path, key), step_into(old, key), step_into(new, key), below)
    elif not old:
        yield Entry(path, flattened(new))
    elif type(old[0]) is list and type(new[0]) is list and len(old[0]) == len(new[0]):
        for index, (left, right) in enumerate(zip(old[0], new[0], strict=True)):
            if left is not right:
                yield from _compared((*path, index), (left,), (right,), EVERYTHING)
    elif not same(old[0], new[0]):
        yield Entry(path, flattened(new))


def _keys_to_compare(old: Layers, new: Layers, guide: Any) -> Iterable[str]:
    """The keys at which two objects can differ.

    Where something began or ceased to hide a broader layer, what that layer holds is named by no record, so such a
    layer counts whole. (A layer comes or goes otherwise only with a record that names all it holds.)
    """
    if type(guide) is not dict or not old:
        return dict.fromkeys(key for layer in (*old, *new) for key in layer)
    if len(old) == len(new):
        return guide
    alone = [layer for layer in old if all(layer is not other for other in new)]
    alone += [layer for layer in new if all(layer is not other for other in old)]
    return dict.fromkeys((*guide, *(key for layer in alone for key in layer)))


@attrs.define(eq=False)
class Places:
    """Entries of which none is below another: a tree by the steps of their paths, whose leaves they are."""

    _tree: dict[str | int, Any] = attrs.field(factory=dict)

    def add(self, entry: Entry) -> None:
        """Take an entry, unless one above it is there; those below it go."""
        node: Any = self._tree
        for step in entry.path[:-1]:
            node = node.setdefault(step, {})
            if type(node) is not dict:
                return
        node[entry.path[-1]] = entry

    def topmost(self) -> Iterable[Entry]:
        """The entries."""
        waiting: list[Any] = [self._tree]
        while waiting:
            node = waiting.pop()
            if type(node) is dict:
                waiting += reversed(node.values())
            else:
                yield node
