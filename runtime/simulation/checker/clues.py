"""Clues: for a leaf that is not as it should be, who asked for what was found, and who for what should be there."""

from __future__ import annotations

import attrs

from ..history import Call
from .facts import Facts
from .focus import Focus, Leaf, Place
from .values import ABSENT, ANY
from .writers import Write, Writers, asked_leaves, gives


@attrs.frozen
class Suspicion:
    """A rule and a sentence, the calls to begin with when the smallest set is looked for, and what to look at.

    ``about`` is the call whose doing is not there, if there is one.
    """

    rule: str
    message: str
    core: tuple[int, ...]
    focus: Focus
    about: int | None = None


def shown(place: Place) -> str:
    """A place for people: ``global.working.a`` or ``--srv--/main: working.a``."""
    scope, keys = place
    return f"{scope or 'global'}: {'.'.join(keys) or 'everything'}"


@attrs.define(eq=False)
class Clues:
    """What the history says of leaves."""

    facts: Facts
    writers: Writers

    def is_stored(self, call: Call) -> bool:
        """Whether a call has a row, or rests on one."""
        return self.facts.fates[call.number] in ("stored", "current", "repeat")

    def are_open(self, scopes: tuple[str, ...], end_s: float) -> bool:
        """Whether calls of which nobody knows anything may have changed one of some scopes."""
        calls = [call for scope in scopes for call in self.writers.callers(scope)]
        return any(self.facts.fates[call.number] == "open" and call.begun_s <= end_s for call in calls)

    def givers(self, leaf: Leaf) -> list[Write]:
        """What calls would have left the leaf as it was found."""
        return [write for scope in leaf.scopes for write in self.writers.of((scope, leaf.keys)) if gives(write, leaf)]

    def last(self, leaf: Leaf, position: int) -> Call | None:
        """Whose doing the leaf is as it should be: in any of its scopes, the newest."""
        found = [self.writers.last((scope, leaf.keys), position) for scope in leaf.scopes]
        calls = [call for call in found if call is not None]
        return max(calls, key=self.facts.position_at, default=None)

    def strange(self, leaf: Leaf, where: str, focus: Focus, seen_by: tuple[int, ...]) -> Suspicion | None:
        """The fault, if no call that was accepted can have left what was found there."""
        if leaf.found is ABSENT or any(
            self.is_stored(write.call) or self.facts.fates[write.call.number] == "open" for write in self.givers(leaf)
        ):
            return None
        givers = [write.call for write in self.givers(leaf)]
        if givers:
            call = givers[-1]
            is_unseen = self.facts.fates[call.number] == "unseen"
            why = "the store says it never saw" if is_unseen else "was refused"
            text = f"{where} is what call {call.number} asked for, which {why}"
            if is_unseen:
                return Suspicion("outcome-lies", text, (*seen_by, call.number), focus)
            return Suspicion("phantom-write", text, (*seen_by, call.number), focus)
        if leaf.found == {} or leaf.found is ANY:
            return Suspicion("wrong-final", f"{where} is an empty object, which is never stored", seen_by, focus)
        stranger = self._stranger(leaf)
        if stranger is not None:
            text = f"{where} is what call {stranger.number} wrote elsewhere, where it is private"
            return Suspicion("leaked", text, seen_by, focus)
        if not seen_by and isinstance(leaf.found, list) and self._is_edited(leaf):
            return Suspicion("wrong-final", f"{where} is not what follows from the calls", seen_by, focus)
        return Suspicion("phantom-write", f"{where} is nothing that anybody wrote", seen_by, focus)

    def _is_edited(self, leaf: Leaf) -> bool:
        """Whether accepted calls edit elements of an array there, so that it could have become anything."""
        writes = [write for scope in leaf.scopes for write in self.writers.of((scope, leaf.keys))]
        return any(write.value is ANY and self.is_stored(write.call) for write in writes)

    def _stranger(self, leaf: Leaf) -> Call | None:
        """Who wrote the same in a scope that is not looked at here."""
        if leaf.read is not None and leaf.read.projection == "keys" and not isinstance(leaf.found, str):
            return None
        for scope in self.writers.scopes():
            if scope not in leaf.scopes and scope:
                for write in self.writers.of((scope, leaf.keys)):
                    if write.value is not ABSENT and write.value is not ANY and gives(write, leaf):
                        return write.call
        return None

    def shown_parts(self, call: Call, position: int, is_right: dict[Place, bool]) -> list[Place]:
        """Places that only this call can have made as they are; ``is_right``: places that were looked at."""
        return [
            place
            for place, _ in asked_leaves(self.writers.patches_of(call))
            if is_right.get(place, False)
            and self.writers.last(place, position) is call
            and self._is_only_giver(call, place)
        ]

    def _is_only_giver(self, call: Call, place: Place) -> bool:
        writes = self.writers.of(place)
        own = next(write.value for write in writes if write.call is call)
        leaf = Leaf((place[0],), place[1], own, ABSENT)
        is_plain = own is not ABSENT and own is not ANY and not isinstance(own, dict)
        others = [write for write in writes if write.call is not call and not _is_again(write.call, call)]
        return is_plain and not any(gives(write, leaf) for write in others)


def _is_again(call: Call, other: Call) -> bool:
    """Whether two calls are one request."""
    return call.request_id is not None and call.request_id == other.request_id
