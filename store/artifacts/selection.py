"""Selecting cards by their tags (A17). A tag says what a card is about; it never is a permission to read anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ..algebra import CallError, shown

# Whether a card must have all of the tags that were asked for, or any one of them.
Match = Literal["all", "any"]


def check_tags(tags: Iterable[str], match: str = "all") -> frozenset[str]:
    """The tags of a query.

    Raises:
      CallError: E_SHAPE, there are none, or one can be no tag, or ``match`` is neither all nor any.
    """
    given = [*tags] if not isinstance(tags, str) else [tags]
    if not given:
        raise CallError("E_SHAPE", "a selection names at least one tag")
    for tag in given:
        if type(tag) is not str or not tag or tag != tag.strip():
            raise CallError("E_SHAPE", f"{shown(tag)} can be no tag: tags are trimmed strings that are not empty")
    if match not in ("all", "any"):
        raise CallError("E_SHAPE", f"match is all or any, not {shown(match)}")
    return frozenset(given)


def select_cards(cards: Mapping[str, Any], tags: Iterable[str], match: Match = "all") -> list[str]:
    """The paths of the cards that have all, or any, of these tags, sorted.

    Raises:
      CallError: E_SHAPE, see ``check_tags``.
    """
    wanted = check_tags(tags, match)
    found = []
    for path, card in cards.items():
        tagged = card.get("tags", ()) if type(card) is dict else ()
        has = wanted.intersection(tagged)
        if has == wanted if match == "all" else has:
            found.append(path)
    return sorted(found)
