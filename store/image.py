"""One scope as files and rows together say it is: the unit that is loaded, followed, checkpointed and read.

Opening, following other processes, the checkpoint and the lock-free readers all build their view of a scope with
``ScopeImage.apply``, so that there is one rule for what a row means.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .algebra import Boundary, Lineage, ScopeState, StoreError, empty_scope, replay
from .documents import RunRecord
from .layout import scope_kind
from .loading import LoadedScope
from .rows import Row


@attrs.frozen
class ScopeImage:
    """A scope at a row of the journal. For a session it holds the run record and the lineage too.

    ``lineage`` of a shared scope is set once its bytes gave way to foreign ones: no session's history reaches back
    beyond that boundary.
    """

    scope: str
    cwd: str | None = None
    session_id: str | None = None
    state: ScopeState | None = None
    run: RunRecord | None = None
    lineage: Lineage | None = None
    # The last row that changed this scope's files, and who wrote it (J12).
    last_seq: int = 0
    last_writer: str | None = None

    def apply(self, row: Row) -> ScopeImage:
        """This scope after one row that touches it.

        Raises:
          StoreError: E_CORRUPT if the row does not follow what the files and the rows before it say.
        """
        content = row.content
        name = scope_kind(self.scope)
        part = None if name in row.superseded else content.parts.get(name)
        state, run, lineage = self.state, self.run, self.lineage
        if part is not None:
            if part.copied is not None:
                if state is not None:
                    raise self._not_following(row)
                state = part.copied
            elif state is None:
                if part.base is None:
                    raise self._not_following(row)
                state = empty_scope(part.base)
            if part.record is not None:
                if content.boundary is None or part.revision != state.revision + 1:
                    raise self._not_following(row)
                value = replay(state.value, part.record)
                state = state.follow(content.boundary, part.record, value, part.floor)
            if part.evidence is not None:
                state = attrs.evolve(state, evidence=part.evidence)
        changed = part is not None
        if name == "session" and name not in row.superseded:
            run, lineage = content.run or run, content.lineage or lineage
            changed = changed or content.run is not None
        return ScopeImage(
            scope=self.scope,
            cwd=self.cwd or (content.address.cwd if content.address and name != "global" else None),
            session_id=self.session_id
            or (content.address.session_id if content.address and name == "session" else None),
            state=state,
            run=run,
            lineage=lineage,
            last_seq=row.seq if changed else self.last_seq,
            last_writer=content.writer if changed else self.last_writer,
        )

    def _not_following(self, row: Row) -> StoreError:
        return StoreError(
            "E_CORRUPT",
            f"{self.scope or 'global'}: row {row.seq} of the journal does not follow the files and the rows before it; "
            "`strataflow doctor` tells more",
            scope=self.scope,
            seq=row.seq,
        )


def image_of(loaded: LoadedScope) -> ScopeImage:
    """A scope as its accepted files alone say it is."""
    base = None if loaded.is_foreign else loaded.base
    return ScopeImage(
        scope=loaded.wanted.scope,
        cwd=loaded.wanted.cwd,
        session_id=loaded.wanted.session_id,
        state=loaded.state,
        run=loaded.run,
        lineage=loaded.lineage,
        last_seq=base.last_seq if base else 0,
        last_writer=base.last_writer if base else None,
    )


def session_lineage(session: ScopeImage, *shared: ScopeImage) -> Lineage | None:
    """Where a session's history begins: its own origin, or later, where foreign bytes replaced a shared scope."""
    lineages = [image.lineage for image in (session, *shared) if image.lineage is not None]
    if session.lineage is None:
        return None
    return max(lineages, key=lambda lineage: lineage.since)


def fresh_lineage(boundary_id: str, position: int) -> Lineage:
    """A history that begins with an origin of its own at ``position``."""
    return Lineage((Boundary(boundary_id, None, position),), since=position)


def revision_text(images: Iterable[ScopeImage]) -> str:
    """The vector of three scopes' revisions."""
    shared, cwd, session = [image.state.revision if image.state else 0 for image in images]
    return f"g{shared}c{cwd}s{session}"
