"""The judge: goes through a history once and notes what does not fit, as *doubts*; other modules name the fault.

A doubt is about one call, or about the end. It says at which position something was expected, and which leaves differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import attrs

from ..history import Call
from .facts import Facts
from .focus import Leaf, leaf_of
from .model import EMPTY, Names, Taken, own_planes, scope_names, take, trio_of
from .paths import NAMES
from .replay import Replay, told_revisions
from .sights import Queue, Sight, offset_max, sights_of
from .values import Keys, Unfit, differences

# What does not fit: a state that was read (or the present that a refusal told of), the reads of a transaction at its
# row, a receipt's flag or revisions, a call that can not have been accepted, a scope's value or revision in the end.
About = Literal["read", "now", "transaction", "flag", "revision", "unfit", "final", "final-revision"]


@attrs.define(eq=False)
class Doubt:
    """See above.

    Attributes:
      position: after which event the right leaves were there.
      sight: what was seen, if the call saw anything.
      older, newer: a position before or after those possible that would explain all.
      text: of a receipt, what it should say; of the end, the folder of the scope.
      excess: of the end, how many revisions there are too many.
      is_explained: of a sight, whether a position explains it that was passed while one before it was in doubt.
    """

    about: About
    call: Call | None
    position: int
    leaves: list[Leaf] = attrs.field(factory=list)
    sight: Sight | None = None
    older: int | None = None
    newer: int | None = None
    text: str = ""
    excess: int = 0
    is_explained: bool = False


@attrs.frozen
class Verdict:
    """All doubts, and what went with its intent, by scope: position and place."""

    doubts: list[Doubt]
    gone: dict[str, list[tuple[int, Keys]]]


def judge(facts: Facts) -> Verdict:
    """Go through the whole history. What follows from one fault may bring about more than one doubt."""
    return _Judge(facts).judge()


@attrs.define(eq=False)
class _Judge:
    facts: Facts
    doubts: list[Doubt] = attrs.field(factory=list)
    gone: dict[str, list[tuple[int, Keys]]] = attrs.field(factory=dict)

    def judge(self) -> Verdict:
        sights = sights_of(self.facts)
        replay = Replay(self.facts, offset_max(sights))
        queue = Queue.of(sights)
        resting = self._resting()
        ends = _Ends(self.facts)
        queue.look(replay)
        self._check_resting(replay, resting.get(0, ()))
        ends.look(replay)
        for event in self.facts.events:
            if event.call is None:
                replay.apply(event)
            else:
                self._take(replay, event.call, resting.get(event.position, ()))
            self._check_resting(replay, resting.get(event.position, ()))
            queue.look(replay)
            ends.look(replay)
        self.doubts += ends.doubts(replay)
        _look_closer(self.facts, queue.unexplained, self.doubts)
        return Verdict(self.doubts, self.gone)

    def _resting(self) -> dict[int, list[Call]]:
        """Answers that rest on a position without being an event there: changed nothing, or told once more."""
        found: dict[int, list[Call]] = {}
        for call in self.facts.changing:
            if call.ending == "ok" and call.seq is not None and self.facts.fates[call.number] in ("current", "repeat"):
                found.setdefault(self.facts.position_at(call), []).append(call)
        return found

    # -- calls with a row -------------------------------------------------------------------------------------------

    def _take(self, replay: Replay, call: Call, resting: Iterable[Call]) -> None:
        names = scope_names(call.cwd, call.session)
        event = self.facts.events[replay.position]
        try:
            taken = replay.apply(event)
        except Unfit as unfit:
            self.doubts.append(Doubt("unfit", call, event.position - 1, text=str(unfit)))
            return
        assert taken is not None
        for index, keys in taken.gone:
            self.gone.setdefault(names[index], []).append((replay.position, keys))
        if taken.misread:
            leaves = [leaf_of(names, misread) for misread in taken.misread]
            self.doubts.append(Doubt("transaction", call, replay.position - 1, leaves))
        for told in (call, *resting):
            if told.ending == "ok" and (told is call or told.changed):
                self._check_flag(told, taken, names, replay.position)
                self._check_revisions(told, replay, names)

    def _check_flag(self, call: Call, taken: Taken, names: Names, position: int) -> None:
        is_changed = any(taken.changed())
        if call.changed is not None and call.changed != is_changed:
            scopes = zip(names, taken.after, taken.before, strict=True)
            leaves = [Leaf((name,), *item) for name, after, before in scopes for item in differences(after, before)]
            text = f"changed is {is_changed}".lower()
            self.doubts.append(Doubt("flag", call, position - 1, leaves, text=text))

    def _check_revisions(self, call: Call, replay: Replay, names: Names) -> None:
        told = told_revisions(call.revision) if call.revision is not None else None
        if told is None:
            return
        right = replay.revisions(names)
        if any(number is not None and number != other for number, other in zip(right, told, strict=True)):
            wanted = "".join(f"{name[0]}{number}" for name, number in zip(NAMES, right, strict=True))
            self.doubts.append(Doubt("revision", call, replay.position, text=wanted))
        if told != right:
            replay.believe(names, told)

    def _check_resting(self, replay: Replay, calls: Iterable[Call]) -> None:
        """Calls that were told that nothing changed: so it must be here."""
        for call in calls:
            if call.changed or self.facts.fates[call.number] == "repeat":
                continue
            names = scope_names(call.cwd, call.session)
            try:
                taken = take(call, trio_of(replay.world, names), replay.raw(names))
            except Unfit as unfit:
                self.doubts.append(Doubt("unfit", call, replay.position, text=str(unfit)))
                continue
            if taken.misread:
                leaves = [leaf_of(names, misread) for misread in taken.misread]
                self.doubts.append(Doubt("transaction", call, replay.position, leaves))
            self._check_flag(call, taken, names, replay.position + 1)
            self._check_revisions(call, replay, names)


# -- the end -----------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Ends:
    """The end as it was found. If a power cut of unknown depth may have taken the newest rows, the last position that
    explains the end counts as the end."""

    facts: Facts
    _found: list[Doubt] = attrs.field(factory=list, init=False)
    _is_explained: bool = attrs.field(default=False, init=False)

    def look(self, replay: Replay) -> None:
        history = self.facts.history
        if history.may_lose_tail and not history.cuts and not self._compare(replay):
            self._is_explained = True

    def doubts(self, replay: Replay) -> list[Doubt]:
        return [] if self._is_explained else self._compare(replay)

    def _compare(self, replay: Replay) -> list[Doubt]:
        history = self.facts.history
        if not history.final:
            return []
        doubts: list[Doubt] = []
        found = {scope.scope: scope for scope in history.final}
        for name in sorted({*found, *replay.world}):
            scope, right = found.get(name), replay.world.get(name, EMPTY)
            value = own_planes(scope.value) if scope is not None else {}
            leaves = [Leaf((name,), *found_) for found_ in differences(value, right.value)]
            revision = scope.revision if scope is not None else 0
            if leaves:
                excess = revision - right.revision if right.revision is not None else 0
                doubts.append(Doubt("final", None, replay.position, leaves, text=name, excess=excess))
            elif right.revision is not None and revision != right.revision:
                leaf = Leaf((name,), (), revision, right.revision)
                doubts.append(Doubt("final-revision", None, replay.position, [leaf], text=name))
        return doubts


# -- a closer look -----------------------------------------------------------------------------------------------------

LOOKED_AT_MAX: Final = 200


def _look_closer(facts: Facts, sights: list[Sight], doubts: list[Doubt]) -> None:
    """For sights that nothing explains: which position would, and which of those possible comes closest."""
    sights = sorted(sights, key=lambda sight: sight.call.begun_s)[:LOOKED_AT_MAX]
    if not sights:
        return
    found = [Doubt("now" if sight.is_now else "read", sight.call, 0, sight=sight) for sight in sights]
    replay = Replay(facts, offset_max(sights))
    _try(replay, found)
    for event in facts.events:
        try:
            replay.apply(event)
        except Unfit:
            continue
        _try(replay, found)
    doubts += [doubt for doubt in found if not doubt.is_explained]


def _try(replay: Replay, doubts: list[Doubt]) -> None:
    position = replay.position
    for doubt in doubts:
        sight = doubt.sight
        assert sight is not None
        is_possible = sight.oldest <= position <= max(sight.newest, sight.oldest)
        if not is_possible and position > sight.newest and doubt.newer is not None:
            continue
        misread = list(sight.misread(trio_of(replay.world, sight.names), replay.raw(sight.names), replay))
        doubt.is_explained |= is_possible and not misread
        if is_possible and (not doubt.leaves or len(misread) <= len(doubt.leaves)):
            doubt.position, doubt.leaves = position, [leaf_of(sight.names, item) for item in misread]
        elif not misread and position < sight.oldest:
            doubt.older = position
        elif not misread and position > sight.newest:
            doubt.newer = position
