"""A journal row: one accepted change of the store, as data (J2).

A row is written once. Its columns are what the journal itself asks about; everything else is in ``body``, a JSON
object whose unknown members are kept::

    {"boundary": {id, parent, position},                       transitions and origins
     "scopes":   {"cwd": {"record": {…} or null, "revision": 7, "floor": 12,
                          "copy": {base, boundary, tail, evidence, pruned}   a fork: the parent's private scope
                          "base": {boundary}                   the scope began to exist with this row
                          "evidence": {…}}},                   the scope's whole evidence, where it changed
     "run":      {"mode", "step", "bootstrap", "specification"},
     "lineage":  {"known": [{boundary}], "since": 11}}         where the session's history begins, when that is new

A row of kind ``superseded`` has ``{"superseded": "--srv--", "lineage": {…}}`` instead: every part of older rows for
that scope gave way to foreign bytes, and its sessions' histories begin anew at that boundary (J6).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from .algebra import SCOPES, Boundary, Json, Lineage, ScopeName, ScopeState, StoreError, TailRecord, replay
from .codec import compact, decode
from .documents import RunRecord, boundary_json
from .layout import SessionAddress

RowKind = Literal["transition", "lifecycle", "evidence", "origin", "fork", "superseded"]
Durability = Literal["power", "process"]


@attrs.frozen
class ScopePart:
    """What a row did to one scope. ``record`` None: its memory did not change (it was created, or evidence came)."""

    record: Json | None
    revision: int
    floor: int
    base: Boundary | None = None
    evidence: Mapping[str, Any] | None = None
    # A fork: the whole scope, as the parent had it.
    copied: ScopeState | None = None

    def to_json(self) -> Json:
        """The member of ``body["scopes"]``."""
        part: Json = {"record": self.record, "revision": self.revision, "floor": self.floor}
        if self.base is not None:
            part["base"] = boundary_json(self.base)
        if self.evidence is not None:
            part["evidence"] = dict(self.evidence)
        if self.copied is not None:
            part["copy"] = _copy_json(self.copied)
        return part


@attrs.frozen
class NewRow:
    """A row that is not in the journal yet. Times are epoch milliseconds."""

    writer: str
    kind: RowKind
    time_ms: int
    level: Durability
    address: SessionAddress | None
    # The store's counter after this row: no boundary so far stands higher (Ours-15).
    position: int
    boundary: Boundary | None = None
    parts: Mapping[ScopeName, ScopePart] = attrs.field(factory=dict)
    run: RunRecord | None = None
    lineage: Lineage | None = None
    transition_id: str | None = None
    request_id: str | None = None
    more: Mapping[str, Any] = attrs.field(factory=dict)

    def columns(self, seq: int) -> tuple[Any, ...]:
        """The values of the columns, in the order of the table."""
        address = self.address
        return (
            seq,
            self.writer,
            self.kind,
            self.time_ms,
            self.level,
            address.cwd if address else None,
            address.session_id if address else None,
            address.key if address else None,
            self.transition_id,
            self.request_id,
            self.position,
            None,
            compact(self._body()),
            compact(sorted(self.touches())),
        )

    def _body(self) -> Json:
        body: Json = dict(self.more)
        if self.boundary is not None:
            body["boundary"] = boundary_json(self.boundary)
        if self.parts:
            body["scopes"] = {name: part.to_json() for name, part in self.parts.items()}
        if self.run is not None:
            run = self.run
            # Written out: attrs.asdict costs ten times as much, and this is on the way of every commit.
            body["run"] = {
                "mode": run.mode,
                "step": run.step,
                "bootstrap": run.bootstrap,
                "specification": run.specification,
            }
        if self.lineage is not None:
            body["lineage"] = lineage_json(self.lineage)
        return body

    def touches(self, superseded: frozenset[ScopeName] = frozenset()) -> set[str]:
        """The folders of all scopes that this row says something of, a session's run record and lineage included."""
        address = self.address
        if address is None:
            return set()
        scopes = {address.scope(name) for name in self.parts if name not in superseded}
        if (self.run is not None or self.lineage is not None) and "session" not in superseded:
            scopes.add(address.scope("session"))
        return scopes

    def at(self, seq: int, superseded: frozenset[ScopeName] = frozenset()) -> Row:
        """This row as it stands in the journal."""
        row = Row(seq, self.writer, self.kind, self.level, self.position, superseded)
        row._content, row._touched = self, frozenset(self.touches(superseded))
        return row


