"""Leaves that are not as they should be, and which of them count when one fault is asked about."""

from __future__ import annotations

from typing import Any, Final

import attrs

from ..history import Read
from .model import Names
from .paths import parse
from .values import Difference, Keys, is_above

# A place in a store: the folder of a scope, and the keys in it.
Place = tuple[str, Keys]


@attrs.frozen
class Leaf:
    """A leaf that differs, and the scopes in which it may lie, narrowest first."""

    scopes: tuple[str, ...]
    keys: Keys
    found: Any
    right: Any
    read: Read | None = None

    @property
    def places(self) -> frozenset[Place]:
        """Where it may lie."""
        return frozenset((scope, self.keys) for scope in self.scopes)


def leaf_of(names: Names, misread: tuple[Read, Difference]) -> Leaf:
    """A leaf that a read of a session found otherwise."""
    read, (keys, found, right) = misread
    path = parse(read.path)
    assert path is not None
    return Leaf(tuple(names[index] for index in path.scopes), keys, found, right, read)


@attrs.frozen
class Focus:
    """Attributes are None for "all".

    Attributes:
      places: whose leaves count.
      flags: numbers of the calls whose ``changed`` counts.
      scopes: whose revisions count.
      with_end: whether the end counts.
    """

    places: frozenset[Place] | None = frozenset()
    flags: frozenset[int] | None = frozenset()
    scopes: frozenset[str] | None = frozenset()
    with_end: bool = True

    def leaves(self, found: list[Leaf]) -> list[Leaf]:
        """Those that count."""
        if self.places is None:
            return found
        return [leaf for leaf in found if self._counts(leaf, self.places)]

    @staticmethod
    def _counts(leaf: Leaf, places: frozenset[Place]) -> bool:
        return any(
            scope in leaf.scopes and (is_above(keys, leaf.keys) or is_above(leaf.keys, keys)) for scope, keys in places
        )


EVERYTHING: Final = Focus(None, None, None)
# All that was read, and nothing else.
LOOKS: Final = Focus(None, with_end=False)
