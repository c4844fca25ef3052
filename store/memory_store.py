"""The state in memory of one open store: what has been accepted, by whomever, up to a row of the journal.

It decides nothing and does no I/O: the store actor reads rows and files, gives them to ``follow`` and ``install``,
stages calls on a ``Draft`` (draft.py) and hands that to ``publish`` once the journal has it. All methods are
synchronous and run on one thread, so whoever reads between two of them sees one consistent root (Ours-18).

Invariants:
  S1  Every image is the scope at row ``head``: files it was loaded from, and every later row that touches it.
  S2  ``pending`` holds every row in force that may not be in the canonical files yet (J2).
  S3  What is published is never mutated: images are replaced, their values shared.
  S4  Revisions a session sees never decrease, except for a superseded scope, which is reported (Ours-18).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import attrs

from .algebra import (
    HISTORY_LIMIT_DEFAULT,
    Boundary,
    Lineage,
    ScopeName,
    ScopeState,
    StoreError,
    StrataflowError,
    View,
    empty_scope,
)
from .checkpoint import Root
from .image import ScopeImage, fresh_lineage, image_of, revision_text, session_lineage
from .layout import SessionAddress
from .loading import Loaded, Wanted
from .rows import NewRow, Row
from .scope_errors import changed_by_another, owned_by_another

# A scope that does not exist reads as empty; its boundary is older than every real one.
ABSENT = empty_scope(Boundary("absent", None, 0))


@attrs.frozen
class Fence:
    """A session whose private memory somebody else changed: it keeps its view and may not write (J12, Ours-3)."""

    error: StoreError
    kept: ScopeImage


@attrs.define(eq=False)
class MemoryStore:
    """The published root. ``writer`` is this runtime's random token."""

    writer: str
    history_limit: int = HISTORY_LIMIT_DEFAULT
    head: int = 0
    position: int = 0
    # The newest row that is not needed in memory any more.
    dropped_through: int = 0
    images: dict[str, ScopeImage] = attrs.field(factory=dict)
    errors: dict[str, StrataflowError] = attrs.field(factory=dict)
    fences: dict[str, Fence] = attrs.field(factory=dict)
    # Scopes that can be read but not written (store 1.10).
    blocked: dict[str, StoreError] = attrs.field(factory=dict)
    # Sessions this process has accepted: only those can be fenced.
    accepted: dict[str, SessionAddress] = attrs.field(factory=dict)
    # Superseded scopes whose new bytes have not been read yet.
    stale: set[str] = attrs.field(factory=set)
    pending: list[Row] = attrs.field(factory=list)
    # Called with the folder of each scope whose bytes gave way to foreign ones, as its row is followed.
    on_superseded: Callable[[str], None] = lambda scope: None
    # Called with the scopes that read differently from now on, and the row that did it, if one did. Must not raise.
    on_change: Callable[[Collection[str], Row | None], None] = lambda scopes, row: None
    _wanted: dict[str, Wanted] = attrs.field(factory=dict)
    _provisional: dict[str, Lineage] = attrs.field(factory=dict)

    # -- following ----------------------------------------------------------------------------------------------

    def is_followed_by(self, rows: Sequence[Row]) -> bool:
        """Whether no row is missing after ``head``: a gap, also in the middle, means that rows were pruned (J1)."""
        newer = sum(row.seq > self.head for row in rows)
        return not newer or rows[-1].seq - self.head == newer

    def follow(self, rows: Iterable[Row]) -> None:
        """Apply rows that came after ``head``, in order. (S1, S2)"""
        for row in rows:
            if row.seq <= self.head:
                continue
            for scope in row.touches():
                if scope in self.accepted and row.writer != self.writer and row.changes_files_of(scope):
                    self._fence(scope, row)
                if scope in self.images and self._is_owner(scope, row):
                    self._advance(scope, self.images[scope], [row])
            superseded = row.content.more.get("superseded") if row.kind == "superseded" else None
            if isinstance(superseded, str):
                self._note_superseded(superseded, row)
            self._keep(row)

    def _is_owner(self, scope: str, row: Row) -> bool:
        """Two directories may share a folder name; the one that has it first keeps it, they are never merged."""
        mine, address = self.images[scope].cwd, row.content.address
        if not scope or mine is None or address is None or address.cwd == mine:
            return True
        self.errors[scope] = owned_by_another(scope, address.cwd, mine)
        self.on_change((scope,), None)
        return False

    def check_owner(self, address: SessionAddress) -> None:
        """Refuse a directory whose folder belongs to another one, as far as this process knows.

        Raises:
          StoreError: E_CORRUPT naming both.
        """
        scope = address.scope("cwd")
        owners = [self.images[scope].cwd] if scope in self.images else []
        for row in self.pending:
            other = row.content.address
            if other is not None and other.scope("cwd") == scope:
                owners.append(other.cwd)
                break
        for owner in owners:
            if owner is not None and owner != address.cwd:
                raise owned_by_another(scope, owner, address.cwd)

    def publish(self, rows: Sequence[NewRow], images: Mapping[str, ScopeImage]) -> None:
        """Make an appended draft the present. (S1, S2, S3)"""
        for row in rows:
            self._keep(row.at(self.head + 1))
        self.images.update(images)

    def _keep(self, row: Row) -> None:
        self.head = row.seq
        self.position = max(self.position, row.position)
        self.pending.append(row)
        self.on_change(row.touches(), row)

    def _fence(self, scope: str, row: Row) -> None:
        # One that could not be read yet has shown nothing that could be kept, and can not be written either.
        if scope not in self.fences and scope in self.images:
            self.fences[scope] = Fence(changed_by_another(self.accepted[scope], row.seq), self.images[scope])

    def _note_superseded(self, scope: str, row: Row) -> None:
        """The scope's parts of rows in memory gave way to foreign bytes; the bytes must be read (J6)."""
        self.on_superseded(scope)
        if scope in self.accepted:
            self._fence(scope, row)
        if scope in self.images or scope in self.errors:
            self.stale.add(scope)

    def drop_pending(self, checkpointed_through: int) -> None:
        """Forget rows that are in the canonical files. (S2)"""
        self.pending = [row for row in self.pending if row.seq > checkpointed_through]
        self.dropped_through = max(self.dropped_through, checkpointed_through)

    def install(self, loaded: Loaded, *, whole: bool = False) -> bool:
        """Take over scopes that were read in a worker thread. False: rows needed on top are gone; read again.

        With ``whole`` everything known so far gives way, as after a recovery or when too far behind (J1).
        """
        view = loaded.view
        if whole:
            self.pending, self.head = list(view.rows), view.head
            self.dropped_through = view.checkpointed_through
            self.position = max(self.position, view.position)
        elif self.dropped_through > view.checkpointed_through or not self.is_followed_by(view.rows):
            return False
        else:
            self.follow(row for row in view.rows if row.seq > self.head)
        on_top: dict[str, list[Row]] = {scope: [] for scope in loaded.scopes}
        for row in self.pending if on_top else ():
            for scope in row.touches() & on_top.keys():
                on_top[scope].append(row)
        for scope, found in loaded.scopes.items():
            assert not found.is_foreign, scope
            self._wanted[scope] = found.wanted
            self.stale.discard(scope)
            if found.error is not None:
                # The last image stays for whoever continues it; neither reads nor patches show or change it (Ours-18).
                self.errors[scope] = found.error
                continue
            self.errors.pop(scope, None)
            self._advance(scope, image_of(found), [row for row in on_top[scope] if row.seq > found.through])
            self.position = max(self.position, found.position)
        self.on_change(loaded.scopes, None)
        return True

    def _advance(self, scope: str, image: ScopeImage, rows: Iterable[Row]) -> None:
        """Publish a scope with rows on top. Rows that do not follow are that scope's trouble, not everybody's."""
        try:
            for row in rows:
                image = image.apply(row)
        except StoreError as error:
            # A scope that could not be read stays at an older row, which newer ones need not follow: what keeps it from
            # being read is the trouble, and not the rows.
            self.errors.setdefault(scope, error)
            self.on_change((scope,), None)
        else:
            self._compare_writers(scope, image)
            self.images[scope] = image

    def _compare_writers(self, scope: str, image: ScopeImage) -> None:
        """The fence after a reload, when the rows themselves may be gone (J12)."""
        before = self.images.get(scope)
        if scope not in self.accepted or scope in self.fences or before is None:
            return
        if image.last_seq > before.last_seq and image.last_writer != self.writer:
            self.fences[scope] = Fence(changed_by_another(self.accepted[scope], image.last_seq), before)

    def wanted(self) -> list[Wanted]:
        """Every scope that was asked for and not released, as it must be loaded again."""
        return list(self._wanted.values())

    def release(self, address: SessionAddress) -> None:
        """Drop a session that nobody has open any more, and its directory with the last one of it. Global stays."""
        session, cwd = address.scope("session"), address.scope("cwd")
        self._drop(session)
        if not any(other.scope("cwd") == cwd for other in self.accepted.values()):
            self._drop(cwd)

    def _drop(self, scope: str) -> None:
        maps = self.images, self.errors, self.fences, self.blocked, self.accepted, self._wanted, self._provisional
        for known in maps:
            known.pop(scope, None)
        self.stale.discard(scope)

    def accept(self, address: SessionAddress, blocked: Mapping[str, StoreError]) -> None:
        """This process now works with the session as it is: a fence ends, later strangers' changes set one."""
        session = address.scope("session")
        self.accepted[session] = address
        if self.fences.pop(session, None) is not None:
            self.on_change((session,), None)
        for _, scope in address.scopes():
            self.blocked.pop(scope, None)
        self.blocked.update(blocked)

    def snapshot(self) -> Root:
        """What is in memory now, for a checkpoint in another thread. Scopes that must be read again are left out."""
        return Root(
            self.head,
            {name: image for name, image in self.images.items() if name not in self.stale | self.errors.keys()},
        )

    # -- looking ------------------------------------------------------------------------------------------------

    def image(self, scope: str) -> ScopeImage:
        """A loaded scope."""
        return self.images.get(scope) or ScopeImage(scope)

    def trio(self, address: SessionAddress) -> tuple[ScopeImage, ScopeImage, ScopeImage]:
        """The images of a session's three scopes as this process may see them: a fenced session's is the kept one."""
        session = address.scope("session")
        fence = self.fences.get(session)
        return (
            self.image(""),
            self.image(address.scope("cwd")),
            fence.kept if fence else self.image(session),
        )

    def states(self, address: SessionAddress) -> tuple[ScopeState, ScopeState, ScopeState] | None:
        """A session's three scopes; None while one of them can not be read. It is on the way of every commit."""
        if self.errors and any(scope in self.errors for _, scope in address.scopes()):
            return None
        shared, cwd, session = self.trio(address)
        return (shared.state or ABSENT, cwd.state or ABSENT, session.state or ABSENT)

    def lineage(self, address: SessionAddress) -> Lineage:
        """Where this session's history begins; for one without private memory, when it was first looked at."""
        shared, cwd, session = self.trio(address)
        lineage = session_lineage(session, shared, cwd)
        if lineage is not None:
            return lineage
        scope = address.scope("session")
        if scope not in self._provisional:
            self._provisional[scope] = fresh_lineage(f"passive:files:{scope}", self.position)
        return self._provisional[scope]

    def boundaries(self, address: SessionAddress) -> tuple[Boundary, ...]:
        """The visible history of a session, oldest first."""
        states = [image.state for image in self.trio(address) if image.state is not None]
        return self.lineage(address).boundaries(states or [ABSENT], self.history_limit)

    def view(self, address: SessionAddress) -> View:
        """What the session reads, now. Cheap: history is computed only if a path asks for the past."""
        scopes: dict[ScopeName, ScopeState] = {}
        unreadable: dict[ScopeName, StrataflowError] = {}
        for (name, scope), image in zip(address.scopes(), self.trio(address), strict=True):
            if scope in self.errors:
                unreadable[name] = self.errors[scope]
            else:
                scopes[name] = image.state or ABSENT
        self.lineage(address)
        return View(scopes, lambda: self.boundaries(address), self.history_limit, unreadable)

    def revision(self, address: SessionAddress) -> str:
        """The revision vector, such as ``"g15c8s31"`` (store 1.9.5)."""
        return revision_text(self.trio(address))
