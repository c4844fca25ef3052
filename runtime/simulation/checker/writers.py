"""Who can have written what: for a place, the calls that ask for something there, and what they would leave.

A call that asks for a value at a place leaves exactly that, whatever was there before. Two things depend on what was
there: an edit of an array's element, and what goes with its intent. Their outcome is ANY here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import attrs

from ....store import Json
from ..history import Call, Read
from .facts import Facts
from .focus import Leaf, Place
from .model import scope_names, steps_of
from .paths import NAMES, inside, keys_of, parse
from .values import ABSENT, ANY, Keys, Mark, is_above, is_edit, kind_of, leaves, merged, owned, pruned, same

_UNTOUCHED = Mark("untouched")


@attrs.frozen(eq=False)
class Write:
    """What a call leaves at a place.

    Attributes:
      value: a leaf, ABSENT or ANY.
      asked: what its patch has there, ABSENT if that is above or nowhere.
      may_go: whether the place may go with an intent that the call deletes.
    """

    call: Call
    value: Any
    asked: Any
    may_go: bool = False

    @property
    def is_orphaning(self) -> bool:
        """Whether the place may go with an intent, and is not written."""
        return self.may_go and self.value is _UNTOUCHED


def _left_by(patch: Json, keys: Keys) -> tuple[Any, Any]:
    """What one patch of a scope leaves at a place, and what it has there."""
    node: Any = patch
    is_below_edit = False
    for depth, key in enumerate(keys, 1):
        if key not in node:
            return _UNTOUCHED, ABSENT
        node = node[key]
        is_last = depth == len(keys)
        if not isinstance(node, dict):
            left = ABSENT if node is None or not is_last else pruned(node)
            return (ANY if is_below_edit else left), node if is_last else ABSENT
        if is_edit(node):
            if is_last:
                return ANY, node
            is_below_edit = True
    return (ANY if is_below_edit else ABSENT), node


def edited_places(patch: Json, keys: Keys = ()) -> Iterator[Keys]:
    """The places at which a patch edits an array, if there is one."""
    if keys and is_edit(patch):
        yield keys
    for key, item in patch.items():
        if isinstance(item, dict):
            yield from edited_places(item, (*keys, key))


@attrs.define(eq=False)
class Writers:
    """All calls of a history by what they ask for. ``gone``: what went with its intent, by scope."""

    facts: Facts
    gone: dict[str, list[tuple[int, Keys]]]
    _found: dict[Place, list[Write]] = attrs.field(factory=dict, init=False)

    @functools.cached_property
    def _patches(self) -> dict[str, list[tuple[Call, list[Json]]]]:
        """By scope, in the order in which the calls began."""
        found: dict[str, list[tuple[Call, list[Json]]]] = {}
        for call in self.facts.changing:
            for scope, patches in self.patches_of(call).items():
                found.setdefault(scope, []).append((call, patches))
        return found

    @staticmethod
    def patches_of(call: Call) -> dict[str, list[Json]]:
        """What a call asks for, by scope, in its order."""
        names = scope_names(call.cwd, call.session)
        found: dict[str, list[Json]] = {}
        for step in steps_of(call):
            if not isinstance(step, Read):
                for name, scope in zip(NAMES, names, strict=True):
                    if step.get(name):
                        found.setdefault(scope, []).append(step[name])
        return found

    def scopes(self) -> list[str]:
        """The scopes that anybody asks for anything in."""
        return sorted(self._patches)

    def callers(self, scope: str, plane: str = "") -> list[Call]:
        """The calls that ask for anything in a scope, or in one plane of it."""
        return [
            call
            for call, patches in self._patches.get(scope, ())
            if not plane or any(plane in patch for patch in patches)
        ]

    @functools.cached_property
    def owned_by(self) -> dict[tuple[str, str], set[Keys]]:
        """By scope and intent: all that the intent ever was asked to own."""
        found: dict[tuple[str, str], set[Keys]] = {}
        for scope, calls in self._patches.items():
            kind = NAMES[0] if not scope else NAMES[2] if "/" in scope else NAMES[1]
            for _, patches in calls:
                for patch in patches:
                    for intent, item in patch.get("intents", {}).items():
                        found.setdefault((scope, intent), set()).update(owned([item], kind))
        return found

    def orphaned_by(self, scope: str, patch: Json) -> set[Keys]:
        """What may go with the intents that a patch deletes."""
        gone: set[Keys] = set()
        for intent, item in patch.get("intents", {}).items():
            if item is None or item == {}:
                gone |= self.owned_by.get((scope, intent), set())
        return gone

    def concerned(self, call: Call) -> set[Place]:
        """All places that a call may change: those it asks for, and those that may go with an intent."""
        patches = self.patches_of(call)
        orphaned = {
            (scope, keys)
            for scope, found in patches.items()
            for patch in found
            for keys in self.orphaned_by(scope, patch)
        }
        return {place for place, _ in asked_leaves(patches)} | orphaned

    def of(self, place: Place) -> list[Write]:
        """What each call that asks for something at a place leaves there, as they began."""
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = list(self._writes(*place))
        return found

    def _writes(self, scope: str, keys: Keys) -> Iterator[Write]:
        for call, patches in self._patches.get(scope, ()):
            value, asked, may_go = _UNTOUCHED, ABSENT, False
            for patch in patches:
                left = _left_by(patch, keys)
                if left[0] is not _UNTOUCHED:
                    value, asked = left
                    may_go = False
                if "intents" not in patch or keys[:1] == ("intents",):
                    continue
                if any(is_above(target, keys) for target in self.orphaned_by(scope, patch)):
                    may_go = True
            if value is not _UNTOUCHED or may_go:
                yield Write(call, value, asked, may_go)

    def last(self, place: Place, position: int) -> Call | None:
        """The call whose doing it is that a place is as it should be at a position; None if no call's."""
        best, found = 0, None
        for write in self.of(place):
            own = self.facts.position_of.get(write.call.number, 0)
            if write.is_orphaning:
                continue  # what went with an intent is known: it is in ``gone``
            if best < own <= position and self.facts.is_standing(own, position):
                best, found = own, write.call
        for own, keys in self.gone.get(place[0], ()):
            if best < own <= position and is_above(keys, place[1]) and self.facts.is_standing(own, position):
                best, found = own, self.facts.events[own - 1].call
        for event in self.facts.superseded:
            if best < event.position <= position and event.superseded and event.superseded.scope == place[0]:
                return None
        return found


