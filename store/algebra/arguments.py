"""The shape of the two tools' arguments, checked before anything is read, waited for or stored (T7 to T10, T33).

The checks of a patch run in rows. Each row looks at all supplied scopes before the next row begins, so which fault is
reported does not depend on the order of members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NoReturn

import attrs

from .cards import authored_runtime_member
from .errors import SHOWN_CHARS_MAX, CallError, ReadError, shown
from .history import SCOPES, ScopeName
from .merge import Json
from .planes import AUTHORABLE
from .values import detach_checked

Projection = Literal["value", "keys", "patch"]
PROJECTIONS: tuple[Projection, ...] = ("value", "keys", "patch")


def check_patch_arguments(arguments: Any) -> dict[ScopeName, Json]:
    """The patches of a ``patch_state`` call by scope, in the order global, cwd, session, as copies of their own.

    Rows 5 to 9, then 12 to 15 of T9; what is left needs the state.

    Raises:
      CallError: E_SHAPE, E_FIELD, E_SCOPE_SHAPE, E_SCOPE_EMPTY, E_NO_SCOPE, E_JSON, E_PLANE, E_PLANE_SHAPE or
        E_PROVENANCE.
    """
    if not isinstance(arguments, dict):
        raise CallError("E_SHAPE", f"patch_state takes an object of scopes, not {shown(arguments)}")
    for member in arguments:
        if not isinstance(member, str) or member not in SCOPES:
            raise CallError(
                "E_FIELD", f"{shown(member)} is not a scope; give global, cwd or session", member=_name(member)
            )
    given = [(scope, arguments[scope]) for scope in SCOPES if scope in arguments]
    for scope, patch in given:
        if not isinstance(patch, dict):
            raise CallError("E_SCOPE_SHAPE", f"{scope} must be an object of planes, not {shown(patch)}", scope=scope)
    for scope, patch in given:
        if not patch:
            raise CallError("E_SCOPE_EMPTY", f"{scope} is empty; leave it out", scope=scope)
    if not given:
        raise CallError("E_NO_SCOPE", "no scope is given; give at least one of global, cwd, session")
    if type(arguments) is not dict or any(type(member) is not str for member in arguments):
        raise CallError(
            "E_JSON", "the arguments are no plain JSON object", pointer="", reason="a subclass of dict or str"
        )
    patches = {scope: detach_checked(patch, allow_null=True, pointer=f"/{scope}") for scope, patch in given}
    _check_planes(patches)
    return patches


def _check_planes(patches: dict[ScopeName, Json]) -> None:
    for scope, plane, _ in _planes(patches):
        if plane not in AUTHORABLE:
            raise CallError(
                "E_PLANE",
                f"{shown(plane)} in {scope} is not a plane; allowed are {', '.join(AUTHORABLE)}",
                scope=scope,
                plane=_name(plane),
            )
    for scope, plane, content in _planes(patches):
        if type(content) is not dict:
            raise CallError(
                "E_PLANE_SHAPE",
                f"{scope}.{plane} must be an object, not {shown(content)}; delete its keys one by one",
                scope=scope,
                plane=plane,
            )
    for scope, patch in patches.items():
        found = authored_runtime_member(patch)
        if found is not None:
            path, member = found
            raise CallError(
                "E_PROVENANCE",
                f"{member} of {scope}.artifacts[{shown(path)}] belongs to the runtime; leave it out",
                scope=scope,
                path=path,
                member=member,
            )


def _name(key: object) -> str:
    """A key for the data of an error: itself, unless it is so long that it would be a burden."""
    return key[:SHOWN_CHARS_MAX] if type(key) is str else shown(key)


def _planes(patches: dict[ScopeName, Json]) -> Iterator[tuple[ScopeName, str, Any]]:
    for scope, patch in patches.items():
        for plane, content in patch.items():
            yield scope, plane, content


@attrs.frozen
class ReadRequest:
    """Checked arguments of ``read_state``: at least one path, not parsed yet."""

    paths: tuple[str, ...]
    projection: Projection


def check_read_arguments(arguments: Any) -> ReadRequest:
    """The request in the arguments of ``read_state`` (T33).

    Raises:
      ReadError: E_READ_SHAPE.
    """
    if type(arguments) is not dict:
        _refuse(f"read_state takes an object, not {shown(arguments)}")
    for member in arguments:
        if member not in ("path", "paths", "projection"):
            _refuse(f"{shown(member)} is not a member; give path or paths, and projection if you like")
    projection = arguments.get("projection", "value")
    if type(projection) is not str or projection not in PROJECTIONS:
        _refuse(f"projection is one of {', '.join(PROJECTIONS)}, not {shown(projection)}")
    if ("path" in arguments) == ("paths" in arguments):
        _refuse("give either path or paths")
    paths = [arguments["path"]] if "path" in arguments else arguments["paths"]
    if type(paths) is not list or not paths or any(type(path) is not str for path in paths):
        _refuse("path is a string, paths an array of at least one string")
    return ReadRequest(tuple(paths), projection)


def _refuse(reason: str) -> NoReturn:
    raise ReadError("E_READ_SHAPE", reason)
