"""Recent transitions of a session as its head shows them (C21, C22, Ours-15).

They are frozen with the head. What a reader of the head does not see elsewhere is not shown here either: ``lazy``
bodies, provenance of cards, foreign planes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from ..algebra import PLANES, SCOPES, Json, ScopeName, ScopeState
from ..algebra.cards import readable_cards


@attrs.frozen
class Transition:
    """One accepted transition that the session made itself.

    Attributes:
      id: its boundary's id.
      at: its boundary's position.
      records: the net record of each changed scope, as stored.
    """

    id: str
    at: int
    records: Mapping[ScopeName, Json]


def recent_transitions(transitions: Sequence[Transition], limit: int) -> list[Json]:
    """``{id, at, transitions: [{scope, patch}]}``, oldest first; of each scope its newest ``limit`` records.

    Args:
      transitions: the session's own, oldest first.
    """
    counts = dict.fromkeys(SCOPES, 0)
    found: list[Json] = []
    for transition in reversed(transitions):
        parts = []
        for scope in SCOPES:
            if scope not in transition.records:
                continue
            # What is hidden counts too: the limit is one of history, not of what happens to be visible.
            counts[scope] += 1
            patch = _visible(transition.records[scope]) if counts[scope] <= limit else {}
            if patch:
                parts.append({"scope": scope, "patch": patch})
        if parts:
            found.append({"id": transition.id, "at": transition.at, "transitions": parts})
        elif min(counts.values()) >= limit:
            break
    return found[::-1]


def _visible(record: Json) -> Json:
    patch: dict[str, Any] = {plane: record[plane] for plane in PLANES if plane != "lazy" and plane in record}
    if patch.get("response") == "":
        patch["response"] = None
    if "artifacts" in patch:
        patch["artifacts"] = readable_cards(patch["artifacts"])
    return patch


def own_transitions(
    scopes: Mapping[ScopeName, ScopeState], own: Collection[str], known: Collection[str], since: int, limit: int
) -> list[Transition]:
    """The transitions that a session made itself, as far as its scopes still hold their records, oldest first.

    Args:
      own: ids of transitions it made. Every record of its private scope is its own besides.
      known: boundaries of its history that its own run record names; ``since``: where what was recorded later begins.
      limit: of history, for each scope.
    """
    private = {record.boundary.id for record in scopes["session"].tail}
    found: dict[int, tuple[str, dict[ScopeName, Json]]] = {}
    for name in SCOPES:
        for record in scopes[name].visible_records(limit):
            boundary = record.boundary
            is_own = boundary.id in private or boundary.id in own
            if boundary.id in known or (is_own and boundary.position > since):
                found.setdefault(boundary.position, (boundary.id, {}))[1][name] = record.patch
    return [Transition(found[at][0], at, found[at][1]) for at in sorted(found)]
