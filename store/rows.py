"""A journal row: one accepted change of the store, as data (J2).

A row is written once. Its columns are what the journal itself asks about; everything else is in ``body``, a JSON
object whose unknown members are kept::

    {"boundary": {id, parent, position},                       transitions and origins
     "scopes":   {"cwd": {"record": {…} or null, "revision": 7, "floor": 12,
                          "base": {boundary}                   the scope began to exist with this row
                          "evidence": {…}}},                   the scope's whole evidence, where it changed
     "run":      {"mode", "step", "bootstrap", "specification"},
     "lineage":  {"known": [{boundary}], "since": 11}}         where the session's history begins, when that is new

A row of kind ``superseded`` has ``{"superseded": "--srv--", "lineage": {…}}`` instead: every part of older rows for
that scope gave way to foreign bytes, and its sessions' histories begin anew at that boundary (J6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from .algebra import SCOPES, Boundary, Json, Lineage, ScopeName
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

    def to_json(self) -> Json:
        """The member of ``body["scopes"]``."""
        part: Json = {"record": self.record, "revision": self.revision, "floor": self.floor}
        if self.base is not None:
            part["base"] = boundary_json(self.base)
        if self.evidence is not None:
            part["evidence"] = dict(self.evidence)
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

    def at(self, seq: int) -> Row:
        """This row as it stands in the journal."""
        return Row(seq, self)


@attrs.frozen
class Row:
    """A row of the journal. ``superseded`` names the scopes whose part gave way to foreign bytes."""

    seq: int
    content: NewRow
    superseded: frozenset[ScopeName] = frozenset()

    def scopes(self) -> dict[str, ScopePart]:
        """The parts in force, by scope folder."""
        address = self.content.address
        if address is None:
            return {}
        return {address.scope(name): part for name, part in self.content.parts.items() if name not in self.superseded}

    def touches(self) -> set[str]:
        """The folders of all scopes that this row says something of, a session's run record and lineage included."""
        return self.content.touches(self.superseded)

    def changes_files_of(self, scope: str) -> bool:
        """Whether this row changes the scope's files, and does not merely place a session in history."""
        return scope in self.scopes() or (self.content.run is not None and scope in self.touches())


def row_from(columns: tuple[Any, ...]) -> Row:
    """A row as the journal returned it (in the order of ``NewRow.columns``)."""
    (seq, writer, kind, time_ms, level, cwd, session_id, key, transition_id, request_id, position, superseded, body) = (
        columns
    )
    document = decode(body)
    boundary, run, lineage = document.pop("boundary", None), document.pop("run", None), document.pop("lineage", None)
    parts = document.pop("scopes", {})
    content = NewRow(
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
    return Row(seq, content, frozenset(decode(superseded)) if superseded else frozenset())


def _boundary(document: Json) -> Boundary:
    return Boundary(document["id"], document["parent"], document["position"])


def _part(document: Json) -> ScopePart:
    base = document.get("base")
    return ScopePart(
        record=document["record"],
        revision=document["revision"],
        floor=document["floor"],
        base=_boundary(base) if base else None,
        evidence=document.get("evidence"),
    )


def lineage_json(lineage: Lineage) -> Json:
    """A lineage as the journal keeps it."""
    return {"known": [boundary_json(boundary) for boundary in lineage.known], "since": lineage.since}


def lineage_from(document: Json) -> Lineage:
    """The inverse of ``lineage_json``."""
    return Lineage(tuple(_boundary(item) for item in document["known"]), document["since"])
