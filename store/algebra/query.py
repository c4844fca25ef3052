"""Reading: one call, one view, any number of paths.

A view is what one reader may see at one moment: the scopes of its session and its history. A call is evaluated on one
view only, changes nothing and never waits. Paths are parsed first, all of them, then evaluated in request order; the
first failure is the answer of the whole call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from .arguments import Projection, ReadRequest, check_read_arguments
from .errors import ReadError, StrataflowError
from .hints import dangling_hint
from .history import HISTORY_LIMIT_DEFAULT, SCOPES, Boundary, ScopeName, ScopeState
from .merge import Json
from .past import Past
from .paths import ReadPath, parse_path
from .selection import keys_of, select, select_value
from .values import detach


@attrs.frozen
class View:
    """What one session can read.

    Attributes:
      scopes: every scope that can be read.
      history: gives the visible boundaries, oldest first, the head last; asked only when a path needs the past.
      limit: the history limit, 0…100.
      unreadable: the others, with the reason. A path that looks at one fails with it, and so does the effective view:
        what the scope held before, beside what the others hold now, was there at no moment.
    """

    scopes: Mapping[ScopeName, ScopeState]
    history: Callable[[], tuple[Boundary, ...]]
    limit: int = HISTORY_LIMIT_DEFAULT
    unreadable: Mapping[ScopeName, StrataflowError] = attrs.field(factory=dict)

    def states(self, path: ReadPath) -> tuple[ScopeState, ...]:
        """The scopes that ``path`` looks at, broadest first; raises the reason why one of them cannot be read."""
        names = SCOPES if path.root == "effective" else (path.root,)
        for name in names:
            if name in self.unreadable:
                _raise_again(self.unreadable[name])
        return tuple(self.scopes[name] for name in names)


def _raise_again(error: StrataflowError) -> None:
    # A copy: one error object raised for every reader would collect their tracebacks.
    raise type(error)(error.code, error.message, **error.data) from error


@attrs.frozen
class ReadResult:
    """The answer to one read. Which attributes count is decided by ``projection``; several paths give lists.

    Attributes:
      transition_id: for ``<scope>.patches[k]``, the transition that made the record.
    """

    projection: Literal["value", "keys", "patch"]
    value: Any = None
    keys: Any = None
    meta: Any = None
    patch: Any = None
    hint: Any = None
    transition_id: str | None = None

    def to_json(self) -> Json:
        """Exactly the members a caller of the tool sees (T37, T57). Shares containers with this result."""
        if self.projection == "keys":
            return {"meta": self.meta, "keys": self.keys}
        if self.projection == "patch":
            return {"patch": self.patch}
        return {"value": self.value} if self.hint is None else {"value": self.value, "hint": self.hint}


def read(view: View, arguments: Any) -> ReadResult:
    """Evaluate the arguments of ``read_state`` (T33). What comes back is the caller's own.

    Raises:
      ReadError: the arguments, a path, or what it names.
      StrataflowError: the reason why a scope that is needed cannot be read.
    """
    result = read_shared(view, arguments)
    return attrs.evolve(result, value=detach(result.value), keys=detach(result.keys), patch=detach(result.patch))


def read_shared(view: View, arguments: Any) -> ReadResult:
    """As ``read`` without the copy: the result shares containers with the view. To be serialised, not handed out."""
    request = check_read_arguments(arguments)
    paths = [parse_path(text) for text in request.paths]
    if len(paths) == 1:
        return _read_one(view, paths[0], request)
    if request.projection == "value":
        return ReadResult("value", value=[_value(view, path) for path in paths])
    if request.projection == "patch":
        return ReadResult("patch", patch=[Past(view, path).patch() for path in paths])
    described = [keys_of(_existing(view, path)) for path in paths]
    return ReadResult("keys", meta=[meta for meta, _ in described], keys=[keys for _, keys in described])


def _read_one(view: View, path: ReadPath, request: ReadRequest) -> ReadResult:
    try:
        return look(view, path, request.projection)
    except ReadError as error:
        hint = hint_for(view, path, request.projection, error)
        if hint is None:
            raise
        return hint


def look(view: View, path: ReadPath, projection: Projection) -> ReadResult:
    """What one path shows, and nothing else: what does not exist is an error, whoever mentions it."""
    if path.record_index is not None:
        if projection != "value":
            raise ReadError("E_READ_SHAPE", "a stored record has no projection; leave it out", path=path.text)
        record = Past(view, path).record(path.record_index)
        return ReadResult("patch", patch=record.patch, transition_id=record.boundary.id)
    if projection == "patch":
        return ReadResult("patch", patch=Past(view, path).patch())
    if projection == "keys":
        meta, keys = keys_of(_existing(view, path))
        return ReadResult("keys", meta=meta, keys=keys)
    return ReadResult("value", value=_value(view, path))


def hint_for(view: View, path: ReadPath, projection: Projection, error: ReadError) -> ReadResult | None:
    """The answer in place of ``error``, with which ``look`` ended, if the present memory mentions the path (T56)."""
    if projection != "value" or error.code not in ("E_MISSING", "E_RANGE"):
        return None
    hint = dangling_hint(view.scopes, path)
    return None if hint is None else ReadResult("value", value=None, hint=[hint])


def _value(view: View, path: ReadPath) -> Any:
    return select_value(path, _scope_values(view, path))


def _existing(view: View, path: ReadPath) -> Any:
    return select(path, _scope_values(view, path))


def _scope_values(view: View, path: ReadPath) -> list[Json]:
    if path.offset == 0:
        return [state.value for state in view.states(path)]
    return Past(view, path).values()
