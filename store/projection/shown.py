"""What of the memory is shown: the projected state of one moment, and how to look into it (C14).

Projected is the effective view without ``lazy``, foreign planes, an empty ``response``, empty object members and the
runtime's members of cards; in passive mode without any ``response``. A stale card gets a ``hint``.

It is hardly ever built. A ``Shown`` keeps the scopes it was taken from, and what is asked for is resolved along its
path, so that a look at a large memory costs what is looked at.

Invariants:
  W1  ``layers`` laid over each other hold no empty object member: pruned scopes lie on each other without making one.
      If a scope is not pruned the view is laid, pruned and kept as a single layer. (To prune the layers would be
      cheaper and wrong: an empty object hides what the broader scope has, and is then hidden itself.)
  W2  Nothing reachable from here is changed, ever. What leaves is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..algebra import (
    PLANES,
    RUNTIME_MEMBERS,
    SCOPES,
    Json,
    ScopeName,
    ScopeState,
    known_planes,
    overlay_shared,
    prune,
    readable_card,
    readable_cards,
)
from ..algebra.overlay import Layers, flattened, plane_layers, step_into
from .messages import Dump
from .navigation import navigation_of

Scopes = Mapping[ScopeName, ScopeState]
# Exact object keys and array indexes.
Path = tuple[str | int, ...]

NOTHING: Any = object()


@attrs.frozen(eq=False)
class Shown:
    """What is shown of the memory at one moment.

    Attributes:
      states: the scopes it was taken from, broadest first.
      layers: what is laid over each other. (W1)
      hints: by artifact path, for cards that are older than their source.
      hides_response: whether ``response`` is left out (passive).
      navigation: the catalog of ``lazy``.
    """

    states: tuple[ScopeState, ...]
    layers: tuple[Json, ...]
    hints: Mapping[str, str]
    hides_response: bool
    navigation: Json

    def plane(self, name: str) -> Any:
        """One plane, or NOTHING."""
        layers = plane_layers(self.layers, name)
        if not layers:
            return NOTHING
        value = flattened(layers)
        if name == "artifacts":
            # One look at all names at once: only old files hold provenance in their cards, and most are not old.
            if not RUNTIME_MEMBERS.isdisjoint(set().union(*value.values())):
                value = readable_cards(value)
            stale = {path: {**value[path], "hint": text} for path, text in self.hints.items() if path in value}
            value = {**value, **stale} if stale else value
        return value

    def card(self, path: str) -> Any:
        """One artifact card with its hint, or NOTHING."""
        layers = step_into(plane_layers(self.layers, "artifacts"), path)
        if not layers:
            return NOTHING
        card = readable_card(flattened(layers))
        return {**card, "hint": self.hints[path]} if path in self.hints else card

    def state(self) -> Json:
        """The whole projected state, planes in their order. It shares with the scopes: to be written out, not kept."""
        found = ((name, self.plane(name)) for name in self.planes())
        return {name: value for name, value in found if value is not NOTHING}

    def planes(self) -> tuple[str, ...]:
        """The planes that may be shown."""
        return _WITHOUT_RESPONSE if self.hides_response else _WITH_RESPONSE

    def at(self, path: Path) -> Any:
        """The value at ``path`` (plane first), or NOTHING."""
        plane = str(path[0])
        if plane not in self.planes():
            return NOTHING
        if plane == "artifacts":
            layers: Layers = () if len(path) == 1 else (self.card(str(path[1])),)
            return self.plane(plane) if len(path) == 1 else _inside(layers, path[2:])
        return _inside(plane_layers(self.layers, plane), path[1:])


_WITH_RESPONSE = tuple(plane for plane in PLANES if plane != "lazy")
_WITHOUT_RESPONSE = tuple(plane for plane in _WITH_RESPONSE if plane != "response")


def _inside(layers: Layers, path: Path) -> Any:
    for step in path:
        if not layers or layers[0] is NOTHING:
            return NOTHING
        if type(step) is str:
            layers = step_into(layers, step)
        else:
            value = layers[0]
            layers = (value[step],) if type(value) is list and type(step) is int and step < len(value) else ()
    return flattened(layers) if layers else NOTHING


def look(
    scopes: Scopes, hints: Mapping[str, str], *, hides_response: bool, dump: Dump, last: Shown | None = None
) -> Shown:
    """What is shown of ``scopes`` now. ``last`` itself, if that shows the same values; else it lends what it knows."""
    states = tuple(scopes[name] for name in SCOPES)
    if last is not None and last.hides_response != hides_response:
        last = None
    if last is not None and all(old.value is new.value for old, new in zip(last.states, states, strict=True)):
        # A copy of the hints: the next comparison must not be with a mapping that its owner has changed.
        return last if hints == last.hints else attrs.evolve(last, hints=dict(hints))
    layers = _layers(states)
    if last is not None and _are_same(plane_layers(last.layers, "lazy"), plane_layers(layers, "lazy")):
        navigation = last.navigation
    else:
        navigation = navigation_of(layers, dump)
    return Shown(states, layers, dict(hints), hides_response, navigation)


def _layers(states: tuple[ScopeState, ...]) -> tuple[Json, ...]:
    values = tuple(state.value for state in states)
    if all(state.is_pruned for state in states):
        return values
    return (prune(known_planes(overlay_shared(*values))),)


def _are_same(old: Layers, new: Layers) -> bool:
    return len(old) == len(new) and all(left is right for left, right in zip(old, new, strict=True))
