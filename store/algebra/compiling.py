"""Compiling cards: what a patch owes to the sources that were read for it (A21 to A24, A31 to A35).

A *counted read* of an ordinary source is a duty: the next patch holds a card for it, at the reported scope and path. A
read of a *Skill* is an offer: its card may come, and then only to its own scope. Either card replaces the old one
whole, and the runtime's evidence comes with it. Nothing here looks at a source: what a look gave is an argument.

Invariants:
  K1  Evidence is accepted only together with an authored card of the same scope and path.
  K2  No evidence of a source is accepted that was seen otherwise in the look of this acceptance. (A22)
  K3  A compiled card has no member that was not authored now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import attrs

from .errors import CallError, shown
from .evidence import Fingerprint, Seen, changed_since, skill_evidence, source_evidence
from .history import SCOPES, ScopeName
from .merge import Json, merge_pruned

SKILL_KIND = "skill"


@final
@attrs.frozen
class SourceRead:
    """A counted read: ``scope`` is the one that the invalidation names."""

    path: str
    scope: ScopeName
    fingerprint: Fingerprint


@final
@attrs.frozen
class SkillRead:
    """A read of a registered Skill. Without a hash ``problem`` says why there is none.

    ``fingerprint`` is that of the bytes that were hashed.
    """

    path: str
    scope: ScopeName
    source_hash: str | None
    fingerprint: Fingerprint | None = None
    problem: str = ""


@final
@attrs.frozen
class Compilation:
    """What was read before a patch, by path; ``seen``: those sources when the patch was about to be accepted."""

    sources: Mapping[str, SourceRead] = attrs.field(factory=dict)
    skills: Mapping[str, SkillRead] = attrs.field(factory=dict)
    seen: Mapping[str, Seen] = attrs.field(factory=dict)

    def rests_on(self, patches: Mapping[ScopeName, Json]) -> dict[str, Fingerprint]:
        """The sources that must not have changed for these patches to be accepted, with what they were."""
        found = {path: read.fingerprint for path, read in self.sources.items()}
        for path, skill in self.skills.items():
            if skill.fingerprint is not None and path in _cards(patches.get(skill.scope, {})):
                found[path] = skill.fingerprint
        return found

    def changed(self, patches: Mapping[ScopeName, Json]) -> dict[str, str]:
        """Those of them that did change, with the reason in words."""
        found = {path: changed_since(was, self.seen.get(path)) for path, was in self.rests_on(patches).items()}
        return {path: reason for path, reason in found.items() if reason is not None}

    def check_call(self, patches: Mapping[ScopeName, Json]) -> None:
        """Rows 11 and 16 of T9, over all scopes before any is staged (T10). (K2)

        Raises:
          CallError: E_SOURCE_CHANGED, E_SKILL_SCOPE.
        """
        changed = self.changed(patches)
        if changed:
            raise source_changed(changed)
        for scope in SCOPES:
            for path in _cards(patches.get(scope, {})):
                skill = self.skills.get(path)
                if skill is not None and skill.scope != scope:
                    raise CallError(
                        "E_SKILL_SCOPE",
                        f"the card of the Skill {shown(path)} belongs to {target(skill.scope, path)}, not to {scope}",
                        scope=scope,
                        path=path,
                        target=skill.scope,
                    )

    def check_scope(self, scope: ScopeName, patch: Json) -> None:
        """Rows 18 and 19 of T9 for one scope, whose patch may be empty.

        Raises:
          CallError: E_COMPILE_MISSING, E_SKILL.
        """
        cards = _cards(patch)
        for path, read in self.sources.items():
            if read.scope == scope and path not in cards:
                raise CallError(
                    "E_COMPILE_MISSING",
                    f"{shown(path)} was read for {target(scope, path)}: put its whole card there in this patch",
                    scope=scope,
                    path=path,
                )
        for path, skill in self.skills.items():
            if skill.scope == scope and path in cards:
                problems = _skill_problems(cards[path])
                if skill.source_hash is None:
                    problems.append(f"its source has no hash: {skill.problem}; read it again")
                if problems:
                    raise CallError(
                        "E_SKILL",
                        f"the Skill card {target(scope, path)} is refused: {'; '.join(problems)}",
                        scope=scope,
                        path=path,
                        problems=problems,
                    )

    def compiled(self, scope: ScopeName, patch: Json) -> dict[str, Any]:
        """The authored cards of one scope's patch that replace the old ones, by path."""
        if not self.sources and not self.skills:
            return {}
        return {path: card for path, card in _cards(patch).items() if self._evidence(scope, path) is not None}

    def evidence(self, scope: ScopeName, patch: Json) -> dict[str, Json]:
        """The evidence that comes with those cards. (K1)"""
        found = {path: self._evidence(scope, path) for path in self.compiled(scope, patch)}
        return {path: entry for path, entry in found.items() if entry is not None}

    def _evidence(self, scope: ScopeName, path: str) -> Json | None:
        skill, source = self.skills.get(path), self.sources.get(path)
        if skill is not None and skill.scope == scope and skill.source_hash is not None:
            return skill_evidence(skill.source_hash)
        return source_evidence(source.fingerprint) if source is not None and source.scope == scope else None


NO_READS = Compilation()


def without_cards(patch: Json, cards: Mapping[str, Any]) -> Json:
    """A patch without the cards that are compiled: they are put in place whole, and never merged."""
    rest = {path: card for path, card in patch["artifacts"].items() if path not in cards}
    return {**patch, "artifacts": rest}


def with_cards(value: Json, cards: Mapping[str, Any]) -> Json:
    """A scope's value with these cards in place of what stood there. (K3)

    A card that comes to nothing is put there all the same, so that the check of cards can say what it lacks.
    """
    whole = {path: merge_pruned({}, card) if type(card) is dict else card for path, card in cards.items()}
    return {**value, "artifacts": {**value.get("artifacts", {}), **whole}}


def source_changed(changed: Mapping[str, str]) -> CallError:
    """Why a patch is refused whose sources, given with reasons, are not what was read."""
    path, reason = next(iter(sorted(changed.items())))
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    return CallError(
        "E_SOURCE_CHANGED",
        f"{shown(path)}{more} is not what was read for its card: {reason}; read it again before you patch its card",
        paths=sorted(changed),
        reason=reason,
    )


def target(scope: ScopeName, path: str) -> str:
    """Where a card belongs, as models are told."""
    return f"{scope}.artifacts[{shown(path)}]"


def _cards(patch: Json) -> Json:
    """The cards that a scope's patch authors. To delete one is not to author it."""
    artifacts = patch.get("artifacts")
    return {path: card for path, card in artifacts.items() if card is not None} if artifacts else {}


def _skill_problems(card: Any) -> list[str]:
    """Everything that keeps a value from being a Skill's card (A31, A34)."""
    whole = merge_pruned({}, card) if type(card) is dict else {}
    problems = []
    description, compilation = whole.get("description"), whole.get("compilation")
    if type(description) is not str or not description.strip():
        problems.append("description must be a string that is not blank")
    if whole.get("kind") != SKILL_KIND:
        problems.append(f'kind must be "{SKILL_KIND}"')
    if type(compilation) is not dict or not compilation:
        problems.append("compilation must be an object that is not empty")
    return problems
