"""Memory as slowly as possible: every session keeps a list of whole states. The algebra is compared with this."""

from __future__ import annotations

import copy
import re
from typing import Any

Json = dict[str, Any]


def naive_merge(target: Any, patch: Any, indexes: bool = True) -> Any:
    """A deep copy of ``target`` after ``patch``. Without ``indexes`` an object never edits an array."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if indexes and isinstance(target, list) and patch and all(re.fullmatch(r"\[(0|[1-9]\d*)\]", key) for key in patch):
        result = copy.deepcopy(target)
        for key, value in patch.items():
            result[int(key[1:-1])] = naive_merge(result[int(key[1:-1])], value)
        return result
    members = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            members.pop(key, None)
        else:
            members[key] = naive_merge(members.get(key), value, indexes)
    return members


def naive_prune(value: Any) -> Any:
    """A copy without empty object members."""
    if isinstance(value, list):
        return [naive_prune(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {key: naive_prune(item) for key, item in value.items()}
    return {key: item for key, item in members.items() if item != {}}


def naive_overlay(broad: Any, narrow: Any) -> Any:
    """A copy of ``broad`` with ``narrow`` laid over it."""
    if not (isinstance(broad, dict) and isinstance(narrow, dict)):
        return copy.deepcopy(narrow)
    members = copy.deepcopy(broad)
    for key, value in narrow.items():
        members[key] = naive_overlay(members.get(key), value)
    return members


class NaiveModel:
    """Scopes by place, and per session all the states it has seen, oldest first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.scopes: dict[tuple[str, ...], Json] = {}
        self.seen: dict[tuple[str, str], list[list[Json]]] = {}

    def open(self, cwd: str, key: str) -> None:
        """Begin the session's history with what is there now, if it is new."""
        self.seen.setdefault((cwd, key), [self.state(cwd, key)])

    def state(self, cwd: str, key: str) -> list[Json]:
        """Copies of global, cwd and session now."""
        return [copy.deepcopy(self.scopes.get(place, {})) for place in ((), (cwd,), (cwd, key))]

    def patch(self, cwd: str, key: str, patches: Json) -> None:
        """One call; every session that sees a changed scope has one more state."""
        places = {"global": (), "cwd": (cwd,), "session": (cwd, key)}
        changed = set()
        for name, patch in patches.items():
            old = self.scopes.get(places[name], {})
            new = naive_prune(naive_merge(old, patch))
            if new != old:
                self.scopes[places[name]] = new
                changed.add(places[name])
        for session, states in self.seen.items():
            if changed & {(), session[:1], session}:
                states.append(self.state(*session))
                del states[: -self.limit - 1]
