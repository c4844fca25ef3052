"""What a session knows of the sources of its cards: what was seen, what must be compiled, what was read for it.

A read, by the id of its tool call (A18 to A20)::

    unknown --begin: a look before--> begun --count: the same look after, twice--> counted: a duty of the next patch
                                        |------ another look --> begun, and what was counted of its path is dropped
                                        +------ the id is used for another tool --> unknown
    counted --a patch with its card is accepted--> done       --its source changed--> dropped, with the refusal
            --run start, accepted answer, another mode--> dropped

Nothing here waits or looks at anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import attrs

from ..store import SCOPES, Json, ScopeName, ScopeState
from ..store.artifacts import (
    NO_READS,
    Compilation,
    Digest,
    Fingerprint,
    Invalidation,
    Judgement,
    Seen,
    SkillRead,
    SourceRead,
    is_current_skill,
    judge,
    registered_paths,
    skill_note,
)
from .session_context import Scopes

_NOBODY = Judgement()


@final
@attrs.define(eq=False)
class BegunRead:
    """A read whose tool call has begun: of what, for whose card, and what was seen before."""

    path: str
    scope: ScopeName
    is_skill: bool
    before: Seen | None


@final
@attrs.define(eq=False)
class SessionArtifacts:
    """Of one session, in one process.

    Attributes:
      skills: the scope of each registered Skill's card, by path.
      seen: the newest look at each source. Replaced as a whole, never changed.
      listed: the invalidations that were reported last, by path.
    """

    skills: Mapping[str, ScopeName] = attrs.field(factory=dict)
    seen: Mapping[str, Seen] = attrs.field(factory=dict)
    listed: Mapping[str, Invalidation] = attrs.field(factory=dict)
    _begun: dict[str, BegunRead] = attrs.field(factory=dict, init=False)
    _sources: dict[str, SourceRead] = attrs.field(factory=dict, init=False)
    _skill_reads: dict[str, SkillRead] = attrs.field(factory=dict, init=False)
    # What was judged last: artifacts and evidence of each scope, looks, Skills.
    _judged: tuple[Any, ...] = attrs.field(default=(), init=False)
    _judgement: Judgement = attrs.field(default=_NOBODY, init=False)
    _registered: tuple[tuple[Any, ...], tuple[str, ...]] = attrs.field(default=((), ()), init=False)

    # -- freshness ----------------------------------------------------------------------------------------------

    def paths(self, scopes: Scopes) -> tuple[str, ...]:
        """The registered sources, sorted. Worked out anew when cards came or went."""
        cards = tuple(scopes[name].value.get("artifacts") for name in SCOPES)
        if not _are_same(cards, self._registered[0]):
            self._registered = cards, tuple(registered_paths(scopes))
        return self._registered[1]

    def note_seen(self, paths: Iterable[str], seen: Mapping[str, Seen]) -> None:
        """A look at all registered sources came back. Of what it said nothing, the look before holds."""
        old = self.seen
        new = {path: found for path in paths if (found := seen.get(path, old.get(path))) is not None}
        if new != old:
            self.seen = new

    def note_some(self, seen: Mapping[str, Seen]) -> None:
        """A look at some of them came back."""
        if any(self.seen.get(path) != found for path, found in seen.items()):
            self.seen = {**self.seen, **seen}

    def judge(self, scopes: Scopes | None) -> Judgement:
        """What the newest looks say of the cards, as they are now."""
        if scopes is None or not self.seen:
            return _NOBODY
        states = [scopes[name] for name in SCOPES]
        now = (*map(_artifacts, states), *(state.evidence for state in states), self.seen, self.skills)
        if not _are_same(now, self._judged):
            self._judgement = judge(scopes, self.seen, self.skills)
            self._judged = now
        return self._judgement

    def report(self, judgement: Judgement) -> bool:
        """These invalidations are reported from here on. Whether they are others than before."""
        listed = {item.path: item for item in judgement.invalidations}
        was, self.listed = self.listed, listed
        return was != listed

    # -- reads --------------------------------------------------------------------------------------------------

    def begun(self, call_id: str, path: str) -> BegunRead | None:
        """The read of this path that this call has begun."""
        found = self._begun.get(call_id)
        return found if found is not None and found.path == path else None

    def begin(self, call_id: str, path: str, before: Seen | None) -> None:
        """A tool call is about to read a path. The last one under its id counts (A20); what is not listed, and no
        Skill, counts for nothing."""
        self.forget(call_id)
        scope = self.scope_of(path)
        if scope is not None:
            self._begun[call_id] = BegunRead(path, scope, path in self.skills, before)

    def scope_of(self, path: str) -> ScopeName | None:
        """Where the card of a path belongs that is a Skill or listed; None if it is neither."""
        listed = self.listed.get(path)
        return self.skills.get(path) or (listed.scope if listed is not None else None)

    def forget(self, call_id: str) -> None:
        """The id of a call is used for something else."""
        self._begun.pop(call_id, None)

    def holds(self, read: BegunRead) -> bool:
        """Whether a read that was begun is still of any interest: nothing has ended it meanwhile."""
        return read in self._begun.values()

    def count(self, read: BegunRead, after: Seen | None, again: Seen | None) -> None:
        """A read has ended: it counts if its source was the same before, after, and at a second look (A19)."""
        before, read.before = read.before, again
        if type(before) is Fingerprint and before == after == again:
            self._sources[read.path] = SourceRead(read.path, read.scope, before)
        else:
            self._sources.pop(read.path, None)

    def count_skill(self, read: BegunRead, digest: Digest, scopes: Scopes | None) -> str | None:
        """The read of a Skill has ended. What its reader must be told, if its card is not current (A27 to A29)."""
        source_hash, problem = digest.source_hash, digest.problem
        if source_hash is not None and type(read.before) is Fingerprint and read.before != digest.fingerprint:
            source_hash, problem = None, "it was changed while it was read"
        self._skill_reads[read.path] = SkillRead(read.path, read.scope, source_hash, digest.fingerprint, problem)
        state: ScopeState | None = scopes[read.scope] if scopes is not None else None
        card = state.value.get("artifacts", {}).get(read.path) if state is not None else None
        entry = state.evidence.get(read.path) if state is not None else None
        return None if is_current_skill(card, entry, source_hash) else skill_note(read.path, read.scope, problem)

    def compilation(self) -> Compilation:
        """What was read for cards until now."""
        if not self._sources and not self._skill_reads:
            return NO_READS
        return Compilation(dict(self._sources), dict(self._skill_reads))

    def consume(self, compilation: Compilation, patches: Mapping[ScopeName, Json]) -> None:
        """A patch was accepted that did what these reads asked for: they are used up (A25)."""
        for path, source in compilation.sources.items():
            if self._sources.get(path) is source:
                del self._sources[path]
        for path, skill in compilation.skills.items():
            if path in patches.get(skill.scope, {}).get("artifacts", {}) and self._skill_reads.get(path) is skill:
                del self._skill_reads[path]

    def drop(self, paths: Iterable[str]) -> None:
        """These sources are not what was read: their reads oblige nobody any more."""
        for path in paths:
            self._sources.pop(path, None)
            self._skill_reads.pop(path, None)

    def clear(self) -> None:
        """A run begins, an answer was accepted, another mode holds: no read is remembered (A25, L9)."""
        self._begun.clear()
        self._sources.clear()
        self._skill_reads.clear()


def _artifacts(state: ScopeState) -> Any:
    return state.value.get("artifacts")


def _are_same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(one is other for one, other in zip(left, right, strict=True))
