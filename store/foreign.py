"""Foreign bytes: somebody who does not know our journal changed a scope's files, and they win (Ours-1, J6).

The order keeps what was acknowledged findable at every moment: first the parts of rows that the files do not hold
are copied to ``superseded/`` and synced, then one transaction marks them, notes the files as the scope's new base and
adds a row that other processes follow. Rows stay; parts of other scopes go on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .codec import canonical
from .image import fresh_lineage
from .journal_types import Base, Journal, JournalView
from .layout import Layout, scope_kind
from .loading import LoadedScope
from .ports import Disk
from .rows import Durability, NewRow, Row


@attrs.frozen
class Stamp:
    """Who acts, when, and a fresh id: what the pure layer must be given."""

    writer: str
    level: Durability
    time_ms: int
    new_id: str


def write_aside(disk: Disk, layout: Layout, rows: Sequence[Row], scope: str | None, stamp: Stamp) -> str | None:
    """Copy the parts of rows for one scope (None: whole rows) to a new file in ``superseded/``, durably.

    Returns its path, or None if there is nothing to keep.
    """
    lines = [_line(row, scope) for row in rows]
    if not lines:
        return None
    folder = layout.private("superseded")
    disk.make_folder(folder)
    disk.sync_folder(layout.private())  # also if it was there: whoever made it may have died before
    path = f"{folder}/{stamp.time_ms}-{stamp.new_id}.jsonl"
    disk.write_new(path, b"".join(canonical(line) for line in lines))
    disk.sync_file(path)
    disk.sync_folder(folder)
    return path


def _line(row: Row, scope: str | None) -> dict[str, object]:
    content = row.content
    parts = content.parts if scope is None else {scope_kind(scope): content.parts.get(scope_kind(scope))}
    return {
        "seq": row.seq,
        "kind": content.kind,
        "timeMs": content.time_ms,
        "cwd": content.address.cwd if content.address else None,
        "session": content.address.session_id if content.address else None,
        "transition": content.transition_id,
        "scope": scope,
        "parts": {name: part.to_json() for name, part in parts.items() if part is not None},
        "run": attrs.asdict(content.run) if content.run and scope_kind(scope or "") != "cwd" else None,
    }


def supersede(
    disk: Disk, layout: Layout, journal: Journal, found: LoadedScope, view: JournalView, stamp: Stamp
) -> bool:
    """Let the foreign bytes of one scope win. False if the journal moved meanwhile: look again."""
    assert found.is_foreign
    scope = found.wanted.scope
    rows = journal.rows_of(scope, found.base.through if found.base else 0)
    write_aside(disk, layout, rows, scope, stamp)
    position = max(view.position, found.position)
    lineage = fresh_lineage(f"files:reconcile:{stamp.new_id}", position + 1)
    row = NewRow(
        writer=stamp.writer,
        kind="superseded",
        time_ms=stamp.time_ms,
        level="power",
        address=None,
        position=position + 1,
        boundary=lineage.known[0],
        lineage=lineage,
        more={"superseded": scope},
    )
    base = Base(
        identity=found.identity,
        through=view.head + 1,
        floor=found.state.floor if found.state else 0,
        lineage=lineage,
        last_writer="",
        last_seq=view.head + 1,
    )
    return journal.supersede(scope, base, row, head=view.head)
