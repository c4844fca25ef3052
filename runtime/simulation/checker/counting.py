"""Counting revisions: how many changes a scope has seen at least, and at most, if outsiders may have had a part."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from ..history import Call, FinalScope
from .facts import Facts
from .focus import Focus
from .model import Names
from .outsiders import Outsiders, State
from .replay import told_revisions
from .values import ANY
from .writers import Writers


@attrs.define(eq=False)
class Counting:
    """For one set of calls."""

    facts: Facts
    writers: Writers
    outsiders: Outsiders
    focus: Focus

    def sure(self, state: State, call: Call, names: Names, end_s: float) -> tuple[bool, bool, bool]:
        """In which scopes outsiders have no part in whether the call changed anything."""
        shared = {
            place[0]
            for place in self.writers.concerned(call)
            if state.at(place) is ANY or self.outsiders.touching(place, end_s)
        }
        shared |= {scope for scope in state.raw if self.outsiders.asking(scope, end_s)}
        return names[0] not in shared, names[1] not in shared, names[2] not in shared

    def told(
        self, state: State, call: Call, names: Names, changed: tuple[bool, ...], sure: tuple[bool, ...]
    ) -> Iterator[State]:
        """The revisions after a call, as counted, and as it was told."""
        told = told_revisions(call.revision) if call.revision is not None and call.ending == "ok" else None
        asked = self.writers.patches_of(call)
        revisions = dict(state.revisions)
        named: set[int] = set()
        for index, scope in enumerate(names):
            least, most = revisions.get(scope, (0, 0))
            is_asked = scope in asked and call.changed is not False
            least += is_asked and changed[index] and sure[index]
            most = None if most is None else most + (is_asked and (changed[index] or not sure[index]))
            revisions[scope] = least, most
            if told is None or (self.focus.scopes is not None and scope not in self.focus.scopes):
                continue
            needed = self._needed(scope, told[index], (least, most), end_of(call), self.facts.position_at(call))
            if needed is None:
                return
            named |= needed
            revisions[scope] = told[index], most
        yield attrs.evolve(state, revisions=revisions, named=state.named | named)

    def _needed(
        self, scope: str, told: int, counted: tuple[int, int | None], end_s: float, position: int
    ) -> set[int] | None:
        """Which outsiders a revision needs; None if it can not be."""
        least, most = counted
        if told < least:
            return None
        if most is None or told <= most:
            return set()
        asking = self.outsiders.asking(scope, end_s)
        if told > most + len(asking):
            return None
        # Those that were not there yet, or never, have the explaining to do; else all of them.
        late = [call for call in asking if not 0 < self.facts.position_of.get(call.number, 0) <= position]
        return {call.number for call in late or asking}

    def ended(self, state: State, final: dict[str, FinalScope]) -> State | None:
        """The revisions in the end; None if they can not be."""
        named = state.named
        for name, scope in final.items():
            if self.focus.scopes is None or name in self.focus.scopes:
                counted = state.revisions.get(name, (0, 0))
                needed = self._needed(name, scope.revision, counted, math.inf, len(self.facts.events))
                if needed is None:
                    return None
                named |= needed
        return attrs.evolve(state, named=named)


def end_of(call: Call) -> float:
    """Until when outsiders may have had to do with a call's answer."""
    return math.inf if call.ended_s is None or call.ending != "ok" else call.ended_s
