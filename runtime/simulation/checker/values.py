"""Values as the checker understands them: patches, ownership, leaves. Written from the documents, apart from the store.

A value is nested JSON that nobody changes once it is there; what a patch leaves alone is shared. A *leaf* is a scalar
or an array at a path of keys. Since empty objects are never stored, the leaves say all there is to say of a scope.

Two marks stand where no value can: ``ABSENT`` for nothing, ``ANY`` for something that the checker does not know and so
must accept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ....store import Json

Keys = tuple[str, ...]
# A leaf that differs: where, what was found, what should be there.
Difference = tuple[Keys, Any, Any]


class Mark:
    """Something that is no value; compared by identity."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


ABSENT: Final = Mark("nothing")
ANY: Final = Mark("anything")

_INDEX = re.compile(r"\[(0|[1-9][0-9]*)\]")
_REFERENCE = re.compile(r"(global|cwd|session)\.((?:working|lazy)(?:\.[A-Za-z_$][A-Za-z0-9_$-]*)+)")


class Unfit(Exception):
    """A patch that can not be applied to this value, so the store must have refused it."""


def same(left: Any, right: Any) -> bool:
    """Equality of JSON: ``True`` is not ``1``, ``1`` is ``1.0``."""
    if left is right:
        return True
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return bool(left == right)


def kind_of(value: Any) -> str:
    """The name of a value's JSON type."""
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "boolean"
    return "number"


def is_uncertain(value: Any) -> bool:
    """Whether some of a value is not known."""
    return value is ANY or (isinstance(value, dict) and any(map(is_uncertain, value.values())))


def is_edit(patch: Json) -> bool:
    """Whether a patch that meets an array edits its elements."""
    return bool(patch) and all(_INDEX.fullmatch(key) for key in patch)


def pruned(value: Any) -> Any:
    """``value`` without empty objects as members; elements of arrays stay."""
    if isinstance(value, list):
        items = [pruned(item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    members = {key: pruned(item) for key, item in value.items()}
    kept = {key: item for key, item in members.items() if item != {}}
    is_as_before = len(kept) == len(value) and all(kept[key] is value[key] for key in kept)
    return value if is_as_before else kept


def merged(old: Any, patch: Json) -> Any:
    """What stands where ``old`` stood (ABSENT: nothing did) after an object of a patch; ``old`` itself if unchanged.

    Raises:
      Unfit: the patch edits an element that is not there.
    """
    if old is ANY:
        return ANY
    if isinstance(old, list) and is_edit(patch):
        return _edited(old, patch)
    before: Json = old if isinstance(old, dict) else {}
    after = before
    for key, wanted in patch.items():
        there = before.get(key, ABSENT)
        if isinstance(wanted, dict):
            new = merged(there, wanted)
            if isinstance(new, dict) and not new:
                new = ABSENT
        else:
            new = ABSENT if wanted is None else pruned(wanted)
        if new is there or same(there, new):
            continue
        if after is before:
            after = dict(before)
        if new is ABSENT:
            del after[key]
        else:
            after[key] = new
    return after if before is old or after is not before else {}


def _edited(old: list[Any], patch: Json) -> list[Any]:
    items = list(old)
    for key, wanted in patch.items():
        index = int(key[1:-1]) if len(key) < 18 else len(old)
        if index >= len(old) or wanted is None:
            raise Unfit(f"element {key} of an array of {len(old)}")
        new = merged(items[index], wanted) if isinstance(wanted, dict) else pruned(wanted)
        items[index] = items[index] if same(items[index], new) else new
    return old if all(new is before for new, before in zip(items, old, strict=True)) else items


def at(value: Any, path: Keys) -> Any:
    """What stands at a path of keys."""
    for key in path:
        if value is ANY:
            return ANY
        if not isinstance(value, dict) or key not in value:
            return ABSENT
        value = value[key]
    return value


def with_leaf(value: Json, path: Keys, leaf: Any) -> Json:
    """``value`` with one leaf set, or removed with all that becomes empty by that; itself below ANY."""
    key, below = path[0], path[1:]
    result = dict(value)
    if not below:
        new = leaf
    else:
        there = value.get(key)
        if there is ANY:
            return value
        new = with_leaf(there if isinstance(there, dict) else {}, below, leaf)
    if new is ABSENT or new == {}:
        result.pop(key, None)
    else:
        result[key] = new
    return result


def differences(found: Any, right: Any, path: Keys = ()) -> Iterator[Difference]:
    """The leaves in which ``found`` differs from what is right; what must go comes before what must come."""
    if found is right or right is ANY:
        return
    is_found, is_right = isinstance(found, dict), isinstance(right, dict)
    if is_found and is_right:
        for key in [*right, *(key for key in found if key not in right)]:
            yield from differences(found.get(key, ABSENT), right.get(key, ABSENT), (*path, key))
    elif is_right and right:
        for key, item in right.items():
            yield from differences(ABSENT, item, (*path, key))
        if found is not ABSENT:
            yield path, found, ABSENT
    elif is_found and found:
        if right is not ABSENT:
            yield path, ABSENT, right
        for key, item in found.items():
            yield from differences(item, ABSENT, (*path, key))
    elif not same(found, right):
        yield path, found, right


def leaves(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """All leaves of a value, or of a patch (there with None for deletions)."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif path:
        yield path, value


def owned(intents: Iterable[Any], scope: str) -> set[Keys]:
    """What the given intents own in their scope (``"global"``, ``"cwd"`` or ``"session"``)."""
    found: set[Keys] = set()
    for intent in intents:
        if isinstance(intent, list):
            found |= owned(intent, scope)
        elif isinstance(intent, dict):
            reference = intent.get("$ref")
            match = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
            if match is not None and match[1] == scope:
                found.add(tuple(match[2].split(".")))
            found |= owned(intent.values(), scope)
    return found


def is_above(upper: Keys, lower: Keys) -> bool:
    """Whether ``upper`` is the same place as ``lower``, or one above it."""
    return lower[: len(upper)] == upper


def orphans(scope: str, before: Json, after: Json, patch: Json) -> list[Keys]:
    """What goes with the intents that a patch has removed."""
    old, new = before.get("intents", {}), after.get("intents", {})
    if old is ANY or new is ANY:
        return []
    gone = [old[key] for key in patch.get("intents", {}) if key in old and key not in new]
    if not gone:
        return []
    kept = owned(new.values(), scope)
    return sorted(
        target
        for target in owned(gone, scope)
        if at(after, target) is not ABSENT
        and not any(is_above(target, other) or is_above(other, target) for other in kept)
    )
