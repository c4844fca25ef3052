"""From a doubt to a rule: which promise was broken, and with which calls to begin."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ..history import Call, Read
from .clues import Clues, Suspicion, shown
from .facts import Facts
from .focus import LOOKS, Focus, Leaf, Place
from .judge import Doubt
from .model import scope_names
from .paths import parse
from .replay import told_revisions
from .values import ABSENT, ANY, at, same
from .writers import Writers, asked_leaves


@attrs.define(eq=False)
class Blame:
    """Judges the doubts of one history, those about the end first: what is lost there is not told again by reads."""

    facts: Facts
    clues: Clues
    _lost: set[int] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, facts: Facts, writers: Writers) -> Blame:
        """For the doubts of a history."""
        return cls(facts, Clues(facts, writers))

    def suspicions(self, doubts: list[Doubt]) -> Iterator[Suspicion]:
        """One for each fault, as far as faults can be told apart."""
        ends = [doubt for doubt in doubts if doubt.call is None]
        wrong = {(scope, leaf.keys) for doubt in ends for leaf in doubt.leaves for scope in leaf.scopes}
        seen: set[tuple[str, tuple[int, ...], int | None]] = set()
        for doubt in [*ends, *(doubt for doubt in doubts if doubt.call is not None)]:
            for found in self._of(doubt, wrong):
                key = found.rule, found.core, found.about
                if key not in seen:
                    seen.add(key)
                    yield found
                    if doubt.call is None and found.about is not None:
                        self._lost.add(found.about)

    def _of(self, doubt: Doubt, wrong: set[Place]) -> Iterator[Suspicion]:
        call = doubt.call
        if call is None:
            yield from self._end(doubt, wrong)
        elif doubt.about == "revision":
            yield from self._revision(doubt, call)
        elif doubt.about in ("flag", "unfit"):
            yield self._flag(doubt, call)
        elif doubt.about == "transaction":
            yield self._transaction(doubt, call)
        elif doubt.about == "now":
            text = f"call {call.number} was refused for a value that was not there at any time it can have looked"
            yield Suspicion("false-conflict", text, self._with_last(doubt, call), _focus(doubt.leaves))
        else:
            yield from self._read(doubt, call)

    def _with_last(self, doubt: Doubt, *calls: Call) -> tuple[int, ...]:
        numbers = [call.number for call in calls]
        for leaf in doubt.leaves:
            last = self.clues.last(leaf, doubt.position)
            if last is not None and last.number not in numbers:
                numbers.append(last.number)
        return tuple(numbers)

    # -- the end ------------------------------------------------------------------------------------------------

    def _end(self, doubt: Doubt, wrong: set[Place]) -> Iterator[Suspicion]:
        name, position = doubt.text, doubt.position
        if doubt.about == "final-revision":
            leaf = doubt.leaves[0]
            text = f"{name or 'global'} has revision {leaf.found} in the end, {leaf.right} follows from the calls"
            core = tuple(call.number for call in self._told_before(name, position + 1)[:1])
            yield Suspicion("wrong-revision", text, core, Focus(scopes=frozenset({name})))
            return
        told: set[tuple[str, int | None]] = set()
        for leaf in doubt.leaves:
            found = self._left(leaf, doubt, wrong)
            if (found.rule, found.about) not in told:
                told.add((found.rule, found.about))
                yield found

    def _left(self, leaf: Leaf, doubt: Doubt, wrong: set[Place]) -> Suspicion:
        """A leaf that is not in the end what it should be."""
        place = (doubt.text, leaf.keys)
        focus, where = Focus(frozenset({place})), f"{shown(place)} in the end"
        strange = self.clues.strange(leaf, where, focus, ())
        if strange is not None:
            return strange
        writes = self.clues.writers.of(place)
        lost = self.clues.last(leaf, doubt.position)
        again = [
            write.call
            for write in self.clues.givers(leaf)
            if self.clues.is_stored(write.call) and write.value is not ANY
        ]
        is_edit = any(write.value is ANY and write.call is lost for write in writes)
        if lost is None or (leaf.found is not ABSENT and not again and is_edit):
            core = tuple(write.call.number for write in writes if self.clues.is_stored(write.call))
            return Suspicion("wrong-final", f"{where} is not what follows from the calls", core, focus)
        if leaf.found is not ABSENT and again and doubt.excess > 0:
            text = f"{where} is what call {again[-1].number} asked for before call {lost.number}, one revision too many"
            return Suspicion("double-write", text, (again[-1].number, lost.number), focus, lost.number)
        final = {scope.scope for scope in self.facts.history.final}
        asked = [other for other, _ in asked_leaves(self.clues.writers.patches_of(lost))]
        is_right = {other: other[0] in final and other not in wrong for other in asked}
        return self._missing(lost, place, where, self.clues.shown_parts(lost, doubt.position, is_right), ())

    def _missing(self, lost: Call, place: Place, where: str, parts: list[Place], seen_by: tuple[int, ...]) -> Suspicion:
        """A call whose doing is not there, though others of its places may show it."""
        text = f"{where} does not show call {lost.number}, which wrote there last"
        core, focus = (*seen_by, lost.number), Focus(frozenset({place}))
        if parts:
            focus = Focus(frozenset({place, parts[0]}))
            return Suspicion("torn-write", f"{text}, while {shown(parts[0])} does", core, focus, lost.number)
        if lost.ending != "ok":
            text = f"the store says that call {lost.number} was stored, but {text}"
            return Suspicion("outcome-lies", text, core, focus, lost.number)
        return Suspicion("lost-write", text, core, focus, lost.number)

    # -- receipts -----------------------------------------------------------------------------------------------

    def _told_before(self, scope: str, position: int) -> list[Call]:
        """The last call before a position that was told the revision of a scope."""
        for event in reversed(self.facts.events[: position - 1]):
            call = event.call
            if call is None or call.ending != "ok" or call.revision is None:
                continue
            if scope in scope_names(call.cwd, call.session):
                return [call]
        return []

    def _revision(self, doubt: Doubt, call: Call) -> Iterator[Suspicion]:
        told, right = told_revisions(call.revision or ""), told_revisions(doubt.text)
        names = scope_names(call.cwd, call.session)
        if told is None or right is None:
            wrong = list(names)
        else:
            wrong = [name for name, one, other in zip(names, told, right, strict=True) if one != other]
        text = f"call {call.number} was told revision {call.revision}, {doubt.text} follows from the calls"
        before = self._told_before(wrong[0], self.facts.position_at(call))
        core = (call.number, *(other.number for other in before if other is not call))
        yield Suspicion("wrong-revision", text, core, Focus(scopes=frozenset(wrong[:1])))

    def _flag(self, doubt: Doubt, call: Call) -> Suspicion:
        places = {place for leaf in doubt.leaves for place in leaf.places}
        if not places:
            places = {place for place, _ in asked_leaves(self.clues.writers.patches_of(call))}
        lasts = [self.clues.writers.last(place, doubt.position) for place in sorted(places)]
        core = dict.fromkeys([call.number, *(last.number for last in lasts if last is not None)])
        if doubt.about == "unfit":
            text = f"call {call.number} was accepted, though it edits {doubt.text}"
        else:
            text = f"call {call.number} was told {call.changed}, but {doubt.text}"
        return Suspicion("wrong-receipt", text, tuple(core), Focus(frozenset(places), frozenset({call.number})))

    # -- reads --------------------------------------------------------------------------------------------------

    def _transaction(self, doubt: Doubt, call: Call) -> Suspicion:
        leaf = doubt.leaves[0]
        focus = _focus([leaf])
        where = f"{_read_as(leaf)}, as call {call.number} read it,"
        strange = self.clues.strange(leaf, where, focus, (call.number,))
        if strange is not None:
            return strange
        last = self.clues.last(leaf, doubt.position)
        by = f"call {last.number} had changed it by then" if last is not None else "that was not so by then"
        core = (call.number,) if last is None else (call.number, last.number)
        text = f"call {call.number} was committed upon what it read at {_read_as(leaf)}, but {by}"
        return Suspicion("not-serializable", text, core, focus)

    def _read(self, doubt: Doubt, call: Call) -> Iterator[Suspicion]:
        """What a read found, and no position it can have seen explains."""
        sight = doubt.sight
        assert sight is not None
        if not doubt.leaves:
            return
        leaf = doubt.leaves[0]
        path = parse(leaf.read.path) if leaf.read is not None else None
        if path is not None and path.offset:
            if self.clues.are_open(sight.names, sight.ended_s):
                return  # nobody knows how many boundaries there were
            text = f"call {call.number} read at {leaf.read.path if leaf.read else ''} what was not there at that moment"
            yield Suspicion("wrong-past", text, (call.number,), _focus([leaf]))
            return
        for other in doubt.leaves:
            where = f"{_read_as(other)}, as call {call.number} read it,"
            strange = self.clues.strange(other, where, _focus([other]), (call.number,))
            if strange is not None:
                yield strange
                return
        last = self.clues.last(leaf, doubt.position)
        if last is not None and last.number in self._lost:
            return
        core = tuple(dict.fromkeys([call.number, *sight.sources, *([last.number] if last is not None else [])]))
        where = f"call {call.number} read at {_read_as(leaf)}"
        if doubt.newer is not None and doubt.older is None:
            writer = self.facts.events[doubt.newer - 1].call
            text = f"{where} what call {writer.number if writer else '?'} began to write only afterwards"
            yield Suspicion("future-read", text, (call.number,), LOOKS)
            return
        torn = self._torn(doubt, call, leaf) if doubt.older is None else None
        if torn is not None:
            yield torn
            return
        why = "something older than its process had seen" if doubt.older is not None else "what was there at no moment"
        yield Suspicion("stale-read", f"{where} {why}", core, LOOKS)

    def _torn(self, doubt: Doubt, call: Call, leaf: Leaf) -> Suspicion | None:
        """The same read shows one part of a call and not another."""
        names = scope_names(call.cwd, call.session)
        wrong = {place for other in doubt.leaves for place in other.places}
        is_right: dict[Place, bool] = {}
        last = self.clues.last(leaf, doubt.position)
        if last is None:
            return None
        for place, value in asked_leaves(self.clues.writers.patches_of(last)):
            for step in call.steps:
                if (
                    isinstance(step, Read)
                    and place[0] in names
                    and place not in wrong
                    and _shows(step, names, place, value)
                ):
                    is_right[place] = True
        parts = self.clues.shown_parts(last, doubt.position, is_right)
        if not parts:
            return None
        asked = {place for place, _ in asked_leaves(self.clues.writers.patches_of(last))}
        place = min(leaf.places & asked or leaf.places)
        where = f"{shown(place)}, as call {call.number} read it,"
        found = self._missing(last, place, where, parts, (call.number,))
        return attrs.evolve(found, about=None)


def _shows(read: Read, names: tuple[str, str, str], place: Place, value: object) -> bool:
    path = parse(read.path)
    if path is None or path.rest or path.offset or read.projection != "value":
        return False
    if names.index(place[0]) not in path.scopes or place[1][: len(path.place)] != path.place:
        return False
    found = at(read.found, place[1][len(path.place) :])
    return found is not ABSENT and same(found, value)


def _focus(leaves: list[Leaf]) -> Focus:
    return Focus(frozenset(place for leaf in leaves for place in leaf.places))


def _read_as(leaf: Leaf) -> str:
    return shown((leaf.scopes[0], leaf.keys)) if leaf.read is None else f"{leaf.read.path} ({'.'.join(leaf.keys)})"
