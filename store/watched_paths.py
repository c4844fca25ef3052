"""Paths that somebody watches: what was told of them last, and what has changed since.

::

    told --a row or a reload that may concern it--> suspect --reads the same--> told
                                                       +------ reads otherwise, asked for --> told

A suspect path is only a name beside the row that made it suspect. Whether it has changed is found out when somebody
asks, by reading it in the present root and comparing that with what was told last. So changes between two questions
become one, one that was undone becomes none, and nothing grows while nobody asks.

Invariants:
  K1  A path whose reading differs from what was told is suspect.
  K2  A change is told only of paths that read otherwise than they did when they were told last.
  K3  Everything kept is one reading and at most one cause for each path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from .algebra import (
    PLANES,
    SCOPES,
    ChangedBy,
    Json,
    ReadError,
    ReadPath,
    ScopeName,
    StoreError,
    StrataflowError,
    View,
    look,
    looks_at,
    may_change,
    parse_path,
    same,
    touches,
)
from .layout import SessionAddress
from .rows import NewRow, Row

# What is watched where no path is given: every plane of every scope, by a path that can be read.
ALL_PLANES = tuple(f"{scope}.{plane}" for scope in SCOPES for plane in PLANES)

# Reads end with these where there is nothing; with any other code the path itself can not be watched.
_NOTHING_THERE = ("E_MISSING", "E_KIND", "E_RANGE", "E_HISTORY_ORIGIN")


@attrs.frozen
class Change:
    """Paths that read otherwise than before.

    Attributes:
      scope: whose change it was: "global", "cwd" or "session".
      paths: what changed of the watched paths, as they were given.
      revision: the revision vector of the session when this was told, such as ``"g15c8s31"``.
      transition: the newest transition that changed one of the paths, and who made it; None if it was none, as where
        another program wrote the files, or if it is no longer known.
    """

    scope: ScopeName
    paths: tuple[str, ...]
    revision: str
    transition: ChangedBy | None

    @property
    def transition_id(self) -> str | None:
        """The id of the transition."""
        return self.transition.transition_id if self.transition else None

    def to_json(self) -> Json:
        """The change as one object."""
        return {
            "scope": self.scope,
            "paths": list(self.paths),
            "revision": self.revision,
            "transition": attrs.asdict(self.transition) if self.transition else None,
        }


@attrs.frozen
class Reading:
    """What a path gives: a value, nothing, or an error. ``value`` is shared with memory: look, do not change."""

    is_there: bool
    value: Any = None
    error: StrataflowError | None = None

    def is_same(self, other: Reading) -> bool:
        """Whether both are the same value, both nothing, or errors of the same kind."""
        codes = [reading.error and reading.error.code for reading in (self, other)]
        return codes[0] == codes[1] and self.is_there == other.is_there and same(self.value, other.value)


def reading(view: View, path: ReadPath) -> Reading:
    """What ``path`` gives in ``view``.

    Raises:
      ReadError: E_READ_SHAPE, E_HISTORY_RANGE: no view will ever give anything there.
    """
    try:
        result = look(view, path, "value")
    except ReadError as error:
        if error.code not in _NOTHING_THERE:
            raise
        return Reading(False)
    except StrataflowError as error:
        return Reading(False, error=error)
    return Reading(True, result.value if result.projection == "value" else result.patch)


@attrs.frozen
class _Cause:
    """Why a path is suspect. ``is_sure``: the row changed something there, and did not only perhaps uncover it."""

    scope: ScopeName
    transition: ChangedBy | None
    is_sure: bool


@attrs.define(eq=False)
class WatchedPaths:
    """The paths of one watcher. ``view`` is the root from which on changes count."""

    _paths: dict[str, ReadPath]
    _told: dict[str, Reading]
    # The paths that a scope can matter to, by its folder and name.
    _concerned: dict[str, tuple[ScopeName, list[tuple[str, ReadPath]]]] = attrs.field(factory=dict, init=False)
    # In the order in which paths became suspect: who waits longest is told first.
    _suspect: dict[str, _Cause] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, texts: Sequence[str], address: SessionAddress, view: View) -> WatchedPaths:
        """Watch these paths as a session reads them.

        Raises:
          ReadError: one of them is no path, or none that could ever give anything.
        """
        paths = {text: parse_path(text) for text in texts or ALL_PLANES}
        watched = cls(paths, {text: reading(view, path) for text, path in paths.items()})
        watched.place(address)
        return watched

    def place(self, address: SessionAddress) -> None:
        """The session's scopes lie there from now on."""
        self._concerned = {
            scope: (name, [(text, path) for text, path in self._paths.items() if looks_at(path, name)])
            for name, scope in address.scopes()
        }

    def told(self, text: str) -> Reading:
        """What was told of a path last, or what it was in the beginning."""
        return self._told[text]

    def note(self, scope: str, row: Row | None) -> bool:
        """A scope has changed, by ``row`` or because it was read anew. Returns whether a path is suspect now. (K1)

        Quick and without an error, whatever the row is: called in the middle of publishing. Of one row the narrowest
        scope must come last: what it says hides what broader scopes say.
        """
        name, paths = self._concerned.get(scope) or ("global", [])
        content = _content(row)
        record = _record(row, content, name) if row and content else None
        for text, path in paths:
            if row is None or content is None:
                self._suspect[text] = _Cause(name, None, True)
            elif record is None:
                # Nothing but where histories begin.
                if path.offset:
                    self._put(text, _Cause(name, _made_by(row, content), False))
            elif may_change(path, name, record):
                self._put(text, _Cause(name, _made_by(row, content), touches(path, name, record)))
        return bool(self._suspect)

    def _put(self, text: str, cause: _Cause) -> None:
        old = self._suspect.get(text)
        if cause.is_sure or old is None or not old.is_sure:
            self._suspect[text] = cause

    def note_all(self) -> None:
        """Everything may have changed."""
        for text, path in self._paths.items():
            self._suspect[text] = _Cause("session" if path.root == "effective" else path.root, None, True)

    def next_change(self, view: View, revision: str) -> Change | None:
        """The oldest change that was not told, with all that changed in the same scope; None if there is none. (K2)"""
        found: set[str] = set()
        scope: ScopeName | None = None
        newest: ChangedBy | None = None
        for text, cause in list(self._suspect.items()):
            if scope not in (None, cause.scope):
                continue
            now = reading(view, self._paths[text])
            del self._suspect[text]
            if now.is_same(self._told[text]):
                continue
            scope, self._told[text] = cause.scope, now
            found.add(text)
            if newest is None or (cause.transition is not None and cause.transition.seq > newest.seq):
                newest = cause.transition
        return (
            None if scope is None else Change(scope, tuple(filter(found.__contains__, self._paths)), revision, newest)
        )


def _content(row: Row | None) -> NewRow | None:
    """What a row says; None where there is no row, or one that can not be read."""
    try:
        return row.content if row else None
    except StoreError:
        return None


def _record(row: Row, content: NewRow, name: ScopeName) -> Json | None:
    part = None if name in row.superseded else content.parts.get(name)
    return part.record if part else None


def _made_by(row: Row, content: NewRow) -> ChangedBy | None:
    address = content.address
    if content.transition_id is None or address is None:
        return None
    return ChangedBy(
        content.transition_id, row.seq, content.time_ms, address.cwd, address.session_id, content.request_id
    )
