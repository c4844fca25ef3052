"""Registered sources: the paths that cards name, and how a path that others spelled becomes one of them (A11)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from ..algebra import ScopeName, ScopeState


def registered_paths(scopes: Iterable[ScopeState] | Mapping[ScopeName, ScopeState]) -> list[str]:
    """The paths of all cards of these scopes, each once, sorted."""
    states = scopes.values() if isinstance(scopes, Mapping) else scopes
    return sorted({path for state in states for path in state.value.get("artifacts", ())})


def is_canonical(path: str) -> bool:
    """Whether a path is absolute and spelled in the one way that can be registered.

    Judged by its text alone: which folders on the way are links is not asked, since a home folder behind a link would
    then have no sources.
    """
    return path.startswith("/") and not path.startswith("//") and posixpath.normpath(path) == path and "\0" not in path


def resolved(cwd: str, path: str) -> str:
    """The canonical spelling of a path that a model or a host gave, seen from the working directory ``cwd``."""
    joined = posixpath.normpath(posixpath.join(cwd, path))
    return joined[1:] if joined.startswith("//") else joined
