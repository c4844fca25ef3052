"""Views and reads for tests of the pure algebra."""

from __future__ import annotations

from typing import Any

import pytest

from strataflow.store.algebra import Boundary, ReadError, ScopeState, View, read

Json = dict[str, Any]
ORIGIN = Boundary("origin", None, 1)


def scope(value: Json, **more: Any) -> ScopeState:
    """A scope that has no history."""
    return ScopeState(value=value, revision=0, base=value, base_boundary=ORIGIN, **more)


def view(global_: Json | None = None, cwd: Json | None = None, session: Json | None = None) -> View:
    """A view of three scopes without history."""
    scopes = {"global": scope(global_ or {}), "cwd": scope(cwd or {}), "session": scope(session or {})}
    return View(scopes, lambda: (ORIGIN,))  # type: ignore[arg-type]


def ask(seen: View, path: str | list[str], projection: str = "value") -> Json:
    """What one read answers."""
    return read(seen, {"path" if isinstance(path, str) else "paths": path, "projection": projection}).to_json()


def code(seen: View, path: str | list[str], projection: str = "value") -> str:
    """The code with which a read is refused."""
    with pytest.raises(ReadError) as caught:
        ask(seen, path, projection)
    return caught.value.code
