"""What calls outside of a set may have done: each place they ask for is free of the others and written once at most.

A ``State`` is what the calls of the set left, with leaves that outsiders must have written in between. ``used`` says
which outsiders those are: with all of them in the set, the same explanation is not to be had again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from ....store import Json
from ..history import Call
from .facts import Facts
from .focus import Leaf, Place
from .model import Names
from .paths import Trio, parse
from .values import ABSENT, ANY, Keys, at, with_leaf
from .writers import Write, Writers, gives, is_kind, shows

_NOTHING: Json = {}
# A key that stands for keys which are not known.
_UNKNOWN = "?"
# How many leaves of one answer are explained by outsiders, and how many ways are tried for one set, at most; beyond it
# the answer counts as possible.
LEAVES_MAX = 200
STEPS_MAX = 2_000


class TooManyWays(Exception):
    """The set is too large to be decided."""


@attrs.frozen
class State:
    """Scopes by folder, and what must have happened outside of the set.

    Attributes:
      used: number of the call, scope and keys: what was written, and can not be written again.
      named: further calls that have to do with it.
      revisions: by scope, the least that the revision can be now, and the most that it can be without outsiders (None:
        not known).
      replaced: scopes that may still be shown as they were before foreign bytes won, and since when.
      raw: scopes that hold foreign bytes, to be pruned by whoever patches them.
      marks: positions, and the values that the set left there; kept if there are power cuts.
    """

    values: Mapping[str, Json]
    used: frozenset[tuple[int, str, Keys]] = frozenset()
    named: frozenset[int] = frozenset()
    revisions: Mapping[str, tuple[int, int | None]] = attrs.field(factory=dict)
    replaced: Mapping[str, int] = attrs.field(factory=dict)
    raw: frozenset[str] = frozenset()
    marks: tuple[tuple[int, Mapping[str, Json]], ...] = ()

    def trio(self, names: Names) -> Trio:
        """The values of three scopes."""
        return (
            self.values.get(names[0], _NOTHING),
            self.values.get(names[1], _NOTHING),
            self.values.get(names[2], _NOTHING),
        )

    def raw_of(self, names: Names) -> tuple[int, ...]:
        """Which of three scopes hold foreign bytes."""
        return tuple(index for index, name in enumerate(names) if name in self.raw)

    def at(self, place: Place) -> object:
        """What stands at a place."""
        return at(self.values.get(place[0], _NOTHING), place[1])

    def with_value(self, scope: str, value: Json) -> State:
        """This state with another value of a scope."""
        return attrs.evolve(self, values={**self.values, scope: value})

    def with_leaf(self, place: Place, leaf: object) -> State:
        """This state with another leaf."""
        scope, keys = place
        return self.with_value(scope, with_leaf(self.values.get(scope, _NOTHING), keys, leaf))


@attrs.define(eq=False)
class Outsiders:
    """All calls but ``members``."""

    facts: Facts
    writers: Writers
    members: frozenset[int]
    _steps: int = attrs.field(default=0, init=False)

    def touching(self, place: Place, end_s: float) -> list[Write]:
        """What outsiders that began before a time may have written at a place."""
        return [
            write
            for write in self.writers.of(place)
            if self.facts.begun_of(write.call) <= end_s and write.call.number not in self.members
        ]

    def asking(self, scope: str, end_s: float, plane: str = "") -> list[Call]:
        """The outsiders that began before a time and ask for anything in a scope, or in one plane of it."""
        return [
            call
            for call in self.writers.callers(scope, plane)
            if self.facts.begun_of(call) <= end_s and call.number not in self.members
        ]

    def settled(self, state: State, misread: Callable[[State], list[Leaf]], end_s: float) -> Iterator[State]:
        """States like this one in which nothing is misread, by what outsiders may have written before a time."""
        return self._settled(state, misread, end_s, 0)

    def _settled(
        self, state: State, misread: Callable[[State], list[Leaf]], end_s: float, depth: int
    ) -> Iterator[State]:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise TooManyWays
        found = misread(state)
        if not found or depth > LEAVES_MAX:
            yield state
            return
        # What must come is first: it may hide, or replace, what would have to go.
        for leaf in sorted(found, key=lambda leaf: leaf.found is ABSENT):
            settled = [
                after
                for after in self._with_leaf(state, leaf, end_s)
                if all((other.scopes, other.keys) != (leaf.scopes, leaf.keys) for other in misread(after))
            ]
            for after in settled:
                yield from self._settled(after, misread, end_s, depth + 1)
            if settled:
                return  # the order does not matter, but one leaf may only give way to another

    def _with_leaf(self, state: State, leaf: Leaf, end_s: float) -> Iterator[State]:
        """States in which a leaf is as it was found: in one of its scopes, with nothing that hides it."""
        if not leaf.keys:
            return
        if leaf.found is ABSENT:
            cleared = self._cleared(state, leaf.scopes, leaf, end_s)
            if cleared is not None:
                yield cleared
            yield from self._hidden(state, leaf, end_s)
            return
        for index, scope in enumerate(leaf.scopes):
            place = (scope, leaf.keys)
            # What hides it may be in the way of nobody: the call's own patches may have seen to that.
            cleared_too = self._cleared(state, leaf.scopes[:index], leaf, end_s)
            for cleared in (state,) if cleared_too is None or cleared_too is state else (state, cleared_too):
                if shows(cleared.at(place), leaf):
                    yield cleared
                    continue
                write = self._pick(place, leaf, end_s, cleared)
                if write is not None:
                    yield self._written(cleared, place, write, leaf)
                elif cleared is not state:
                    yield cleared  # the call's own patches may do the rest

    def _hidden(self, state: State, leaf: Leaf, end_s: float) -> Iterator[State]:
        """States in which a plain value in a scope between hides what is broader, below an object that hides it."""
        for scope in leaf.scopes[1:-1]:
            for length in range(2, len(leaf.keys)):
                place = (scope, leaf.keys[:length])
                for write in self.touching(place, end_s):
                    is_plain = write.value is not ABSENT and write.value is not ANY and not write.is_orphaning
                    if is_plain and (write.call.number, *place) not in state.used:
                        yield self._written(state, place, write, Leaf((scope,), place[1], write.value, ABSENT))

    def _cleared(self, state: State, scopes: tuple[str, ...], leaf: Leaf, end_s: float) -> State | None:
        """The state without anything at the leaf's place in some scopes, if outsiders can have seen to that."""
        for scope in scopes:
            place = (scope, leaf.keys)
            if leaf.found is not ABSENT:
                place = (scope, self._hiding(state, place))
            there = state.at(place)
            if there is ABSENT or there is ANY:
                continue
            if leaf.found is ABSENT and isinstance(there, dict) and there and not is_kind(leaf):
                continue  # no leaf: what is below has places of its own
            if there == {}:
                # Foreign bytes may hold empty objects; whoever patches the scope prunes them all.
                asking = self.asking(scope, end_s)
                if not asking:
                    return None
                state = attrs.evolve(state.with_leaf(place, ABSENT), named=state.named | {asking[-1].number})
                continue
            gone = Leaf((scope,), place[1], ABSENT, there)
            write = self._pick(place, gone, end_s, state)
            if write is not None:
                state = self._written(state, place, write, gone)
            elif leaf.found is not ABSENT:
                return None
        return state

    @staticmethod
    def _hiding(state: State, place: Place) -> Keys:
        """Where in its scope a place is hidden: by what stands there, or by a plain value above."""
        for length in range(1, len(place[1])):
            if not isinstance(state.at((place[0], place[1][:length])), dict):
                return place[1][:length]
        return place[1]

    def _pick(self, place: Place, leaf: Leaf, end_s: float, state: State) -> Write | None:
        """An outsider's write that gives the leaf and has not been used; first such of which nobody knows anything."""
        found = [
            write
            for write in self.touching(place, end_s)
            if (write.call.number, *place) not in state.used and gives(write, leaf)
        ]
        # The youngest: an older one may serve an earlier look as well, a younger one may not.
        return max(
            found,
            key=lambda write: (
                self.facts.fates[write.call.number] == "open",
                write.value is not ANY,
                write.call.begun_s,
            ),
            default=None,
        )

    @staticmethod
    def _written(state: State, place: Place, write: Write, leaf: Leaf) -> State:
        read = leaf.read
        path = parse(read.path) if read is not None else None
        if leaf.found is not ABSENT and read is not None and (read.projection == "keys" or (path and path.rest)):
            # Several writes may look like this, so nothing else is known of what is there, nor who wrote it.
            there = state.at(place)
            new = {**there, _UNKNOWN: ANY} if leaf.found == "object" and isinstance(there, dict) else ANY
            return attrs.evolve(state.with_leaf(place, new), named=state.named | {write.call.number})
        new = ABSENT if leaf.found is ABSENT else leaf.found if write.value is ANY else write.value
        return attrs.evolve(state.with_leaf(place, new), used=state.used | {(write.call.number, *place)})
