"""A draft: the running state on which the calls of one batch are staged, one after another (design, life of a commit).

Each ``stage_*`` method either changes the draft and returns the answer its asker will get once the batch is in the
journal, or raises and leaves the draft as it was: a refusal concerns its call alone. Nothing here waits or does I/O.

Invariants:
  D1  The rows, applied to the root the draft began with, give the draft's images. (M2)
  D2  One call is at most one row; one row has at most one boundary; positions grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from .algebra import (
    SCOPES,
    Boundary,
    CallError,
    Json,
    Lineage,
    ScopeName,
    ScopeState,
    StagedCall,
    StoreError,
    StrataflowError,
    acknowledgement,
    empty_scope,
    stage_patch,
    stage_response,
)
from .documents import STEP_MAX, Mode, RunRecord
from .image import ScopeImage, fresh_lineage, revision_text, session_lineage
from .layout import SessionAddress
from .memory_store import ABSENT, MemoryStore
from .receipts import Receipt
from .rows import Durability, NewRow, RowKind, ScopePart


@attrs.define(eq=False)
class Draft:
    """The state after the calls staged so far. ``new_id`` gives fresh ids; ``time_ms`` stamps the rows."""

    store: MemoryStore
    level: Durability
    time_ms: int
    new_id: Callable[[], str]
    rows: list[NewRow] = attrs.field(factory=list)
    images: dict[str, ScopeImage] = attrs.field(factory=dict)
    position: int = 0

    def __attrs_post_init__(self) -> None:
        self.position = self.store.position

    # -- calls --------------------------------------------------------------------------------------------------

    def stage_patch(
        self, address: SessionAddress, patches: Mapping[ScopeName, Json], request_id: str | None = None
    ) -> Receipt:
        """Stage the checked patches of one call.

        Raises:
          CallError: T9 rows 17 to 22.
          StoreError: E_CHANGED for a fenced session, or the reason why one of its scopes is unusable.
        """
        trio = self._writable(address)
        staged = stage_patch(_states(trio), patches)
        names = tuple(name for name in SCOPES if name in patches)
        trio, transition = self._accept(address, trio, staged, None, request_id)
        return Receipt(
            changed=staged.changed,
            scopes=names,
            step=_step(trio),
            revision=revision_text(trio),
            missing_deletions=staged.missing_deletions,
            cascaded=staged.cascaded,
            text=acknowledgement(names, staged.changed, staged.missing_deletions),
            transition_id=transition,
            seq=self._seq(),
        )

    def stage_response(self, address: SessionAddress, text: str, request_id: str | None = None) -> Receipt:
        """Stage the final answer of the session's run, and that run's end (store 3.4). Raises as ``stage_patch``."""
        trio = self._writable(address)
        staged = stage_response(_states(trio)["session"], text)
        before = trio[2].run or RunRecord("active")
        ended = attrs.evolve(before, bootstrap=False, specification=None)
        trio, transition = self._accept(address, trio, staged, ended, request_id)
        return Receipt(
            changed=staged.changed,
            scopes=("session",),
            step=_step(trio),
            revision=revision_text(trio),
            transition_id=transition,
            seq=self._seq(),
        )

    def stage_mode(self, address: SessionAddress, mode: Mode) -> Mode:
        """Select active or passive for a session (store 6.1.3, 6.1.4). Active creates private memory where none is."""
        trio = self._readable(address)
        run = trio[2].run
        if run is None:
            if mode == "active":
                self._create(address, trio, mode)
        elif run.mode != mode:
            kept = attrs.evolve(run, mode=mode)
            self._add(
                "lifecycle", address, trio, run=attrs.evolve(kept, specification=None) if mode == "active" else kept
            )
        return mode

    def stage_origin(self, address: SessionAddress) -> None:
        """Give a session whose history nobody can prove a fresh origin, at this place in the order (store 3.2.4)."""
        trio = self._readable(address)
        if trio[2].run is not None and trio[2].lineage is None:
            self.position += 1
            lineage = fresh_lineage(f"files:{self.new_id()}", self.position)
            self._add("origin", address, trio, lineage=lineage, boundary=lineage.known[0])

    def problem_of(self, address: SessionAddress) -> StrataflowError | None:
        """Why this session can not be written: a scope of it can not be read, or holds an old format."""
        errors, blocked = self.store.errors, self.store.blocked
        found = (errors.get(scope) or blocked.get(scope) for _, scope in address.scopes())
        return next((error for error in found if error is not None), None)

    def mode_of(self, address: SessionAddress, *, fresh: Mode, unreadable: Mode) -> Mode:
        """The mode that the session's files or rows name, or that of one which does not exist or can not be read."""
        scope = address.scope("session")
        if scope in self.store.errors:
            return unreadable
        image = self.images.get(scope) or self.store.image(scope)
        return image.run.mode if image.run else fresh

    # -- how ----------------------------------------------------------------------------------------------------

    def _readable(self, address: SessionAddress) -> tuple[ScopeImage, ScopeImage, ScopeImage]:
        found = []
        for _, scope in address.scopes():
            if scope in self.store.errors:
                error = self.store.errors[scope]
                raise type(error)(error.code, error.message, **error.data) from error
            if scope in self.store.stale:
                raise StoreError("E_BUSY", f"{scope or 'global'}: its files were replaced by others; ask again")
            image = self.images.get(scope) or self.store.images.get(scope)
            if image is None:
                # Closed while the call waited. A scope that is not known must never be taken for an empty one.
                raise StoreError("E_CLOSED", f"{scope or 'global'}: the session was closed meanwhile; open it again")
            found.append(image)
        return (found[0], found[1], found[2])

    def _writable(self, address: SessionAddress) -> tuple[ScopeImage, ScopeImage, ScopeImage]:
        fence = self.store.fences.get(address.scope("session"))
        if fence is not None:
            raise StoreError(fence.error.code, fence.error.message, **fence.error.data)
        for _, scope in address.scopes():
            if scope in self.store.blocked:
                error = self.store.blocked[scope]
                raise StoreError(error.code, error.message, **error.data)
        return self._readable(address)

    def _accept(
        self,
        address: SessionAddress,
        trio: tuple[ScopeImage, ScopeImage, ScopeImage],
        staged: StagedCall,
        ended: RunRecord | None,
        request_id: str | None,
    ) -> tuple[tuple[ScopeImage, ScopeImage, ScopeImage], str | None]:
        """Turn a staged call into a row, unless nothing changes (store 3.1.8)."""
        run = ended or trio[2].run or RunRecord("passive")
        if not staged.changed:
            if ended is None or ended == trio[2].run:
                return trio, None
            if trio[2].run is None:
                return self._create(address, trio, run.mode), None
            return self._add("lifecycle", address, trio, run=run, request_id=request_id), None
        if run.step >= STEP_MAX:
            raise CallError("E_SHAPE", "the session has used up its steps: fork it")
        lineage = None
        if trio[2].run is None:
            self.position += 1
            lineage = fresh_lineage(f"patch:{self.new_id()}", self.position)
        boundary = Boundary(self.new_id(), self._head_id(trio, lineage), self.position + 1)
        self.position += 1
        run = RunRecord(run.mode, run.step + 1, run.bootstrap, run.specification)
        trio = self._add(
            "transition",
            address,
            trio,
            run=run,
            lineage=lineage,
            boundary=boundary,
            staged=staged,
            request_id=request_id,
        )
        return trio, boundary.id

    def _head_id(self, trio: tuple[ScopeImage, ScopeImage, ScopeImage], lineage: Lineage | None) -> str:
        lineage = lineage or session_lineage(trio[2], trio[0], trio[1])
        assert lineage is not None
        return lineage.head(image.state for image in trio if image.state is not None).id

    def _create(
        self, address: SessionAddress, trio: tuple[ScopeImage, ScopeImage, ScopeImage], mode: Mode
    ) -> tuple[ScopeImage, ScopeImage, ScopeImage]:
        """A private origin over the current shared memory (store 6.2.2)."""
        self.position += 1
        lineage = fresh_lineage(f"patch:{self.new_id()}", self.position)
        return self._add("origin", address, trio, run=RunRecord(mode), lineage=lineage, boundary=lineage.known[0])

    def _add(
        self,
        kind: RowKind,
        address: SessionAddress,
        trio: tuple[ScopeImage, ScopeImage, ScopeImage],
        *,
        run: RunRecord | None = None,
        lineage: Lineage | None = None,
        boundary: Boundary | None = None,
        staged: StagedCall | None = None,
        request_id: str | None = None,
    ) -> tuple[ScopeImage, ScopeImage, ScopeImage]:
        """Add one row and move the draft's images over it. (D1, D2)"""
        parts: dict[ScopeName, ScopePart] = {}
        states: dict[ScopeName, ScopeState] = {}
        origin = lineage or trio[2].lineage
        for name, image in zip(SCOPES, trio, strict=True):
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
                state = state.accept(boundary, record, staged.values[name], self.store.history_limit)
            if evidence is not None:
                state = attrs.evolve(state, evidence=evidence)
            if base is not None or record is not None or evidence is not None:
                parts[name] = ScopePart(record, state.revision, state.floor, base, evidence)
                states[name] = state
        row = NewRow(
            writer=self.store.writer,
            kind=kind,
            time_ms=self.time_ms,
            level=self.level,
            address=address,
            position=self.position,
            boundary=boundary,
            parts=parts,
            run=run,
            lineage=lineage,
            transition_id=boundary.id if boundary is not None and kind == "transition" else None,
            request_id=request_id,
        )
        self.rows.append(row)
        return self._moved(address, trio, states, row)

    def _moved(
        self,
        address: SessionAddress,
        trio: tuple[ScopeImage, ScopeImage, ScopeImage],
        states: Mapping[ScopeName, ScopeState],
        row: NewRow,
    ) -> tuple[ScopeImage, ScopeImage, ScopeImage]:
        # The images get the states already staged; ``ScopeImage.apply`` would replay every record once more.
        moved = []
        for (name, scope), image in zip(address.scopes(), trio, strict=True):
            if name in states or (name == "session" and (row.run or row.lineage)):
                image = ScopeImage(
                    scope=scope,
                    cwd=None if name == "global" else address.cwd,
                    session_id=address.session_id if name == "session" else None,
                    state=states.get(name, image.state),
                    run=(row.run or image.run) if name == "session" else None,
                    lineage=(row.lineage or image.lineage) if name == "session" else image.lineage,
                    last_seq=self._seq() if name in states or row.run else image.last_seq,
                    last_writer=row.writer if name in states or row.run else image.last_writer,
                )
                self.images[scope] = image
            moved.append(image)
        return (moved[0], moved[1], moved[2])

    def _seq(self) -> int:
        return self.store.head + len(self.rows)


def _states(trio: tuple[ScopeImage, ScopeImage, ScopeImage]) -> dict[ScopeName, ScopeState]:
    return {name: image.state or ABSENT for name, image in zip(SCOPES, trio, strict=True)}


def _step(trio: tuple[ScopeImage, ScopeImage, ScopeImage]) -> int:
    return trio[2].run.step if trio[2].run else 0