@attrs.define(eq=False)
class Row:
    """A row of the journal. ``superseded`` names the scopes whose part gave way to foreign bytes.

    What followers ask of every row are columns of their own; the rest is decoded when somebody needs it. With many
    processes most rows concern scopes that most of them have not loaded.
    """

    seq: int
    writer: str
    kind: RowKind
    level: Durability
    position: int
    superseded: frozenset[ScopeName] = frozenset()
    _columns: tuple[Any, ...] = attrs.field(default=(), repr=False)
    _content: NewRow | None = attrs.field(default=None, init=False)
    _touched: frozenset[str] | None = attrs.field(default=None, init=False)

    @property
    def content(self) -> NewRow:
        """Everything it says.

        Raises:
          StoreError: E_CORRUPT if that is no longer to be read.
        """
        if self._content is None:
            try:
                self._content = _decoded(self._columns)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                text = f"row {self.seq} of the journal can not be read ({error}); `strataflow doctor` tells more"
                raise StoreError("E_CORRUPT", text, seq=self.seq) from error
            self._columns = ()
        return self._content

    def scopes(self) -> dict[str, ScopePart]:
        """The parts in force, by scope folder."""
        address = self.content.address
        if address is None:
            return {}
        return {address.scope(name): part for name, part in self.content.parts.items() if name not in self.superseded}

    def touches(self) -> frozenset[str]:
        """The folders of all scopes that this row says something of, a session's run record and lineage included."""
        if self._touched is None:
            self._touched = frozenset(self.content.touches(self.superseded))
        return self._touched

    def changes_files_of(self, scope: str) -> bool:
        """Whether this row changes the scope's files, and does not merely place a session in history."""
        return scope in self.scopes() or (self.content.run is not None and scope in self.touches())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return (self.seq, self.superseded, self.content) == (other.seq, other.superseded, other.content)


def row_from(columns: tuple[Any, ...]) -> Row:
    """A row as the journal returned it (in the order of ``NewRow.columns``)."""
    superseded, scopes = columns[11], columns[13]
    row = Row(
        columns[0],
        columns[1],
        columns[2],
        columns[4],
        columns[10],
        frozenset(decode(superseded)) if superseded else frozenset(),
        columns,
    )
    if not superseded:
        row._touched = _folders(scopes)
    return row


@functools.lru_cache(4096)
def _folders(scopes: str) -> frozenset[str]:
    return frozenset(decode(scopes))


def _decoded(columns: tuple[Any, ...]) -> NewRow:
    (_, writer, kind, time_ms, level, cwd, session_id, key, transition_id, request_id, position, _, body, _) = columns
    document = decode(body)
    boundary, run, lineage = document.pop("boundary", None), document.pop("run", None), document.pop("lineage", None)
    parts = document.pop("scopes", {})
    return NewRow(
        writer=writer,
        kind=kind,
        time_ms=time_ms,
        level=level,
        address=SessionAddress(cwd, session_id, key) if cwd is not None else None,
        position=position,
        boundary=_boundary(boundary) if boundary else None,
        parts={name: _part(parts[name]) for name in SCOPES if name in parts},
        run=RunRecord(run["mode"], run["step"], run["bootstrap"], run["specification"]) if run else None,
        lineage=lineage_from(lineage) if lineage else None,
        transition_id=transition_id,
        request_id=request_id,
        more=document,
    )


def _boundary(document: Json) -> Boundary:
    return Boundary(document["id"], document["parent"], document["position"])


def _copy_json(state: ScopeState) -> Json:
    return {
        "base": state.base,
        "boundary": boundary_json(state.base_boundary),
        "tail": [{"boundary": boundary_json(record.boundary), "patch": record.patch} for record in state.tail],
        "evidence": dict(state.evidence),
        "pruned": state.is_pruned,
    }


def _copied(document: Json, revision: int, floor: int) -> ScopeState:
    tail = tuple(TailRecord(_boundary(item["boundary"]), item["patch"]) for item in document["tail"])
    value = document["base"]
    for record in tail:
        value = replay(value, record.patch)
    base, boundary = document["base"], _boundary(document["boundary"])
    return ScopeState(value, revision, base, boundary, tail, document["evidence"], document["pruned"], floor)


def _part(document: Json) -> ScopePart:
    base, copied = document.get("base"), document.get("copy")
    return ScopePart(
        record=document["record"],
        revision=document["revision"],
        floor=document["floor"],
        base=_boundary(base) if base else None,
        evidence=document.get("evidence"),
        copied=_copied(copied, document["revision"], document["floor"]) if copied else None,
    )


def lineage_json(lineage: Lineage) -> Json:
    """A lineage as the journal keeps it."""
    return {"known": [boundary_json(boundary) for boundary in lineage.known], "since": lineage.since}


def lineage_from(document: Json) -> Lineage:
    """The inverse of ``lineage_json``."""
    return Lineage(tuple(_boundary(item) for item in document["known"]), document["since"])
