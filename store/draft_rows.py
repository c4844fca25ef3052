"""What one row of a draft says of each scope, and the images after it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .algebra import SCOPES, Boundary, Lineage, ScopeName, ScopeState, StagedCall, empty_scope
from .documents import RunRecord
from .image import ScopeImage
from .memory_store import ABSENT
from .rows import NewRow, ScopePart

# A session's scopes in the order global, cwd, session.
Trio = tuple[ScopeImage, ScopeImage, ScopeImage]


def states_of(trio: Trio) -> dict[ScopeName, ScopeState]:
    """The three scopes as the algebra takes them; one that does not exist is empty."""
    return {name: image.state or ABSENT for name, image in zip(SCOPES, trio, strict=True)}


def state_trio(trio: Trio) -> tuple[ScopeState, ScopeState, ScopeState]:
    """The same, in their order."""
    shared, cwd, session = trio
    # Written out: this is on the way of every commit.
    return (shared.state or ABSENT, cwd.state or ABSENT, session.state or ABSENT)


def scope_parts(
    trio: Trio,
    run: RunRecord | None,
    lineage: Lineage | None,
    boundary: Boundary | None,
    staged: StagedCall | None,
    history_limit: int,
    copied: ScopeState | None = None,
) -> tuple[dict[ScopeName, ScopePart], dict[ScopeName, ScopeState]]:
    """The parts of a row, and the states after it, of the scopes that it changes or creates."""
    parts: dict[ScopeName, ScopePart] = {}
    states: dict[ScopeName, ScopeState] = {}
    origin = lineage or trio[2].lineage
    if copied is not None:
        parts["session"], states["session"] = ScopePart(None, copied.revision, copied.floor, copied=copied), copied
    for name, image in zip(SCOPES, trio, strict=True):
        if name in states:
            continue
        # A session that begins, or a change, makes scopes that were absent exist, empty (store 3.5.2).
        base = None
        state = image.state
        if state is None:
            if run is None or origin is None:
                continue
            base = Boundary(f"{origin.known[0].id}:empty", None, 0)
            state = empty_scope(base)
        record = staged.records.get(name) if staged else None
        evidence = staged.evidence.get(name) if staged else None
        if record is not None:
            assert staged is not None
            assert boundary is not None
            state = state.accept(boundary, record, staged.values[name], history_limit)
        if evidence is not None:
            state = attrs.evolve(state, evidence=evidence)
        if base is not None or record is not None or evidence is not None:
            parts[name] = ScopePart(record, state.revision, state.floor, base, evidence)
            states[name] = state
    return parts, states


def images_after(row: NewRow, trio: Trio, states: Mapping[ScopeName, ScopeState], seq: int) -> dict[str, ScopeImage]:
    """The images that a row with number ``seq`` changes, by scope folder.

    They get the states already staged; ``ScopeImage.apply`` would replay every record once more.
    """
    address = row.address
    assert address is not None
    moved = {}
    for (name, scope), image in zip(address.scopes(), trio, strict=True):
        if name in states or (name == "session" and (row.run or row.lineage)):
            changes_files = name in states or row.run is not None
            moved[scope] = ScopeImage(
                scope=scope,
                cwd=None if name == "global" else address.cwd,
                session_id=address.session_id if name == "session" else None,
                state=states.get(name, image.state),
                run=(row.run or image.run) if name == "session" else None,
                lineage=(row.lineage or image.lineage) if name == "session" else image.lineage,
                last_seq=seq if changes_files else image.last_seq,
                last_writer=row.writer if changes_files else image.last_writer,
            )
    return moved
