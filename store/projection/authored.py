"""The patches of one call, seen from the effective view: which places they name, and what they wrote where (T25, T27).

A model that wrote a patch expects its outcome. An update needs to tell only what came out otherwise, so each place of
the outcome is held against what was authored for exactly that place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ..algebra import SCOPES, Json, ScopeName
from ..algebra.merge import is_index_form
from ..algebra.overlay import Layers, flattened, plane_layers, step_into
from .differences import Entry
from .shown import NOTHING, Path, Shown

# A longer run of digits is no index of any array, and int() refuses thousands of them.
_DIGITS_MAX = 16


def authored_places(patch: Json, new: Shown) -> Iterator[Entry]:
    """The places of the effective view that one scope's patch names, outside ``lazy``, as they are now.

    A card is one place. Where the effective view ends before the patch does, because a narrower value masks it, the
    place is that of the masking value. An empty object names nothing.
    """
    for plane, content in patch.items():
        if plane == "artifacts":
            yield from (Entry(("artifacts", path), new.card(path)) for path, card in content.items() if card != {})
        elif plane != "lazy":
            yield from _places((plane,), content, plane_layers(new.layers, plane))


def _places(path: Path, node: Json, layers: Layers) -> Iterator[Entry]:
    value = layers[0] if layers else {}
    if type(value) is list and _fits(node, value):
        for key, below in node.items():
            index = int(key[1:-1])
            yield from _place((*path, index), below, (value[index],))
    elif type(value) is not dict:
        if _has_leaf(node):
            yield Entry(path, value)
    else:
        for key, below in node.items():
            yield from _place((*path, key), below, step_into(layers, key))


def _place(path: Path, below: Any, layers: Layers) -> Iterator[Entry]:
    if type(below) is dict:
        yield from _places(path, below, layers)
    else:
        yield Entry(path, flattened(layers) if layers else NOTHING)


def _fits(node: Json, array: list[Any]) -> bool:
    """Whether an object edits elements that this array has."""
    return is_index_form(node) and all(_index(key) < len(array) for key in node)


def _index(key: str) -> int:
    digits = key[1:-1]
    return int(digits) if len(digits) <= _DIGITS_MAX else 10**_DIGITS_MAX


def _has_leaf(node: Any) -> bool:
    return any(_has_leaf(below) for below in node.values()) if type(node) is dict else True


def is_leaf(value: Any) -> bool:
    """Whether an authored value ends a path: a scalar, an array, null or an empty object."""
    return type(value) is not dict or not value


@attrs.frozen(eq=False)
class Authored:
    """All patches of a call.

    Attributes:
      known: what its author knew before, None if that is not known.
      cascaded: read paths of what went with its intent.
    """

    patches: Mapping[ScopeName, Json]
    known: Shown | None
    cascaded: tuple[str, ...] = ()

    def at(self, path: Path) -> tuple[ScopeName, Any] | None:
        """Who authored what at exactly this path: a leaf before an object, then the narrowest scope."""
        found = [(scope, self._value(self.patches[scope], path)) for scope in reversed(SCOPES) if scope in self.patches]
        found = [(scope, value) for scope, value in found if value is not NOTHING]
        leaves = [pair for pair in found if is_leaf(pair[1])]
        return next(iter(leaves or found), None)

    def writes_at(self, path: Path) -> bool:
        """Whether some scope's patch puts something at exactly this path, which did not go with its intent."""
        gone = [(scope, tuple(keys)) for scope, *keys in (place.split(".") for place in self.cascaded)]
        for scope, patch in self.patches.items():
            is_gone = any(owner == scope and path[: len(keys)] == keys for owner, keys in gone)
            if not is_gone and _writes(self._value(patch, path)):
                return True
        return False

    def is_contested(self, path: Path, scope: ScopeName) -> bool:
        """Whether another scope authored a leaf at this path, above or below it."""
        return any(_has_leaf_near(patch, path) for other, patch in self.patches.items() if other != scope)

    def _value(self, patch: Json, path: Path) -> Any:
        node: Any = patch
        for at, step in enumerate(path):
            if type(node) is not dict:
                return NOTHING
            if type(step) is int:
                # An index selector means an index only to somebody who knows that an array stands there.
                if self.known is None or type(self.known.at(path[:at])) is not list:
                    return NOTHING
                node = node.get(f"[{step}]", NOTHING)
            else:
                node = node.get(step, NOTHING)
        return node


def _writes(value: Any) -> bool:
    if type(value) is dict:
        return any(_writes(below) for below in value.values())
    return value is not None and value is not NOTHING


def _has_leaf_near(patch: Json, path: Path) -> bool:
    node: Any = patch
    for step in path:
        if is_leaf(node):
            return True
        key = f"[{step}]" if type(step) is int else step
        if key not in node:
            return False
        node = node[key]
    return True
