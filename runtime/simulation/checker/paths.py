"""Read paths as the checker understands them: what a path shows of three scopes.

Judged are values and keys, of the present and at an offset. Stored records (``cwd.patches[k]``) and the ``patch``
projection are not: they say how the store came to a value, not what it holds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import attrs

from ....store import Json
from .values import ABSENT, ANY, Keys, at, is_uncertain, kind_of

NAMES: Final = ("global", "cwd", "session")
PLANES: Final = ("intents", "contract", "working", "artifacts", "response", "lazy")
Trio = tuple[Json, Json, Json]
Part = str | int | tuple[int, int]

# Members of an artifact's card that belong to the runtime and are not shown.
_HIDDEN: Final = frozenset(
    "hash compiler compiled_at sourceHash sourceFingerprint compilerRevision compiledAt source_hash_verified "
    "hint".split()
)
_START = re.compile(rf"(effective|{'|'.join(NAMES)})(?:\[(\d+)\])?(?=[.\[]|$)|({'|'.join(PLANES)})(?=[.\[]|$)")
_STEP = re.compile(r"\.([A-Za-z_$][A-Za-z0-9_$-]*)|\[(\d+)(?:(?::|\.\.)(\d+))?\]")


@attrs.frozen
class Look:
    """A path: ``place`` are its keys up to the first index or range, ``rest`` is what follows inside of an array."""

    root: str
    offset: int
    place: Keys
    rest: tuple[Part, ...]

    @property
    def scopes(self) -> tuple[int, ...]:
        """Which of the three scopes it looks at, narrowest first."""
        return (2, 1, 0) if self.root == "effective" else (NAMES.index(self.root),)


@functools.lru_cache(4096)
def parse(text: str) -> Look | None:
    """The path in ``text``, or None if reads of it are not judged."""
    start = _START.match(text)
    if start is None:
        return None
    keys: list[str] = [start[3]] if start[3] else []
    rest: list[Part] = []
    position = start.end()
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        if step[1] is None:
            rest.append(int(step[2]) if step[3] is None else (int(step[2]), int(step[3])))
        elif rest:
            rest.append(step[1])
        else:
            keys.append(step[1])
        position = step.end()
    root = start[1] or "effective"
    if root != "effective" and start[2] is None and keys[:1] == ["patches"]:
        return None
    return Look(root, int(start[2] or 0), tuple(keys), tuple(rest))


def look(path: Look, values: Trio, projection: str = "value") -> Any:
    """What stands at a path: a value, ABSENT, or ANY where the values themselves are not known."""
    shown = _shown([values[index] for index in reversed(path.scopes)], path.place)
    if path.rest:
        shown = inside(shown, path.rest)
    return shown if projection == "value" else keys_of(shown)


def keys_of(value: Any) -> Any:
    """What the keys of a value show: kinds of its members; nothing of what is no object."""
    if value is ANY or value is ABSENT:
        return value
    if not isinstance(value, dict):
        return []
    return {key: ANY if is_uncertain(item) else kind_of(item) for key, item in value.items()}


def inside(value: Any, rest: Sequence[Part]) -> Any:
    """What the steps of a path from its first index on select."""
    for step in rest:
        if value is ANY:
            return ANY
        if isinstance(step, str):
            value = at(value, (step,))
        elif not isinstance(value, list):
            return ABSENT
        elif isinstance(step, int):
            value = value[step] if step < len(value) else ABSENT
        else:
            value = value[step[0] : step[1]] if step[0] <= step[1] <= len(value) else ABSENT
    return value


def _shown(layers: list[Any], place: Keys) -> Any:
    """What is visible at a place of scopes that lie on each other, broadest first."""
    if not place:
        planes = {plane: _shown(layers, (plane,)) for plane in PLANES if plane != "lazy"}
        return {plane: item for plane, item in planes.items() if item is not ABSENT}
    plane = place[0]
    if plane not in PLANES:
        return ABSENT
    if plane == "response":
        answers = [at(layer, place[:1]) for layer in layers]
        layers = [answer for answer in answers if answer is not ABSENT and answer != ""][-1:]
    else:
        layers = _below(layers, plane)
    for depth, key in enumerate(place[1:], 1):
        if plane == "artifacts" and depth == 2 and key in _HIDDEN:
            return ABSENT
        layers = _below(layers, key)
    shown = _overlaid(layers) if layers else ABSENT
    if plane == "artifacts" and isinstance(shown, dict):
        if len(place) == 1:
            return {path: _card(card) for path, card in shown.items()}
        if len(place) == 2:
            return _card(shown)
    return shown


def _below(layers: list[Any], key: str) -> list[Any]:
    """The layers at a key: the narrowest, and the objects below it that it lies on."""
    found: list[Any] = []
    for layer in layers:
        below = at(layer, (key,))
        if below is ABSENT:
            continue
        if not isinstance(below, dict) or (found and not isinstance(found[-1], dict) and found[-1] is not ANY):
            found = []
        found.append(below)
    return found


def _overlaid(layers: list[Any]) -> Any:
    if len(layers) == 1:
        return layers[0]
    if layers[0] is ANY:
        return ANY
    result = dict(layers[0])
    for layer in layers[1:]:
        for key, item in layer.items():
            below = result.get(key)
            lies_on = isinstance(item, dict) and (isinstance(below, dict) or below is ANY)
            result[key] = _overlaid([below, item]) if lies_on else item
    return result


def _card(card: Any) -> Any:
    if not isinstance(card, dict) or _HIDDEN.isdisjoint(card):
        return card
    return {member: item for member, item in card.items() if member not in _HIDDEN}
