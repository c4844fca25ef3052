"""The catalog of the ``lazy`` plane: which keys it has and of what kind, never what they hold (C16).

A catalog with too many or too long keys is left out as a whole: half of one would read like all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..algebra import Json, kind
from ..algebra.overlay import Layers, plane_layers, step_into
from .messages import Dump

NAVIGATION_PATH = "effective.lazy"
NAVIGATION_KEYS_MAX = 32
NAVIGATION_CHARS_MAX = 1024


def navigation_of(values: Sequence[Json], dump: Dump) -> Json:
    """``{available, path}`` and, if they fit, ``keys``, of scope values that hold no empty object member.

    Args:
      values: broadest first.
    """
    layers = plane_layers(values, "lazy")
    if not any(layers):
        return {"available": False, "path": NAVIGATION_PATH}
    navigation: Json = {"available": True, "path": NAVIGATION_PATH}
    # The widest layer alone may decide; then a plane of any size costs nothing.
    if max(map(len, layers)) <= NAVIGATION_KEYS_MAX:
        keys = _kinds(layers)
        if len(keys) <= NAVIGATION_KEYS_MAX and len(dump(keys)) <= NAVIGATION_CHARS_MAX:
            navigation["keys"] = keys
    return navigation


def _kinds(layers: Layers) -> dict[str, str]:
    names: dict[str, Any] = {}
    for layer in layers:
        names.update(dict.fromkeys(layer))
    return {name: kind(step_into(layers, name)[0]) for name in names}


def is_complete(navigation: Json) -> bool:
    """Whether it names every key there is."""
    return "keys" in navigation or not navigation["available"]
