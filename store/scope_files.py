"""A scope's files as bytes, and what they say: from disk to ``ScopeState`` and back (store 1.4 to 1.7).

The pair ``checkpoint.json`` and ``patches.jsonl`` holds memory, ``meta.json`` tells at which boundaries; a session has
``config.json`` and ``runtime.json`` besides. Encoding gives the bytes of a whole scope; what does not differ from the
disk is not replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import attrs

from .algebra import (
    HISTORY_LIMIT_MAX,
    Boundary,
    Json,
    ScopeName,
    ScopeState,
    StoreError,
    TailRecord,
    check_materialised,
    known_planes,
    prune,
    replay,
    shown,
)
from .codec import canonical, identity
from .documents import (
    Meta,
    RunRecord,
    Runtime,
    config_bytes,
    corrupt,
    meta_from,
    mode_from,
    parse_file,
    runtime_bytes,
    runtime_from,
)
from .layout import (
    CHECKPOINT,
    CONFIG,
    META,
    OLD_STATE,
    PATCHES,
    RUNTIME,
    Layout,
    SessionAddress,
    scope_files,
    scope_kind,
)
from .ports import Disk

Identity = Mapping[str, str]


@attrs.frozen
class RawScope:
    """The bytes of a scope's files as one look at the disk found them; None for a file that is not there."""

    scope: str
    files: Mapping[str, bytes | None]

    @property
    def identity(self) -> dict[str, str]:
        """What these bytes are, file by file (store 1.9.1)."""
        return {name: identity(data) for name, data in self.files.items()}

    @property
    def is_absent(self) -> bool:
        """No authority here: a shared scope without its pair, or a session without any of its files (store 1.10).

        A stale ``meta.json`` alone does not make a shared scope.
        """
        names = self.files if scope_kind(self.scope) == "session" else (CHECKPOINT, PATCHES)
        return all(self.files[name] is None for name in names)


def read_scope(disk: Disk, layout: Layout, scope: str) -> RawScope:
    """Read all files of a scope. Unreadable is an error, never missing (Ours-13)."""
    return RawScope(scope, {name: disk.read(layout.file(scope, name)) for name in scope_files(scope)})


@attrs.frozen
class DecodedScope:
    """What a scope's files say. ``session`` is None for shared scopes."""

    state: ScopeState
    foreign_meta: Mapping[str, Any]
    session: Runtime | None = None


def decode_scope(
    layout: Layout, raw: RawScope, *, cwd: str | None, session_id: str | None = None
) -> DecodedScope | None:
    """Read a scope, or None if it is absent.

    Args:
      cwd: the directory that must own a cwd scope or session; None for global.
      session_id: the id a session's files must name; None accepts any.

    Raises:
      StoreError: E_CORRUPT for partial, malformed or contradictory files, E_UNSUPPORTED for formats of others.
    """
    if raw.is_absent:
        return None
    kind = scope_kind(raw.scope)
    path = {name: layout.file(raw.scope, name) for name in raw.files}
    pair = raw.files[CHECKPOINT], raw.files[PATCHES]
    for name in (CHECKPOINT, PATCHES, *((CONFIG, RUNTIME) if kind == "session" else ())):
        if raw.files[name] is None:
            corrupt(path[name], "is missing beside the other files of its scope (incomplete)")
    checkpoint, patches = pair
    assert checkpoint is not None
    assert patches is not None
    meta = meta_from(path[META], raw.files[META], owner_cwd=cwd if kind == "cwd" else None)
    state = _decode_memory(path, kind, meta, checkpoint, patches)
    session = None
    if kind == "session":
        config, runtime = raw.files[CONFIG], raw.files[RUNTIME]
        assert cwd is not None
        assert config is not None
        assert runtime is not None
        mode = mode_from(path[CONFIG], config)
        session = runtime_from(path[RUNTIME], runtime, mode=mode, cwd=cwd, session_id=session_id)
        _check_own_lineage(path[RUNTIME], state, session.lineage)
    return DecodedScope(state, meta.foreign, session)


def _decode_memory(
    path: Mapping[str, str], kind: ScopeName, meta: Meta, checkpoint: bytes, patches: bytes
) -> ScopeState:
    base = parse_file(path[CHECKPOINT], checkpoint)
    if type(base) is not dict:
        corrupt(path[CHECKPOINT], "must be a JSON object")
    base = known_planes(base)
    _check_memory(path[CHECKPOINT], base, kind)
    lines = [(number, line) for number, line in enumerate(patches.split(b"\n"), 1) if line.strip()]
    if len(lines) > HISTORY_LIMIT_MAX:
        corrupt(path[PATCHES], f"holds {len(lines)} patches; at most {HISTORY_LIMIT_MAX} are accepted")
    # Before the count: half a line at the end makes it wrong too, and the line says more (store 1.10).
    records = [_record(path[PATCHES], kind, number, line) for number, line in lines]
    if len(records) != len(meta.patches):
        corrupt(path[META], f"names {len(meta.patches)} boundaries for {len(records)} patches")
    _check_chain(path[META], (meta.checkpoint, *meta.patches))
    value = base
    for record in records:
        value = replay(value, record)
    _check_memory(path[PATCHES], value, kind)
    return ScopeState(
        value=value,
        revision=meta.revision,
        base=base,
        base_boundary=meta.checkpoint,
        tail=tuple(map(TailRecord, meta.patches, records)),
        evidence=meta.evidence,
        is_pruned=prune(value) is value,
        floor=meta.checkpoint.position,
    )


