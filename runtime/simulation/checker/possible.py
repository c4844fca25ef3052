"""Can a set of calls all be true? Decided for few calls at a time, with nothing known of all the others.

Of a call outside of the set only this counts: what it asked for, and when it began. It may have happened at any time
after that, not at all, or in part: each place it asked for is free of the others. A call of the set is held to its
answer: it has its row, or none; it read what it read; it was whole. What is no call counts always: foreign writes,
power cuts, and the end as it was found.

The rows of the set have their order. Its sights are tried at all moments between them that their times and processes
allow. Where a leaf does not fit, an outsider must have written it; if none can have, the moment is impossible, and if
all moments are, so is the set. In doubt the answer is "possible".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from ..history import Call
from .counting import Counting
from .facts import Event, Facts
from .focus import EVERYTHING, Focus
from .members import Members
from .model import own_planes
from .outsiders import Outsiders, State, TooManyWays
from .sights import Sight, sights_of
from .writers import Writers

# Moments tried, at most; with more the answer is "possible".
MOMENTS_MAX: Final = 3_000


# An event of the set, or an answer that rests on all before it.
_Item = Event | Call


@attrs.define(eq=False)
class Possibilities:
    """Decides for one history."""

    facts: Facts
    writers: Writers
    _sights: dict[int, list[Sight]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for sight in sights_of(self.facts):
            self._sights.setdefault(sight.call.number, []).append(sight)

    def writers_at(self, focus: Focus) -> list[int]:
        """The calls that have to do with what a question is about."""
        if focus.places is None:
            return [call.number for call in self.facts.changing]
        calls = [write.call for place in focus.places for write in self.writers.of(place)]
        calls += [call for scope in focus.scopes or () for call in self.writers.callers(scope)]
        return sorted({call.number for call in calls})

    def explained(self, numbers: Iterable[int], focus: Focus = EVERYTHING) -> frozenset[int] | None:
        """Which outsiders an explanation needs; None if there is no explanation: the set is impossible."""
        # Of what nobody knows anything can not become more certain by being in the set.
        members = frozenset(number for number in numbers if self.facts.fates[number] != "open")
        calls = [self.facts.calls[number] for number in sorted(members)]
        sights = [sight for call in calls for sight in self._sights.get(call.number, ())]
        outsiders = Outsiders(self.facts, self.writers, members)
        counting = Counting(self.facts, self.writers, outsiders, focus)
        steps = Members(self.facts, self.writers, outsiders, focus, counting)
        search = _Search(self.facts, steps, _order(self.facts, members), calls, sights)
        try:
            found = search.found()
        except TooManyWays:
            return frozenset()
        return None if found is None else found.named.union(number for number, _, _ in found.used)


def _order(facts: Facts, members: frozenset[int]) -> list[_Item]:
    """The events of a set, and the answers that rest on them."""
    items: list[tuple[int, int, _Item]] = []
    rows: set[int] = set()
    for number in sorted(members):
        call, fate = facts.calls[number], facts.fates[number]
        if fate == "current" and call.seq is not None:
            items.append((facts.position_at(call), 1, call))
        elif fate == "stored" or (fate == "repeat" and call.ending == "ok" and call.changed):
            rows.add(facts.position_at(call))
    for event in facts.events:
        if event.call is None or event.position in rows:
            items.append((event.position, 0, event))
    return [item for _, _, item in sorted(items, key=lambda found: found[:2])]


@attrs.define(eq=False)
class _Search:
    facts: Facts
    members: Members
    order: list[_Item]
    calls: list[Call]
    sights: list[Sight]
    _moments: int = attrs.field(default=0, init=False)
    _oldest: dict[int, int] = attrs.field(factory=dict, init=False)

    def found(self) -> State | None:
        """The state in the end of an explanation."""
        history = self.facts.history
        start = State(
            {scope.scope: own_planes(scope.value) for scope in history.initial},
            revisions={scope.scope: (scope.revision, scope.revision) for scope in history.initial},
        )
        return self._go(0, tuple(self.sights), start)

    def _go(self, index: int, sights: tuple[Sight, ...], state: State) -> State | None:
        self._moments += 1
        if self._moments > MOMENTS_MAX:
            raise TooManyWays
        for sight in sights:
            if self._may_look(sight, index, sights):
                rest = tuple(other for other in sights if other is not sight)
                for after in self.members.seen(state, sight):
                    found = self._go(index, rest, after)
                    if found is not None:
                        return found
        if index == len(self.order):
            return None if sights else next(self.members.ended(state), None)
        item = self.order[index]
        if any(isinstance(item, Event) and item.begun_s > sight.ended_s for sight in sights):
            return None  # whoever has not looked by now never can
        for after in self._passed(item, state):
            if self.facts.cut_positions and isinstance(item, Event):
                after = attrs.evolve(after, marks=(*after.marks, (item.position, after.values)))
            found = self._go(index + 1, sights, after)
            if found is not None:
                return found
        return None

    def _passed(self, item: _Item, state: State) -> Iterator[State]:
        if isinstance(item, Call):
            yield from self.members.rested(state, item)
        elif item.call is not None:
            yield from self.members.stored(state, item)
        elif item.superseded is not None:
            yield self.members.superseded(state, item)
        else:
            yield self.members.cut(state, item)

    def _may_look(self, sight: Sight, index: int, sights: tuple[Sight, ...]) -> bool:
        for other in sights:
            if other is sight:
                continue
            if other.call is sight.call and sight.is_now:
                return False
            if other.call.process == sight.call.process and other.ended_s < sight.call.begun_s:
                return False
        if id(sight) not in self._oldest:
            self._oldest[id(sight)] = self._must_see(sight)
        must_see = self._oldest[id(sight)]
        return not any(
            isinstance(item, Event)
            and (item.position <= must_see or (item.back_to is not None and item.begun_s < sight.call.begun_s))
            for item in self.order[index:]
        )

    def _must_see(self, sight: Sight) -> int:
        """The newest position that the answers of the set say it must see."""
        looked_s = [sight.call.begun_s] if sight.call.fresh else []
        looked_s += [life.begun_s for life in self.facts.history.lives if life.process == sight.call.process]
        for call in self.calls:
            end_s = math.inf if call.ended_s is None else call.ended_s
            is_own = call.process == sight.call.process and end_s < sight.call.begun_s
            if is_own and self.facts.is_looking(call):
                looked_s.append(call.begun_s)
        newest = 0
        for call in self.calls:
            if call.ending != "ok" or call.seq is None or call.ended_s is None:
                continue
            end_s = call.ended_s
            is_own = call.process == sight.call.process and end_s < sight.call.begun_s
            if is_own or any(end_s < time_s for time_s in looked_s):
                newest = max(newest, self.facts.position_at(call))
        return newest
