"""Conflicts as errors: where a patch was refused, what the error says, and who did it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from .algebra import (
    KEY_GRAMMAR,
    ChangedBy,
    Conflict,
    ConflictError,
    Json,
    ReadPath,
    ScopeName,
    StrataflowError,
    detach,
    may_change,
    parse_path,
    shown,
    touches,
)
from .journal_types import Journal
from .layout import SessionAddress
from .rows import Row

# The error's text names this many paths; its data has all of them.
_NAMED_MAX = 3
_KEY = re.compile(KEY_GRAMMAR)


def place_of(error: StrataflowError, patches: dict[ScopeName, Json]) -> str:
    """The read path of what refused a patch, or of its nearest place above that a path can name."""
    pointer = error.data.get("pointer")
    if type(pointer) is not str or not pointer:
        scope = error.data.get("scope") or next(iter(patches))
        return f"{scope}.artifacts" if error.code == "E_ARTIFACT" else str(scope)
    scope, *keys = pointer[1:].split("/")
    place = scope
    for key in keys:
        if not _KEY.fullmatch(key):
            break
        place += f".{key}"
    return place


def conflict_error(conflicts: Sequence[Conflict]) -> ConflictError:
    """The error of a transaction. Its values are shared with memory; ``explained`` makes it fit for handing out."""
    paths = list(dict.fromkeys(conflict.path for conflict in conflicts))
    named = ", ".join(shown(path) for path in paths[:_NAMED_MAX])
    more = f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else ""
    text = f"changed since the transaction read it: {named}{more}; nothing was stored, run it again"
    return ConflictError("E_CONFLICT", text, conflicts=[conflict.to_json() for conflict in conflicts])


def explained(error: ConflictError, journal: Journal, address: SessionAddress, after: int) -> ConflictError:
    """The error with values of its own, and with the newest transition after row ``after`` that each path owes its
    change to. Reads the journal: for a worker thread, and for errors that somebody will see.

    Raises:
      StoreError: the journal can not be read.
    """
    rows: list[tuple[ScopeName, Row]] = []
    for name, scope in address.scopes():
        rows += [(name, row) for row in journal.rows_of(scope, after)]
    rows.sort(key=lambda item: item[1].seq, reverse=True)
    conflicts = [
        attrs.evolve(
            conflict,
            read=detach(conflict.read),
            now=detach(conflict.now),
            transition=_changed_by(parse_path(conflict.path), rows),
        )
        for conflict in error.conflicts
    ]
    data: dict[str, Any] = {**error.data, "conflicts": [conflict.to_json() for conflict in conflicts]}
    return ConflictError(error.code, error.message, **data)


def _changed_by(path: ReadPath, rows: Sequence[tuple[ScopeName, Row]]) -> ChangedBy | None:
    """The newest of the rows, which are newest first, that touched the path, or else uncovered something there."""
    for reaches in (touches, may_change):
        for name, row in rows:
            content = row.content
            part = content.parts.get(name)
            if part is None or part.record is None or content.address is None or content.transition_id is None:
                continue
            if reaches(path, name, part.record):
                return ChangedBy(
                    transition_id=content.transition_id,
                    seq=row.seq,
                    time_ms=content.time_ms,
                    cwd=content.address.cwd,
                    session=content.address.session_id,
                    request_id=content.request_id,
                )
    return None