def _record(path: str, kind: ScopeName, number: int, line: bytes) -> Json:
    """One line of the tail; ``number`` counts from 1 (store 1.4.6, 1.4.8)."""
    record = parse_file(path, line, line=number)
    if type(record) is not dict:
        corrupt(path, f"line {number}: must be a JSON object", line=number)
    if kind != "session" and "response" in record:
        corrupt(path, f"line {number}: only a session may hold a response", line=number)
    return known_planes(record)


def _check_memory(path: str, value: Json, kind: ScopeName) -> None:
    try:
        check_materialised(value, kind)
    except StoreError as error:
        raise StoreError(error.code, f"{path}: {error.message}", path=path, **error.data) from None


def _check_chain(path: str, chain: tuple[Boundary, ...]) -> None:
    """Store 1.5.4: positions grow, ids are unique, and neighbours in position are parent and child."""
    if len({boundary.id for boundary in chain}) != len(chain):
        corrupt(path, "a boundary id stands twice")
    for older, newer in pairwise(chain):
        if newer.position <= older.position:
            corrupt(path, f"positions do not grow at boundary {shown(newer.id)}")
        if newer.position == older.position + 1 and newer.parent != older.id:
            corrupt(path, f"boundary {shown(newer.id)} is disconnected from the one before it")


def _check_own_lineage(path: str, state: ScopeState, lineage: tuple[Boundary, ...]) -> None:
    """Store 3.6.9 and 3.6.10: a session's own stream must agree with its lineage."""
    first, head = lineage[0], lineage[-1]
    if state.base_boundary.position > first.position:
        corrupt(path, "the session's checkpoint is newer than its oldest boundary (disconnected lineage)")
    known = {boundary.position: boundary for boundary in lineage}
    for boundary in (state.base_boundary, *(record.boundary for record in state.tail)):
        if boundary.position > head.position:
            corrupt(path, f"boundary {shown(boundary.id)} is newer than the head (conflicting lineage)")
        if boundary.position >= first.position and known[boundary.position].id != boundary.id:
            corrupt(path, f"position {boundary.position} means two boundaries (conflicting lineage)")


def check_lineage_covered(path: str, lineage: tuple[Boundary, ...], scopes: Mapping[str, ScopeState]) -> None:
    """Store 3.6.9: every boundary after the first must have changed at least one of the session's scopes."""
    changed = {r.boundary.id for state in scopes.values() for r in state.tail}
    changed |= {state.base_boundary.id for state in scopes.values()}
    for boundary in lineage[1:]:
        if boundary.id not in changed:
            corrupt(path, f"boundary {shown(boundary.id)} changed nothing (disconnected lineage)")


def encode_scope(state: ScopeState, *, owner_cwd: str | None, foreign_meta: Mapping[str, Any]) -> dict[str, bytes]:
    """The three files of a scope's memory, canonical."""
    folded = state.fold(state.floor)
    meta = Meta(
        checkpoint=folded.base_boundary,
        patches=tuple(record.boundary for record in folded.tail),
        revision=folded.revision,
        evidence=folded.evidence,
        owner_cwd=owner_cwd,
        foreign=foreign_meta,
    )
    return {
        CHECKPOINT: canonical(folded.base),
        PATCHES: b"".join(canonical(record.patch) for record in folded.tail),
        META: meta.to_bytes(),
    }


def encode_session(run: RunRecord, lineage: tuple[Boundary, ...], address: SessionAddress) -> dict[str, bytes]:
    """The two private documents of a session (Ours-15: the longest legal lineage)."""
    return {
        CONFIG: config_bytes(run),
        RUNTIME: runtime_bytes(run, lineage, cwd=address.cwd, session_id=address.session_id),
    }


def legal_suffix(boundaries: tuple[Boundary, ...]) -> tuple[Boundary, ...]:
    """The longest end of a history that is a legal lineage on disk (store 1.7.2): no gaps, parent after child."""
    start = len(boundaries) - 1
    while start and (
        boundaries[start].position == boundaries[start - 1].position + 1
        and boundaries[start].parent == boundaries[start - 1].id
    ):
        start -= 1
    return boundaries[start:]


def refuse_old_state(disk: Disk, layout: Layout, scope: str) -> None:
    """Store 1.10: ``state.json`` of an old format blocks creation and writes in its folder; it is never read."""
    path = layout.file(scope, OLD_STATE)
    if disk.stat(path) is not None:
        raise StoreError("E_UNSUPPORTED", f"{path}: an old format; move it away before writing here", path=path)
