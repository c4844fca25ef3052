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
    NO_READS,
    SCOPES,
    Boundary,
    CallError,
    Compilation,
    Json,
    Lineage,
    ScopeName,
    ScopeState,
    StagedCall,
    StoreError,
    StrataflowError,
    acknowledgement,
    stage_patch,
    stage_response,
)
from .documents import STEP_MAX, Mode, RunRecord
from .draft_rows import Trio, images_after, scope_parts, state_trio, states_of
from .image import ScopeImage, fresh_lineage, revision_text, session_lineage
from .layout import SessionAddress
from .memory_store import MemoryStore
from .receipts import Before, Receipt, receipt_row
from .requests import Requests
from .rows import Durability, NewRow, RowKind


@attrs.define(eq=False)
class Draft:
    """The state after the calls staged so far. ``new_id`` gives fresh ids; ``time_ms`` stamps the rows."""

    store: MemoryStore
    level: Durability
    time_ms: int
    new_id: Callable[[], str]
    requests: Requests = attrs.field(factory=Requests)
    rows: list[NewRow] = attrs.field(factory=list)
    images: dict[str, ScopeImage] = attrs.field(factory=dict)
    position: int = 0

    def __attrs_post_init__(self) -> None:
        self.position = self.store.position

    # -- calls --------------------------------------------------------------------------------------------------

    def stage_patch(
        self,
        address: SessionAddress,
        patches: Mapping[ScopeName, Json],
        request_id: str | None = None,
        compilation: Compilation = NO_READS,
    ) -> Receipt:
        """Stage the checked patches of one call, unless an earlier one had its request id.

        Raises:
          CallError: T9 rows 11 and 16 to 22.
          StoreError: E_CHANGED for a fenced session, or the reason why one of its scopes is unusable.
          StrataflowError: why the earlier call was refused.
        """

        def stage() -> Receipt:
            trio = self.writable(address)
            staged = stage_patch(states_of(trio), patches, compilation)
            names = tuple(name for name in SCOPES if name in patches)
            text = acknowledgement(names, staged.changed, staged.missing_deletions)
            return self.accept(address, trio, staged, names, text=text, request_id=request_id)

        return self.requests.once(request_id, stage)

    def stage_response(self, address: SessionAddress, text: str, request_id: str | None = None) -> Receipt:
        """Stage the final answer of the session's run, and that run's end (store 3.4). Raises as ``stage_patch``."""

        def stage() -> Receipt:
            trio = self.writable(address)
            staged = stage_response(states_of(trio)["session"], text)
            before = trio[2].run or RunRecord("active")
            ended = attrs.evolve(before, bootstrap=False, specification=None)
            return self.accept(address, trio, staged, ("session",), ended=ended, request_id=request_id)

        return self.requests.once(request_id, stage)

    def stage_mode(self, address: SessionAddress, mode: Mode) -> Mode:
        """Select active or passive for a session (store 6.1.3, 6.1.4). Active creates private memory where none is."""
        trio = self.readable(address)
        run = trio[2].run
        if run is None:
            if mode == "active":
                self.create(address, trio, RunRecord(mode))
        elif run.mode != mode:
            kept = attrs.evolve(run, mode=mode)
            self.add(
                "lifecycle", address, trio, run=attrs.evolve(kept, specification=None) if mode == "active" else kept
            )
        return mode

    def stage_origin(self, address: SessionAddress) -> None:
        """Give a session whose history nobody can prove a fresh origin, at this place in the order (store 3.2.4)."""
        trio = self.readable(address)
        if trio[2].run is not None and trio[2].lineage is None:
            self.position += 1
            lineage = fresh_lineage(f"files:{self.new_id()}", self.position)
            self.add("origin", address, trio, lineage=lineage, boundary=lineage.known[0])

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

    def refuse(self, error: CallError, request_id: str) -> Receipt:
        """Refuse a call for what is wrong with its arguments or its session, unless an earlier one had its id."""

        def stage() -> Receipt:
            raise error

        return self.requests.once(request_id, stage)

    # -- how ----------------------------------------------------------------------------------------------------

    def readable(self, address: SessionAddress) -> Trio:
        """The session's scopes in this draft.

        Raises:
          StoreError: the reason why one of them is unusable.
        """
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

    def writable(self, address: SessionAddress) -> Trio:
        """As ``readable``, if this process may change them too.

        Raises:
          StoreError: also E_CHANGED for a fenced session.
        """
        fence = self.store.fences.get(address.scope("session"))
        if fence is not None:
            raise StoreError(fence.error.code, fence.error.message, **fence.error.data)
        for _, scope in address.scopes():
            if scope in self.store.blocked:
                error = self.store.blocked[scope]
                raise StoreError(error.code, error.message, **error.data)
        return self.readable(address)

    def accept(
        self,
        address: SessionAddress,
        trio: Trio,
        staged: StagedCall,
        names: tuple[ScopeName, ...],
        *,
        text: str = "",
        ended: RunRecord | None = None,
        request_id: str | None = None,
    ) -> Receipt:
        """Take a staged call over into the draft. ``trio`` is what it was staged on, ``ended`` the run it ends."""
        count = len(self.rows)
        before = Before(state_trio(trio), staged.records) if staged.changed else None
        trio, transition = self._moved_on(address, trio, staged, ended)
        if request_id is not None and len(self.rows) == count:
            # It changed nothing, and yet it must not change anything when it is asked for again, later.
            self.add("lifecycle", address, trio)
        receipt = Receipt(
            changed=staged.changed,
            scopes=names,
            step=trio[2].run.step if trio[2].run else 0,
            revision=revision_text(trio),
            missing_deletions=staged.missing_deletions,
            cascaded=staged.cascaded,
            text=text,
            transition_id=transition,
            seq=self._seq(),
            before=before,
        )
        if request_id is not None:
            more = {"receipt": receipt_row(receipt)}
            self.rows[-1] = attrs.evolve(self.rows[-1], request_id=request_id, more=more)
            self.requests.accept(request_id, receipt)
        return receipt

    def _moved_on(
        self, address: SessionAddress, trio: Trio, staged: StagedCall, ended: RunRecord | None
    ) -> tuple[Trio, str | None]:
        """Turn a staged call into a row, unless nothing changes (store 3.1.8)."""
        run = ended or trio[2].run or RunRecord("passive")
        if not staged.records:
            if staged.evidence:
                return self.add("evidence", address, trio, run=ended, staged=staged), None
            if ended is None or ended == trio[2].run:
                return trio, None
            if trio[2].run is None:
                return self.create(
                    address, trio, RunRecord(run.mode, bootstrap=run.bootstrap, specification=run.specification)
                ), None
            return self.add("lifecycle", address, trio, run=run), None
        if run.step >= STEP_MAX:
            raise CallError("E_SHAPE", "the session has used up its steps: fork it")
        lineage = None
        if trio[2].run is None:
            self.position += 1
            lineage = fresh_lineage(f"patch:{self.new_id()}", self.position)
        boundary = Boundary(self.new_id(), self._head_id(trio, lineage), self.position + 1)
        self.position += 1
        run = RunRecord(run.mode, run.step + 1, run.bootstrap, run.specification)
        trio = self.add("transition", address, trio, run=run, lineage=lineage, boundary=boundary, staged=staged)
        return trio, boundary.id

    def _head_id(self, trio: Trio, lineage: Lineage | None) -> str:
        lineage = lineage or session_lineage(trio[2], trio[0], trio[1])
        assert lineage is not None
        return lineage.head(image.state for image in trio if image.state is not None).id

    def create(self, address: SessionAddress, trio: Trio, run: RunRecord) -> Trio:
        """A private origin over the current shared memory (store 6.2.2)."""
        self.position += 1
        lineage = fresh_lineage(f"patch:{self.new_id()}", self.position)
        return self.add("origin", address, trio, run=run, lineage=lineage, boundary=lineage.known[0])

    def add(
        self,
        kind: RowKind,
        address: SessionAddress,
        trio: Trio,
        *,
        run: RunRecord | None = None,
        lineage: Lineage | None = None,
        boundary: Boundary | None = None,
        staged: StagedCall | None = None,
        copied: ScopeState | None = None,
    ) -> Trio:
        """Add one row and move the draft's images over it. (D1, D2)"""
        parts, states = scope_parts(trio, run, lineage, boundary, staged, self.store.history_limit, copied)
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
        )
        self.rows.append(row)
        moved = images_after(row, trio, states, self._seq())
        self.images.update(moved)
        shared, cwd, session = (
            moved.get(scope, image) for (_, scope), image in zip(address.scopes(), trio, strict=True)
        )
        return shared, cwd, session

    def _seq(self) -> int:
        return self.store.head + len(self.rows)
