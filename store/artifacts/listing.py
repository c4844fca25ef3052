"""All cards of a session's scopes, each with what a look at its source says of it: for people and hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import attrs

from ..algebra import SCOPES, Json, ScopeName, ScopeState, Seen, Unavailable
from .freshness import Freshness, freshness_of
from .selection import Match, select_cards


@final
@attrs.frozen
class ArtifactCard:
    """One stored card. A path that several scopes own has one in each.

    Attributes:
      path: of the source.
      scope: who owns the card.
      freshness: ``current``, or why the card must be compiled anew (``invalid-metadata``, ``source-changed``,
        ``compiler-changed``); ``skill`` for a Skill's, which is judged when it is read; ``missing``, ``unavailable`` or
        ``unknown`` of the source.
      description, kind, tags: as the card says.
      reason: why the source is unavailable.
    """

    path: str
    scope: ScopeName
    freshness: Freshness
    description: str
    kind: str | None = None
    tags: tuple[str, ...] = ()
    reason: str | None = None

    def to_json(self) -> Json:
        """The card as one object."""
        return {**attrs.asdict(self), "tags": list(self.tags)}


def list_cards(
    scopes: Mapping[ScopeName, ScopeState], seen: Mapping[str, Seen], tags: Sequence[str] = (), match: Match = "all"
) -> list[ArtifactCard]:
    """The cards that have these tags, all of them without any, by path and then from the broadest scope on.

    Raises:
      CallError: E_SHAPE for what can be no tag.
    """
    found = []
    for name in SCOPES:
        state = scopes[name]
        cards = state.value.get("artifacts", {})
        for path in select_cards(cards, tags, match) if tags else cards:
            card, at = cards[path], seen.get(path)
            freshness = freshness_of(path, card, state.evidence.get(path), at)
            reason = at.reason if isinstance(at, Unavailable) else None
            told = tuple(card.get("tags", ()))
            found.append(ArtifactCard(path, name, freshness, card["description"], card.get("kind"), told, reason))
    return sorted(found, key=lambda card: card.path)
