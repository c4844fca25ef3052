"""The effective view: global, directory and session memory laid over each other (P25).

Key by key an object lies on an object; anything else of the narrower scope hides what the broader one has. Nothing is
ever deleted. ``response`` is the narrowest that is not empty.

A view is resolved along a path. What stands at one place is either one plain value or several objects that still have
to be laid over each other, the *layers*, broadest first. Only the selected place is ever merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .merge import Json
from .values import detach_checked

# Empty where nothing stands.
Layers = tuple[Any, ...]


def layers_of(values: Sequence[Any]) -> Layers:
    """What counts of ``values`` (broadest first) at one place: the narrowest, and the objects it lies on."""
    if len(values) < 2:
        return tuple(values)
    if type(values[-1]) is not dict:
        return (values[-1],)
    first = len(values) - 1
    while first and type(values[first - 1]) is dict:
        first -= 1
    return tuple(values[first:])


def step_into(layers: Layers, key: str) -> Layers:
    """The layers below ``key``; empty if no layer is an object that has it."""
    return layers_of([layer[key] for layer in layers if type(layer) is dict and key in layer])


def plane_layers(values: Sequence[Json], plane: str) -> Layers:
    """The layers of one plane of whole scopes."""
    if plane != "response":
        return step_into(tuple(values), plane)
    for value in reversed(values):
        if value.get("response"):
            return (value["response"],)
    return ()


def flattened(layers: Layers) -> Any:
    """The one value that ``layers`` (at least one) show. What only one layer has is shared."""
    if len(layers) == 1:
        return layers[0]
    result = dict(layers[0])
    for layer in layers[1:]:
        for key, value in layer.items():
            old = result.get(key)
            result[key] = flattened((old, value)) if type(old) is dict and type(value) is dict else value
    return result


def overlay_shared(*values: Json) -> Json:
    """The effective view of scope values, broadest first. It shares subtrees with them: look, do not change."""
    if not values:
        return {}
    result: Json = flattened(values)
    if any("response" in value for value in values):
        result = {plane: content for plane, content in result.items() if plane != "response"}
        response = plane_layers(values, "response")
        if response:
            result["response"] = response[0]
    return result


def overlay(*values: Json) -> Json:
    """The effective view of scope values, broadest first (global, cwd, session), as a value of the caller's own.

    Raises:
      CallError: E_JSON, a value breaks the value contract.
    """
    return overlay_shared(*(detach_checked(value, allow_null=False) for value in values))
