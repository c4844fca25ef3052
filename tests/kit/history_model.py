"""What sessions of several processes must see, as slowly as possible: whole states, every position, plain lists.

Unlike ``naive_model`` it knows processes with different history limits, and so floors (Ours-4): a change by a process
with limit n leaves the newest n records of each changed scope visible, to everybody, for good.
"""

from __future__ import annotations

import copy
from typing import Any

from kit.naive_model import naive_merge, naive_prune

Json = dict[str, Any]
Place = tuple[str, ...]


class HistoryModel:
    """Scopes by place, and per session every state it has had with the number of the change that made it."""

    def __init__(self) -> None:
        self.count = 0
        self.scopes: dict[Place, Json] = {}
        self.changes: dict[Place, list[int]] = {}
        self.floors: dict[Place, int] = {}
        self.seen: dict[tuple[str, str], list[tuple[int, list[Json]]]] = {}

    @staticmethod
    def places(cwd: str, key: str) -> dict[str, Place]:
        return {"global": (), "cwd": (cwd,), "session": (cwd, key)}

    def open(self, cwd: str, key: str) -> None:
        """A session begins its history with what is there now, if it is new."""
        if (cwd, key) not in self.seen:
            self.count += 1
            self.seen[cwd, key] = [(self.count, self._state(cwd, key))]

    def patch(self, cwd: str, key: str, call: Json, limit: int) -> bool:
        """One accepted call by a process with this limit. Whether it changed anything."""
        places = self.places(cwd, key)
        new = {places[name]: naive_prune(naive_merge(self.scopes.get(places[name], {}), call[name])) for name in call}
        changed = {place: value for place, value in new.items() if value != self.scopes.get(place, {})}
        if not changed:
            return False
        self.count += 1
        self.scopes |= changed
        for place in changed:
            records = self.changes.setdefault(place, [])
            left = self.count if limit == 0 else records[-limit] if len(records) >= limit else 0
            self.floors[place] = max(self.floors.get(place, 0), left)
            records.append(self.count)
        for session, states in self.seen.items():
            if changed.keys() & {*self.places(*session).values()}:
                states.append((self.count, self._state(*session)))
        return True

    def visible(self, cwd: str, key: str, limit: int) -> list[list[Json]]:
        """The states a session sees in a process with this limit, the newest first."""
        oldest = max(self.floors.get(place, 0) for place in self.places(cwd, key).values())
        *past, head = self.seen[cwd, key]
        return [head[1], *[state for number, state in past[::-1] if number >= oldest][:limit]]

    def _state(self, cwd: str, key: str) -> list[Json]:
        return [copy.deepcopy(self.scopes.get(place, {})) for place in self.places(cwd, key).values()]
