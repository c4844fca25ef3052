"""From the disk to memory: which bytes of a scope count, and which rows come on top (J1, J5, J10, recovery).

A scope's files are accepted only if all of them are one known identity: the base that the journal remembers, or the
"after" of a prepared checkpoint, of which files that still are "before" are read from their staged copies. Anything
else was written by somebody else and wins as it is (foreign). Exactly the rows beyond what the accepted files contain
are applied. The journal is asked again at the end; if it says something else by now, the whole look is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from .algebra import Boundary, Lineage, ScopeState, StoreError, StrataflowError
from .codec import identity
from .documents import RunRecord
from .journal_types import NO_ROWS, Base, CheckpointList, JournalView, JournalViews
from .layout import RUNTIME, Layout, SessionAddress, scope_kind
from .ports import Disk
from .scope_files import DecodedScope, RawScope, check_lineage_covered, decode_scope, read_scope

_ROUNDS_MAX = 5


@attrs.frozen
class Wanted:
    """A scope to load: its folder and who must own it (None for global, or to accept any session)."""

    scope: str
    cwd: str | None = None
    session_id: str | None = None


def wanted_scopes(address: SessionAddress) -> tuple[Wanted, ...]:
    """The three scopes of a session."""
    return (
        Wanted(""),
        Wanted(address.scope("cwd"), address.cwd),
        Wanted(address.scope("session"), address.cwd, address.session_id),
    )


@attrs.frozen
class LoadedScope:
    """What one scope's files say. ``error`` set: they can not be used, and nothing else here counts.

    ``state`` None: absent. ``through``: the last row the files contain. ``is_foreign``: somebody else wrote them.
    """

    wanted: Wanted
    identity: Mapping[str, str]
    base: Base | None
    state: ScopeState | None = None
    run: RunRecord | None = None
    file_lineage: tuple[Boundary, ...] = ()
    through: int = 0
    is_foreign: bool = False
    error: StrataflowError | None = None

    @property
    def position(self) -> int:
        """The highest position that the files name: new ones must stand above it (Ours-15)."""
        named = [boundary.position for boundary in self.file_lineage[-1:]]
        return max([self.state.newest.position, *named] if self.state else named, default=0)

    @property
    def lineage(self) -> Lineage | None:
        """What the journal knows of where history begins here."""
        return self.base.lineage if self.base and not self.is_foreign else None


@attrs.frozen
class Loaded:
    """One consistent look at some scopes: the journal as it was, and each scope's files."""

    view: JournalView
    scopes: Mapping[str, LoadedScope]


def load(
    disk: Disk,
    layout: Layout,
    journal: JournalViews,
    wanted: Sequence[Wanted],
    *,
    after: int | None,
    known: Collection[str] = (),
) -> Loaded:
    """Read scopes and the journal consistently. Blocking; call it in a worker thread.

    Errors of a single scope are kept in it (Ours-18); only errors of the journal are raised.

    Args:
      after: rows after this one are read; None: those that are not in the files.
      known: scopes whose content the caller has in memory: unless their bytes are foreign they are only compared.

    Raises:
      StoreError: E_BUSY if checkpoints kept moving the files for five rounds; E_CORRUPT, E_DISK of the journal.
    """
    names = [item.scope for item in wanted]
    # The rows are read once, with the second look: there may be thousands.
    view = journal.view(NO_ROWS, names)
    for _ in range(_ROUNDS_MAX):
        scopes = {item.scope: _load_scope(disk, layout, item, view, item.scope in known) for item in wanted}
        again = journal.view(after, names)
        if again.bases == view.bases and again.prepared == view.prepared:
            return Loaded(again, scopes)
        view = again
    raise StoreError("E_BUSY", f"{layout.root}: checkpoints keep changing the files; ask again", path=layout.root)


def _load_scope(disk: Disk, layout: Layout, wanted: Wanted, view: JournalView, is_known: bool) -> LoadedScope:
    base = view.bases.get(wanted.scope)
    found: dict[str, str] = {}
    try:
        raw = read_scope(disk, layout, wanted.scope)
        found = raw.identity
        settled, base, is_foreign = _settle(disk, layout, raw, base, view.prepared)
        decoded = None
        if is_foreign or not is_known:
            decoded = decode_scope(layout, settled, cwd=wanted.cwd, session_id=wanted.session_id)
    except StrataflowError as error:
        return LoadedScope(wanted, found, base, error=error)
    through = view.head if is_foreign else base.through if base else 0
    return _loaded(wanted, settled.identity, base, decoded, through, is_foreign)


def _loaded(
    wanted: Wanted,
    identity: Mapping[str, str],
    base: Base | None,
    decoded: DecodedScope | None,
    through: int,
    is_foreign: bool,
) -> LoadedScope:
    state, run = None, None
    lineage: tuple[Boundary, ...] = ()
    if decoded is not None:
        floor = base.floor if base and not is_foreign else 0
        state = attrs.evolve(decoded.state, floor=max(decoded.state.floor, floor))
        if decoded.session is not None:
            run, lineage = decoded.session.run, decoded.session.lineage
    return LoadedScope(wanted, identity, base, state, run, lineage, through, is_foreign)


def _settle(
    disk: Disk, layout: Layout, raw: RawScope, base: Base | None, prepared: CheckpointList | None
) -> tuple[RawScope, Base | None, bool]:
    """The bytes that count, what they are known to be, and whether they are foreign (J5, J10)."""
    found = raw.identity
    if prepared is not None and raw.scope in prepared.after:
        settled = _finished_view(disk, layout, raw, prepared)
        if settled is not None:
            return settled, prepared.after[raw.scope], False
    if base is None or found == base.identity:
        return raw, base, False
    return raw, base, True


def _finished_view(disk: Disk, layout: Layout, raw: RawScope, prepared: CheckpointList) -> RawScope | None:
    """A half-renamed scope as it will be when the list is finished; None if a file is neither before nor after."""
    files = dict(raw.files)
    after = prepared.after[raw.scope].identity
    for move in prepared.moves:
        if move.scope == raw.scope and identity(files[move.name]) == move.before != move.after:
            staged = disk.read(layout.private("staged", move.staged))
            # Renamed since the file was read: what lies at its place now is what the list promised.
            files[move.name] = staged if staged is not None else disk.read(layout.file(raw.scope, move.name))
    settled = RawScope(raw.scope, files)
    return settled if settled.identity == after else None


def adopt_lineage(layout: Layout, address: SessionAddress, loaded: Mapping[str, LoadedScope]) -> Lineage | None:
    """The history that a session's own run record proves, or None if it needs a fresh origin (store 3.2.4, Ours-15).

    For a session that the journal does not know: written by Pi, or from before the journal was rebuilt. Its lineage
    counts if the shared scopes hold nothing beside it; else the order of the boundaries is unknown.

    Raises:
      StoreError: E_CORRUPT if the lineage names boundaries that can never have been.
    """
    session = loaded[address.scope("session")]
    lineage = session.file_lineage
    assert lineage
    states = {scope: item.state for scope, item in loaded.items() if item.state is not None}
    known = {boundary.position: boundary.id for boundary in lineage}
    first = lineage[0].position
    for scope, state in states.items():
        if scope_kind(scope) == "session":
            continue
        if state.base_boundary.position > first:
            return None
        for record in state.tail:
            if record.boundary.position > first and known.get(record.boundary.position) != record.boundary.id:
                return None
    check_lineage_covered(layout.file(session.wanted.scope, RUNTIME), lineage, states)
    return Lineage(lineage, since=max(lineage[-1].position, *(state.newest.position for state in states.values())))
