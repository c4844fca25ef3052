"""Freshness: whether a card still speaks for its source, decided from a card, its evidence and one look (A12 to A14).

::

    no card -> new
    bad card, bad or no evidence -> invalid-metadata
    another fingerprint (or hash) -> source-changed      also a hint on the card
    another compiler -> compiler-changed
    somebody asks for it -> explicit-refresh
    otherwise -> current

The list of what must be compiled anew has one entry a path. Where several scopes own a path, each card is judged; the
narrowest of those that are not current is listed, so that a current card of the session does not hide for ever that
the one of its directory, which others read, is old.

Invariants:
  F1  What was not seen as a regular file is never listed and never hinted at: missing and unavailable prove nothing
      about a card, and neither does a look that did not come back.
  F2  Skills are not judged here. Their evidence is a hash, which no metadata can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, final

import attrs

from ..algebra import (
    ARTIFACT_REVISION,
    SCOPES,
    SKILL_KIND,
    Fingerprint,
    Json,
    Missing,
    ScopeName,
    ScopeState,
    Seen,
    Unavailable,
    card_problem,
    stored_fingerprint,
)

Decision = Literal["new", "invalid-metadata", "source-changed", "compiler-changed", "explicit-refresh", "current"]
# What can be said of a card besides, for a person who looks at all of them.
Freshness = Literal[Decision, "skill", "missing", "unavailable", "unknown"]


def decide(
    path: str,
    card: Any,
    entry: Json | None,
    seen: Fingerprint,
    *,
    source_hash: str | None = None,
    fingerprint_only: bool = False,
    refresh: bool = False,
) -> Decision:
    """What has to be done about the card of a source that was seen (A12).

    Args:
      card: the stored card; None if there is none.
      entry: its evidence; None if there is none, or it is malformed.
      source_hash: of the bytes, if somebody has worked it out.
      fingerprint_only: leave hashes aside.
      refresh: the card is to be compiled anew whatever it says.
    """
    if card is None:
        return "new"
    stored = stored_fingerprint(entry) if entry is not None else None
    if entry is None or stored is None or card_problem(path, card) is not None:
        return "invalid-metadata"
    if stored != seen:
        return "source-changed"
    if source_hash is not None and not fingerprint_only:
        known = entry.get("sourceHash") or card.get("hash")
        if known is not None and known != source_hash:
            return "source-changed"
    if entry.get("compilerRevision") != ARTIFACT_REVISION:
        return "compiler-changed"
    return "explicit-refresh" if refresh else "current"


@final
@attrs.frozen
class Invalidation:
    """A card that must be compiled anew before it is relied on: read ``path``, then patch its card in ``scope``."""

    path: str
    scope: ScopeName
    reason: Decision

    def to_json(self) -> Json:
        """As the prompt shows it."""
        return {"path": self.path, "scope": self.scope, "reason": self.reason}


@final
@attrs.frozen(eq=False)
class Judgement:
    """What one look at all sources of a session says: ``hints`` by path, ``invalidations`` sorted by path."""

    hints: dict[str, str] = attrs.field(factory=dict)
    invalidations: tuple[Invalidation, ...] = ()
    # The invalidations as prompts have them; made once, since prompts are compared with each other.
    shown: tuple[Json, ...] = ()


def judge(scopes: Mapping[ScopeName, ScopeState], seen: Mapping[str, Seen], skills: Collection[str] = ()) -> Judgement:
    """Hold every ordinary card against what was seen of its source (A13, A14).

    Args:
      seen: looks by path; a path that is not in it was not looked at.
      skills: paths that a host has registered as Skills, whatever their cards say.
    """
    found: dict[str, Invalidation] = {}
    hints: dict[str, list[str]] = {}
    for name in SCOPES:  # the narrowest comes last, and stays
        evidence = scopes[name].evidence
        for path, card in scopes[name].value.get("artifacts", {}).items():
            at = seen.get(path)
            if type(at) is not Fingerprint or path in skills or is_skill_card(card):
                continue
            decision = decide(path, card, evidence.get(path), at)
            if decision == "current":
                continue
            found[path] = Invalidation(path, name, decision)
            if decision == "source-changed":
                hints.setdefault(path, []).append(_hint(name))
    listed = tuple(found[path] for path in sorted(found))
    texts = {path: "\n".join(sorted(set(of))) for path, of in hints.items()}
    return Judgement(texts, listed, tuple(item.to_json() for item in listed))


def _hint(scope: ScopeName) -> str:
    return f"The source is newer than this card in {scope}: read it and refresh the card before you rely on it."


def is_skill_card(card: Any) -> bool:
    """Whether a card says that it is a Skill's."""
    return type(card) is dict and card.get("kind") == SKILL_KIND


def freshness_of(path: str, card: Any, entry: Json | None, seen: Seen | None) -> Freshness:
    """What a person is told of one stored card."""
    if is_skill_card(card):
        return "skill"
    if seen is None:
        return "unknown"
    if isinstance(seen, Missing):
        return "missing"
    return "unavailable" if isinstance(seen, Unavailable) else decide(path, card, entry, seen)
