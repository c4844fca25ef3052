"""What the writers of the demo write: every patch carries a token of its own to every place it changes.

A token in a place tells which patch wrote it last, so that what became of each patch can be read off the final state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

CWD = "/demo"
_SHARED_KEYS = 5
_OWN_KEY_EVERY = 5


@attrs.frozen
class Plan:
    """How much is written: ``patches`` by each of ``sessions`` in each of ``processes``."""

    processes: int = 4
    sessions: int = 4
    patches: int = 50

    @property
    def total(self) -> int:
        """All patches."""
        return self.processes * self.sessions * self.patches


def session_name(process: int, session: int) -> str:
    """The id of a writer's session."""
    return f"w{process}-s{session}"


def token(process: int, session: int, number: int, life: int) -> str:
    """The mark of one patch. ``life`` tells a process from its replacement, which may write the same number again."""
    return f"{session_name(process, session)} patch {number}" + (f" again, life {life}" if life else "")


def patch(process: int, session: int, number: int, life: int) -> dict[str, Any]:
    """The arguments of one patch: places that all share, places a process shares, and places of the session alone."""
    mark = token(process, session, number, life)
    own: dict[str, Any] = {"progress": mark}
    if number % _OWN_KEY_EVERY == 0:
        own["done"] = {f"n{number}": mark}
    scopes: dict[str, Any] = {"session": {"working": own}}
    if number % 3 != 1:
        scopes["global"] = {"working": {"shared": {f"k{number % _SHARED_KEYS}": mark}}}
    if number % 3 != 2:
        scopes["cwd"] = {"working": {"last": mark, "board": {f"writer-{process}": mark}}}
    return scopes


def places(session: str, arguments: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Where a patch writes its token: the scope's name (a session goes by its id), then the keys."""
    for scope, planes in arguments.items():
        for keys in _leaves(planes):
            yield (session if scope == "session" else scope, *keys)


def _leaves(value: Any) -> Iterator[tuple[str, ...]]:
    if not isinstance(value, dict):
        yield ()
        return
    for key, item in value.items():
        for rest in _leaves(item):
            yield (key, *rest)
