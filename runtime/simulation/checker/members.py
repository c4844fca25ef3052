"""The steps of an explanation: what each call of the set, each foreign write and the end make of a state.

Each step gives the states that may follow; none if the step can not be true.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs

from ....store import Json
from ..history import Call, FinalScope
from .counting import Counting, end_of
from .facts import Event, Facts
from .focus import Focus, Leaf, Place, leaf_of
from .model import Names, Taken, own_planes, scope_names, take
from .outsiders import Outsiders, State
from .paths import Trio
from .sights import Sight
from .values import ABSENT, ANY, Unfit, at, differences, is_above
from .writers import Writers, edited_places

_NOTHING: Json = {}


@attrs.define(eq=False)
class Members:
    """The calls of a set; ``outsiders`` are all others."""

    facts: Facts
    writers: Writers
    outsiders: Outsiders
    focus: Focus
    counting: Counting

    # -- looking ------------------------------------------------------------------------------------------------

    def seen(self, state: State, sight: Sight) -> Iterator[State]:
        """A sight looks now."""

        def misread(state: State) -> list[Leaf]:
            return self._misread(state.trio(sight.names), sight, state)

        yield from self.outsiders.settled(state, misread, sight.ended_s)
        # What stands still for its process is not followed here: it may be as it was, so it may be anything.
        still = [name for name in sight.names if state.replaced.get(name, 0) > sight.oldest]
        if self.facts.others_at(sight.call):
            still.append(sight.names[2])
        if still:
            values: list[Any] = [ANY if name in still else state.values.get(name, _NOTHING) for name in sight.names]
            if not self._misread((values[0], values[1], values[2]), sight, state):
                yield state

    def _misread(self, values: Trio, sight: Sight, state: State) -> list[Leaf]:
        misread = sight.misread(values, state.raw_of(sight.names))
        leaves = [leaf_of(sight.names, item) for item in misread]
        return self._judged(sight.call, sight.ended_s, leaves)

    def _judged(self, call: Call, end_s: float, leaves: list[Leaf]) -> list[Leaf]:
        """The leaves that count, without those of which a call's own patches make what outsiders have left there:
        arrays that it edits, and what may go with intents that it deletes."""
        leaves = self.focus.leaves(leaves)
        if not leaves or call.kind == "read":
            return leaves
        unclear: set[Place] = set()
        for scope, patches in self.writers.patches_of(call).items():
            for patch in patches:
                edited = [(scope, keys) for keys in edited_places(patch)]
                unclear |= {place for place in edited if self.outsiders.touching(place, end_s)}
                if self.outsiders.asking(scope, end_s, "intents"):
                    unclear |= {(scope, keys) for keys in self.writers.orphaned_by(scope, patch)}
        return [
            leaf
            for leaf in leaves
            if not any(scope in leaf.scopes and is_above(keys, leaf.keys) for scope, keys in unclear)
        ]

    # -- calls --------------------------------------------------------------------------------------------------

    def rested(self, state: State, call: Call) -> Iterator[State]:
        """A call was told that nothing changed."""
        names = scope_names(call.cwd, call.session)
        end_s = end_of(call)

        def misread(state: State) -> list[Leaf]:
            taken = self._taken(self._uncertain(state, call, end_s), call, names)
            if taken is None:
                return []
            leaves = [leaf_of(names, item) for item in taken.misread]
            if self.focus.flags is None or call.number in self.focus.flags:
                for name, after, before in zip(names, taken.after, taken.before, strict=True):
                    leaves += [Leaf((name,), *item) for item in differences(after, before)]
            return self._judged(call, end_s, leaves)

        for after in self.outsiders.settled(state, misread, end_s):
            yield from self.counting.told(after, call, names, changed=(False, False, False), sure=(True, True, True))

    def stored(self, state: State, event: Event) -> Iterator[State]:
        """A call has its row."""
        call = event.call
        assert call is not None
        names = scope_names(call.cwd, call.session)
        end_s = end_of(call)

        def misread(state: State) -> list[Leaf]:
            taken = self._taken(self._uncertain(state, call, end_s), call, names)
            leaves = [] if taken is None else [leaf_of(names, item) for item in taken.misread]
            return self._judged(call, end_s, leaves)

        for before in self.outsiders.settled(state, misread, end_s):
            for ready in self._changeable(self._uncertain(before, call, end_s), call, names, end_s):
                taken = self._taken(ready, call, names)
                if taken is None:
                    if self.focus.flags is not None and call.number not in self.focus.flags:
                        yield ready
                    continue
                after = ready
                for name, value in zip(names, taken.after, strict=True):
                    after = after.with_value(name, value)
                after = self._orphaned(ready, after, call, end_s)
                sure = self.counting.sure(ready, call, names, end_s)
                repeats = self.facts.repeats_at(event.position)
                told = next((other for other in repeats if other.number in self.outsiders.members), call)
                yield from self.counting.told(after, told, names, taken.changed(), sure)

    def _taken(self, state: State, call: Call, names: Names) -> Taken | None:
        try:
            return take(call, state.trio(names), state.raw_of(names))
        except Unfit:
            return None

    def _uncertain(self, state: State, call: Call, end_s: float) -> State:
        """Arrays that a call edits and outsiders may have written: nobody knows what comes of it."""
        for scope, patches in self.writers.patches_of(call).items():
            for patch in patches:
                for keys in edited_places(patch):
                    touching = self.outsiders.touching((scope, keys), end_s)
                    if touching and at(state.values.get(scope, _NOTHING), keys) is not ANY:
                        named = {write.call.number for write in touching}
                        state = attrs.evolve(state.with_leaf((scope, keys), ANY), named=state.named | named)
        return state

    def _orphaned(self, before: State, after: State, call: Call, end_s: float) -> State:
        """What may have gone with an intent, or may not have, if outsiders have to do with intents too."""
        for scope, patches in self.writers.patches_of(call).items():
            for patch in patches:
                targets = self.writers.orphaned_by(scope, patch)
                others = self.outsiders.asking(scope, end_s, "intents") if targets else []
                for keys in targets if others else ():
                    place = (scope, keys)
                    if before.at(place) is not ABSENT or after.at(place) is not ABSENT:
                        named = {other.number for other in others}
                        after = attrs.evolve(after.with_leaf(place, ANY), named=after.named | named)
        return after

    def _changeable(self, state: State, call: Call, names: Names, end_s: float) -> Iterator[State]:
        """States in which a call that was told so changes something: this one, or else with what outsiders wrote."""
        is_judged = self.focus.flags is None or call.number in self.focus.flags
        taken = self._taken(state, call, names)
        if not is_judged or call.ending != "ok" or not call.changed or taken is None or any(taken.changed()):
            yield state
            return
        places = self.writers.concerned(call)
        if any(state.at(place) is ANY for place in places):
            yield state
            return
        for place in sorted(places):
            for write in self.outsiders.touching(place, end_s):
                if write.value is ANY or write.is_orphaning or isinstance(write.asked, dict):
                    yield attrs.evolve(state.with_leaf(place, ANY), named=state.named | {write.call.number})
                elif (write.call.number, *place) not in state.used:
                    before = state.with_leaf(place, write.value)
                    taken = self._taken(before, call, names)
                    if taken is None or any(taken.changed()):
                        yield attrs.evolve(before, used=state.used | {(write.call.number, *place)})

    # -- what is no call ----------------------------------------------------------------------------------------

    def superseded(self, state: State, event: Event) -> State:
        """Foreign bytes win."""
        item = event.superseded
        assert item is not None
        revision = (0, None) if item.revision is None else (item.revision, item.revision)
        state = attrs.evolve(
            state,
            revisions={**state.revisions, item.scope: revision},
            replaced={**state.replaced, item.scope: event.position},
            raw=state.raw | {item.scope},
        )
        return state.with_value(item.scope, own_planes(item.value))

    def cut(self, state: State, event: Event) -> State:
        """The newest rows are gone. Whether what outsiders had written is gone too, nobody knows."""
        revisions = {scope: (0, most) for scope, (_, most) in state.revisions.items()}
        values = next(
            (values for position, values in reversed(state.marks) if position <= (event.back_to or 0)),
            {scope.scope: own_planes(scope.value) for scope in self.facts.history.initial},
        )
        state = attrs.evolve(state, values=values, revisions=revisions)
        for _, scope, keys in state.used:
            # Where a leaf stands above, that is what may be another one now.
            above = next((n for n in range(1, len(keys)) if not isinstance(state.at((scope, keys[:n])), dict)), 0)
            place = (scope, keys[:above] if above and state.at((scope, keys[:above])) is not ABSENT else keys)
            if state.at(place) is not ANY:
                state = state.with_leaf(place, ANY)
        return state

    def ended(self, state: State) -> Iterator[State]:
        """The end as it was found."""
        history = self.facts.history
        if not self.focus.with_end or (history.may_lose_tail and not history.cuts):
            yield state
            return
        final = {scope.scope: scope for scope in history.final}
        if not final:
            yield state
            return
        places = self.focus.places
        names = sorted({*final, *state.values}) if places is None else sorted({scope for scope, _ in places})

        def misread(state: State) -> list[Leaf]:
            return self.focus.leaves([leaf for name in names for leaf in _left(state, name, final.get(name))])

        for after in self.outsiders.settled(state, misread, math.inf):
            ended = self.counting.ended(after, final)
            if ended is not None:
                yield ended


def _left(state: State, name: str, scope: FinalScope | None) -> list[Leaf]:
    found = own_planes(scope.value) if scope is not None else _NOTHING
    return [Leaf((name,), *item) for item in differences(found, state.values.get(name, _NOTHING))]
