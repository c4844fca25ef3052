"""History of a scope and of a session: boundaries, records, folding, offsets.

A *boundary* is one accepted moment of a store: an origin or a transition. A scope keeps a base value at an older
boundary and the net records accepted since (its tail); the present value is base plus tail. A session's history
is not stored: it is all boundaries that changed global, its directory or itself since its origin, in the order of
their positions, whoever made them. Positions come from one counter per store, so this order is total.

Invariants:
  H1  value == base with every record of the tail applied, in order.
  H2  base.position < tail[0].position < tail[1].position < …
  H3  A boundary older than the base of one of a session's scopes is not part of its visible history.
  H4  floor <= the newest position; it only grows. No reader sees anything older than the floor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from .merge import replay

ScopeName = Literal["global", "cwd", "session"]
SCOPES: tuple[ScopeName, ...] = ("global", "cwd", "session")

# The canonical tail and the lineage never hold more, whatever the configured limit (store 1.4.9, 1.7.2).
HISTORY_LIMIT_MAX = 100
HISTORY_LIMIT_DEFAULT = 7

Json = dict[str, Any]


@attrs.frozen
class Boundary:
    """One accepted moment. ``parent`` is the same session's boundary before it; only an origin has none."""

    id: str
    parent: str | None
    position: int

    @property
    def is_origin(self) -> bool:
        """Whether history begins here (nothing older exists, as opposed to nothing older retained)."""
        return self.parent is None


@attrs.frozen
class TailRecord:
    """The net change one transition made to one scope."""

    boundary: Boundary
    patch: Json


@attrs.frozen
class ScopeState:
    """One scope at one moment. Nobody mutates ``value``, ``base`` or a patch after publication."""

    value: Json
    revision: int
    base: Json
    base_boundary: Boundary
    tail: tuple[TailRecord, ...] = ()
    # path -> evidence of how a source card was compiled; malformed entries are kept as None until rewritten
    evidence: Mapping[str, Any] = attrs.field(factory=dict)
    # Whether no object member anywhere is an empty object. Files of others may hold some; ours never do.
    is_pruned: bool = True
    floor: int = 0

    @property
    def newest(self) -> Boundary:
        """The last boundary that changed this scope, or the one its base stands at."""
        return self.tail[-1].boundary if self.tail else self.base_boundary

    def accept(self, boundary: Boundary, patch: Json, value: Json, limit: int) -> ScopeState:
        """This scope after one transition, with ``limit`` (0…100) records left visible."""
        # The record that becomes the newest pushes the oldest visible one below the floor (Ours-4).
        if limit == 0:
            floor = boundary.position
        elif len(self.tail) >= limit:
            floor = self.tail[-limit].boundary.position
        else:
            floor = self.base_boundary.position
        return self.follow(boundary, patch, value, floor)

    def follow(self, boundary: Boundary, patch: Json, value: Json, floor: int) -> ScopeState:
        """This scope after one transition whose writer left everything from ``floor`` on visible. (H1, H4)"""
        # Written out: attrs.evolve, here and for the fold, would be a good part of a small commit.
        floor = max(self.floor, floor)
        base, base_boundary, tail = self._folded(floor, (*self.tail, TailRecord(boundary, patch)))
        return ScopeState(value, self.revision + 1, base, base_boundary, tail, self.evidence, True, floor)

    def fold(self, position: int) -> ScopeState:
        """Move the base forward over every record not newer than ``position``. Values and revision stay."""
        base, base_boundary, tail = self._folded(position, self.tail)
        if len(tail) == len(self.tail):
            return self
        return attrs.evolve(self, base=base, base_boundary=base_boundary, tail=tail)

    def _folded(self, position: int, tail: tuple[TailRecord, ...]) -> tuple[Json, Boundary, tuple[TailRecord, ...]]:
        count, base, base_boundary = 0, self.base, self.base_boundary
        for record in tail:
            if record.boundary.position > position:
                break
            base, base_boundary = replay(base, record.patch), record.boundary
            count += 1
        return base, base_boundary, tail[count:]

    def value_at(self, position: int) -> Json:
        """The value as it was at ``position`` (at or after the base)."""
        assert position >= self.base_boundary.position, (position, self.base_boundary)
        if position >= self.newest.position:
            return self.value
        value = self.base
        for record in self.tail:
            if record.boundary.position > position:
                break
            value = replay(value, record.patch)
        return value

    def record_at(self, position: int) -> TailRecord | None:
        """The retained record of the transition at exactly ``position``, if it changed this scope."""
        return next((record for record in self.tail if record.boundary.position == position), None)

    def visible_records(self, limit: int) -> tuple[TailRecord, ...]:
        """The newest ``limit`` records that a floor has not hidden, oldest first."""
        newer = tuple(record for record in self.tail if record.boundary.position > self.floor)
        return newer[-limit:] if limit else ()


def empty_scope(boundary: Boundary) -> ScopeState:
    """A scope that never held anything, standing at ``boundary``."""
    return ScopeState(value={}, revision=0, base={}, base_boundary=boundary)


@attrs.frozen
class Lineage:
    """Where a session's history begins.

    ``known`` are the boundaries that the session's own run record names, oldest first; a session of ours has one,
    its origin. Every boundary of its scopes with a position above ``since`` follows them.
    """

    known: tuple[Boundary, ...]
    since: int

    def boundaries(self, scopes: Iterable[ScopeState], limit: int) -> tuple[Boundary, ...]:
        """The visible history, oldest first: at most ``limit`` + 1 boundaries, the last is the head. (H3, H4)"""
        scopes = tuple(scopes)
        found = {boundary.position: boundary for boundary in self.known}
        for scope in scopes:
            for boundary in (scope.base_boundary, *(record.boundary for record in scope.tail)):
                if boundary.position > self.since:
                    found[boundary.position] = boundary
        oldest = max(max(scope.base_boundary.position, scope.floor) for scope in scopes)
        ordered = [found[position] for position in sorted(found)]
        # The head is visible even when other writers' floors have passed it: it is the present.
        visible = [boundary for boundary in ordered[:-1] if boundary.position >= oldest]
        return (*visible, ordered[-1])[-limit - 1 :]

    def head(self, scopes: Iterable[ScopeState]) -> Boundary:
        """The newest boundary of this session."""
        newest = [scope.newest for scope in scopes if scope.newest.position > self.since]
        return max(newest, key=lambda boundary: boundary.position) if newest else self.known[-1]
