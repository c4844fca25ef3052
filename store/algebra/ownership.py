"""Intent ownership: what goes when an intent goes (O1 to O12).

Inside an intent of scope S an object with ``$ref: "S.working.…"`` or ``"S.lazy.…"`` owns that key. When a patch removes
the intent, what it owned is deleted with it, unless an intent that stays refers to the same place, to one above or to
one below. Nothing here can refuse a patch: what is not a valid reference owns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .history import ScopeName
from .merge import Json

# plane and keys inside a scope, such as ("working", "notes", "a")
Target = tuple[str, ...]

_OWNED = re.compile(r"(global|cwd|session)((?:\.[A-Za-z_$][A-Za-z0-9_$-]*){2,})")


def owned_target(reference: Any, scope: ScopeName) -> Target | None:
    """What a ``$ref`` inside an intent of ``scope`` owns, if it owns anything (O2)."""
    if type(reference) is not str:
        return None
    match = _OWNED.fullmatch(reference)
    if match is None or match[1] != scope:
        return None
    keys = match[2][1:].split(".")
    return tuple(keys) if keys[0] in ("working", "lazy") else None


def owned_targets(intents: Iterable[Any], scope: ScopeName) -> set[Target]:
    """Everything that the given intent values own in ``scope``, at any depth."""
    found: set[Target] = set()
    waiting = [intents]
    while waiting:
        for node in waiting.pop():
            if type(node) is list:
                waiting.append(node)
            elif type(node) is dict:
                target = owned_target(node.get("$ref"), scope)
                if target is not None:
                    found.add(target)
                waiting.append(node.values())
    return found


def cascade(scope: ScopeName, before: Json, after: Json, patch: Json) -> tuple[Target, ...]:
    """The targets to delete because ``patch`` removed the intents that owned them, sorted and minimal.

    Args:
      before: the scope as it was.
      after: the scope after the authored operations and their pruning.
    """
    old = before.get("intents", {})
    new = after.get("intents", {})
    removed = [old[key] for key in patch.get("intents", ()) if key in old and key not in new]
    if not removed:
        return ()
    targets = {target for target in owned_targets(removed, scope) if _exists(after, target)}
    if targets:
        kept = _with_ancestors(owned_targets(new.values(), scope))
        targets = {target for target in targets if not _is_spared(target, kept)}
    return tuple(sorted(target for target in targets if not _has_ancestor(target, targets)))


def deletion_patch(targets: Iterable[Target]) -> Json:
    """The patch that deletes ``targets`` (none of them below another)."""
    patch: Json = {}
    for target in targets:
        node = patch
        for key in target[:-1]:
            node = node.setdefault(key, {})
        node[target[-1]] = None
    return patch


def _exists(value: Json, target: Target) -> bool:
    node: Any = value
    for key in target:
        if type(node) is not dict or key not in node:
            return False
        node = node[key]
    return True


# The two sides of O5 as one look-up: each reference that stays, marked True, and every place above it, marked False.
Kept = dict[Target, bool]


def _with_ancestors(references: Iterable[Target]) -> Kept:
    kept: Kept = {}
    for reference in references:
        for length in range(1, len(reference)):
            kept.setdefault(reference[:length], False)
        kept[reference] = True
    return kept


def _is_spared(target: Target, kept: Kept) -> bool:
    if target in kept:
        return True  # the same place, or one below it, is still referred to
    return any(kept.get(target[:length], False) for length in range(1, len(target)))


def _has_ancestor(target: Target, targets: set[Target]) -> bool:
    return any(target[:length] in targets for length in range(1, len(target)))
