"""Selecting inside a view: steps, the value projection and the keys projection (T44 to T51).

What is selected from is a tuple of scope values, broadest first: one for a scope root, three for the effective view.
They are laid over each other only at the place that is asked for, so a small read costs the same in a large state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from .cards import RUNTIME_MEMBERS, readable_card, readable_cards
from .errors import ReadError, shown
from .merge import Json
from .overlay import flattened, plane_layers, step_into
from .paths import ReadPath, Step
from .planes import PLANES
from .values import kind


def select_value(path: ReadPath, values: Sequence[Json]) -> Any:
    """The value at ``path``; an absent plane is null. Shared with ``values`` where nothing had to be merged.

    Raises:
      ReadError: E_MISSING, E_KIND or E_RANGE.
    """
    if len(path.steps) == 1 and path.steps[0] in PLANES and not plane_layers(values, str(path.steps[0])):
        return None  # T48
    return select(path, values)


def select(path: ReadPath, values: Sequence[Json]) -> Any:
    """The value at ``path``, which must exist."""
    steps = path.steps
    if not steps:
        return _root(values)
    plane = steps[0]
    if plane not in PLANES:
        missing(path, 0)
    layers = plane_layers(values, str(plane))
    if not layers:
        missing(path, 0)
    at = 1
    # Objects of several layers are resolved one by one; from the first plain value on there is nothing to merge.
    while at < len(steps) and type(steps[at]) is str and type(layers[0]) is dict:
        layers = step_into(layers, str(steps[at]))
        if not layers or (plane == "artifacts" and at == 2 and steps[at] in RUNTIME_MEMBERS):
            missing(path, at)
        at += 1
    if at < len(steps):
        # A step that is no key stops here too: it meets an object and is refused by its kind, unmerged.
        return follow(path, at, layers[0])
    value = flattened(layers)
    if plane == "artifacts" and at <= 2:
        value = readable_cards(value) if at == 1 else readable_card(value)
    return value


def follow(path: ReadPath, at: int, value: Any) -> Any:
    """The steps of ``path`` from number ``at`` on, applied strictly to a plain value."""
    for number in range(at, len(path.steps)):
        value = _step(path, number, value)
    return value


def _step(path: ReadPath, at: int, value: Any) -> Any:
    step: Step = path.steps[at]
    if isinstance(step, str):
        if type(value) is not dict or step not in value:
            missing(path, at)
        return value[step]
    if type(value) is not list:
        wrong_kind(path, at, value)
    length = len(value)
    if isinstance(step, int):
        if step >= length:
            _outside(path, at, length)
        return value[step]
    first, last = step
    if not first <= last <= length:
        _outside(path, at, length)
    return value[first:last]


def _root(values: Sequence[Json]) -> Json:
    """The planes of a root: without lazy, foreign fields, an empty response and runtime members of cards (T46)."""
    result = {}
    for plane in PLANES:
        if plane != "lazy":
            layers = plane_layers(values, plane)
            if layers:
                value = flattened(layers)
                result[plane] = readable_cards(value) if plane == "artifacts" else value
    return result


def keys_of(value: Any) -> tuple[Json, Any]:
    """``meta`` and ``keys`` of a value (T50): kinds of its immediate members, never a body."""
    name = kind(value)
    if name == "object":
        return {"type": name, "size": len(value)}, {key: kind(value[key]) for key in sorted(value)}
    if name in ("array", "string"):
        return {"type": name, "length": len(value)}, []
    return {"type": name}, []


def written(path: ReadPath, count: int) -> str:
    """The text of ``path`` with its first ``count`` steps, normalised."""
    text = path.root if not path.has_offset else f"{path.root}[{path.offset}]"
    steps = path.steps[:count]
    parts = [] if path.is_bare else [text]
    for step in steps:
        if isinstance(step, str):
            parts.append(f".{step}" if parts else step)
        elif isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            parts.append(f"[{step[0]}:{step[1]}]")
    return "".join(parts)


def missing(path: ReadPath, at: int) -> NoReturn:
    """Refuse: step ``at`` names a member that is not there (E_MISSING)."""
    place = written(path, at + 1)
    raise ReadError("E_MISSING", f"{shown(place)} does not exist; read its parent", path=path.text, at=place)


def wrong_kind(path: ReadPath, at: int, value: Any) -> NoReturn:
    """Refuse: step ``at`` is an index or a range and met something that is no array (E_KIND)."""
    place = written(path, at)
    raise ReadError(
        "E_KIND", f"{shown(place)} is {kind(value)}, an index or a range needs an array", path=path.text, at=place
    )


def _outside(path: ReadPath, at: int, length: int) -> NoReturn:
    place = written(path, at)
    step = path.steps[at]
    asked = f"range {step[0]}:{step[1]}" if isinstance(step, tuple) else f"index {step}"
    raise ReadError(
        "E_RANGE",
        f"{asked} is outside {shown(place)}, an array of length {length}",
        path=path.text,
        at=place,
        length=length,
    )