def gives(write: Write, leaf: Leaf) -> bool:
    """Whether a write can be why a leaf was found as it was."""
    if leaf.found is ABSENT and (write.may_go or write.value is ANY):
        return True
    if write.is_orphaning:
        return False
    if write.value is ANY:
        return _may_give(write.asked, leaf)
    if is_kind(leaf):
        if leaf.found is ABSENT:
            return write.value is ABSENT and not isinstance(write.asked, dict)
        if isinstance(write.asked, dict):
            return bool(leaf.found == "object" and merged(ABSENT, write.asked) != {})
        return write.asked is not None and write.asked is not ABSENT and kind_of(write.asked) == leaf.found
    return shows(write.value, leaf)


def _may_give(asked: Any, leaf: Leaf) -> bool:
    """Whether an edit of an array, if there was one, or else an object of that form, can be what was found."""
    path = parse(leaf.read.path) if leaf.read is not None else None
    if is_kind(leaf) or (path is not None and path.rest):
        return True
    if isinstance(asked, dict) and is_edit(asked) and isinstance(leaf.found, list):
        places = {int(key[1:-1]): item for key, item in asked.items()}
        return all(
            place < len(leaf.found) and (isinstance(item, dict) or same(leaf.found[place], pruned(item)))
            for place, item in places.items()
        )
    return shows(pruned(asked), leaf)


def is_kind(leaf: Leaf) -> bool:
    """Whether a leaf is what the keys of an object say of one of its members."""
    path = parse(leaf.read.path) if leaf.read is not None and leaf.read.projection == "keys" else None
    return path is not None and not path.rest and leaf.keys != path.place


def shows(value: Any, leaf: Leaf) -> bool:
    """Whether what stands at a leaf's place is what was found there, as it was read."""
    if value is ANY:
        return True
    read = leaf.read
    path = parse(read.path) if read is not None else None
    if read is None or path is None:
        return same(value, leaf.found)
    if is_kind(leaf):
        return value is not ABSENT and kind_of(value) == leaf.found
    if path.rest:
        value = inside(value, path.rest)
    return same(value if read.projection == "value" else keys_of(value), leaf.found)


def asked_leaves(patches: dict[str, list[Json]]) -> Iterator[tuple[Place, Any]]:
    """All places that patches speak of, with what they ask for there (None: to delete it)."""
    for scope, found in patches.items():
        for patch in found:
            for keys, value in leaves(patch):
                yield (scope, keys), value
