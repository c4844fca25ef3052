"""Replaying a history: the state of the store after every event, and what follows from it for answers.

Whoever reads may lag behind: a process shows the state up to a row that it has followed, and that only moves forward.
Two things stand still while all else moves on. A scope whose bytes gave way to foreign ones shows its old value until
the new bytes have been read, and a session that another process changed keeps its view.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import product

import attrs

from ....store import Json
from ..history import Call
from .facts import Event, Facts
from .model import EMPTY, Held, Names, Taken, own_planes, scope_names, take, trio_of
from .paths import Trio

_REVISION = re.compile(r"g(\d+)c(\d+)s(\d+)")
Revisions = tuple[int | None, int | None, int | None]


def told_revisions(text: str) -> tuple[int, int, int] | None:
    """The three numbers of a revision vector such as ``g1c0s2``."""
    match = _REVISION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


@attrs.define(eq=False)
class Replay:
    """The state at ``position``. ``touched``: folders of the scopes that the last event changed; None: all of them."""

    facts: Facts
    offset_max: int = 0
    position: int = 0
    world: dict[str, Held] = attrs.field(factory=dict)
    touched: frozenset[str] | None = None
    _kept: dict[int, dict[str, Held]] = attrs.field(factory=dict, init=False)
    _versions: dict[str, deque[tuple[int, Json]]] = attrs.field(factory=dict, init=False)
    # Old values that may still be shown: by scope, by process and scope; with the position they gave way at.
    _replaced: dict[str, list[tuple[int, Json]]] = attrs.field(factory=dict, init=False)
    _fenced: dict[tuple[str, str], list[tuple[int, Json]]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for scope in self.facts.history.initial:
            self.world[scope.scope] = Held(own_planes(scope.value), scope.revision)
        self._keep()

    def _keep(self) -> None:
        if self.position in self.facts.kept_positions:
            self._kept[self.position] = dict(self.world)

    def apply(self, event: Event) -> Taken | None:
        """Go on over the next event. What a call did; None for other events.

        Raises:
          Unfit: the call can not have been accepted. The state is as before.
        """
        self.position = event.position
        self.touched = frozenset()
        try:
            if event.back_to is not None:
                self.world = dict(self._kept[event.back_to])
                self._versions.clear()
                self.touched = None
            elif event.superseded is not None:
                scope = event.superseded.scope
                self._replaced.setdefault(scope, []).append((self.position, self.world.get(scope, EMPTY).value))
                self._versions.clear()
                self.world[scope] = Held(own_planes(event.superseded.value), event.superseded.revision, True)
                self.touched = frozenset({scope})
            elif event.call is not None:
                return self._take(event.call)
        finally:
            self._keep()
        return None

    def _take(self, call: Call) -> Taken:
        names = scope_names(call.cwd, call.session)
        taken = take(call, trio_of(self.world, names), self.raw(names))
        changed = taken.changed()
        for name, is_changed, before, after in zip(names, changed, taken.before, taken.after, strict=True):
            if is_changed:
                revision = self.world.get(name, EMPTY).revision
                self.world[name] = Held(after, None if revision is None else revision + 1)
                if self.offset_max:
                    versions = self._versions.setdefault(name, deque([(0, before)], self.offset_max + 2))
                    versions.append((self.position, after))
        if changed[2]:
            for process in self.facts.others_at(call):
                self._fenced.setdefault((process, names[2]), []).append((self.position, taken.before[2]))
        self.touched = frozenset(name for name, is_changed in zip(names, changed, strict=True) if is_changed)
        return taken

    def raw(self, names: Names) -> tuple[int, ...]:
        """Which of three scopes hold foreign bytes, to be pruned with the next patch."""
        return tuple(index for index, name in enumerate(names) if self.world.get(name, EMPTY).is_raw)

    def revisions(self, names: Names) -> Revisions:
        """The revisions of three scopes."""
        shared, cwd, session = (self.world.get(name, EMPTY).revision for name in names)
        return shared, cwd, session

    def believe(self, names: Names, told: tuple[int, int, int]) -> None:
        """Go on with the revisions of a receipt, so that one fault is told once."""
        for name, revision in zip(names, told, strict=True):
            self.world[name] = attrs.evolve(self.world.get(name, EMPTY), revision=revision)

    # -- looking ------------------------------------------------------------------------------------------------

    def shown_to(self, process: str, names: Names, oldest: int) -> Iterator[Trio]:
        """What a process may see at this position: the present, and scopes that stand still for it since ``oldest``."""
        present = trio_of(self.world, names)
        yield present
        if not self._replaced and not self._fenced:
            return
        choices: list[list[Json]] = []
        for index, name in enumerate(names):
            old = [*self._replaced.get(name, ()), *self._fenced.get((process, name), ())]
            is_fence = index == 2
            choices.append([present[index], *(value for position, value in old if position > oldest or is_fence)])
        for shared, cwd, session in product(*choices):
            if (shared, cwd, session) != present:
                yield shared, cwd, session

    def past(self, process: str, names: Names, offset: int) -> Trio | None:
        """The three scopes as they were ``offset`` boundaries ago; None if that is not known here.

        A session that keeps its view does not count the boundaries of whoever changed it, another process or one that
        does not know our lock; nobody knows for how long. Neither does one that has not read foreign bytes yet.
        """
        if (process, names[2]) in self._fenced or any(name in self._replaced for name in names):
            return None
        versions = [self._versions.get(name) for name in names]
        boundaries = sorted({position for found in versions if found for position, _ in found if position})
        if offset > len(boundaries):
            return None
        first = boundaries[-offset]
        values: list[Json] = []
        for name, found in zip(names, versions, strict=True):
            if not found:
                values.append(self.world.get(name, EMPTY).value)
                continue
            count = bisect_left(found, first, key=lambda version: version[0])
            if not count:
                return None
            values.append(found[count - 1][1])
        return values[0], values[1], values[2]
