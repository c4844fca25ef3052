"""The checkpoint: canonical files follow the journal, off the commit path (Ours-1, J5, J7).

    COLLECT -> STAGE -> PREPARED -> RENAMED -> DONE
       |         |          |
       +---------+--> as before (nothing was promised; staged files are garbage)
                            +--> finished by whoever next holds ``checkpoint.lock``, also after power loss

Everything here is synchronous and called with ``checkpoint.lock`` held, from a worker thread. Commits go on meanwhile;
what they add is beyond the ``through`` of this checkpoint and simply stays in the journal.

Invariants:
  C1  A file is replaced only by a rename of a completely staged and synced file, and only while its bytes are those
      the journal knows. Anything else makes its whole scope foreign; nothing of that scope is overwritten.
  C2  A list is stored, durably, before the first rename and removed, durably, after the last folder sync.
  C3  Rows leave the journal only in a later transaction than the one that says the files contain them.
  C4  A staged file is removed only when no list can name it. One whose storing failed with unknown outcome may still
      appear when the journal is read again; a later durable transaction rules that out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import attrs

from .algebra import HISTORY_LIMIT_MAX, StoreError, StrataflowError
from .documents import foreign_members
from .foreign import Stamp, supersede
from .image import ScopeImage, image_of, session_lineage
from .journal_types import REQUESTS_KEPT, CheckpointList, Journal, JournalView
from .layout import META, Layout, SessionAddress, scope_kind
from .loading import Loaded, LoadedScope, Wanted, load
from .ports import Disk
from .renames import finish_prepared
from .rows import Row
from .scope_files import encode_scope, encode_session, legal_suffix
from .staged_files import Staging

_ROUNDS_MAX = 50
_FULL = ("ENOSPC", "EDQUOT")


@attrs.frozen
class Root:
    """The scopes that a process has in memory, as they are at row ``head``."""

    head: int
    images: Mapping[str, ScopeImage]

    def reaches(self, loaded: Loaded) -> bool:
        """Whether memory and the rows that were read leave no gap: others may have written files since ``head``."""
        known = [item.through for name, item in loaded.scopes.items() if name in self.images]
        return all(through <= self.head for through in [*known, loaded.view.checkpointed_through] if known)


NOTHING = Root(0, {})


@attrs.frozen
class CheckpointReport:
    """What one checkpoint did.

    ``superseded`` scopes held bytes of others, which won. ``blocked`` ones could not be read or written, for the
    cause given: their rows stay in the journal.
    """

    through: int = 0
    scopes: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    pruned_rows: int = 0
    superseded: tuple[str, ...] = ()
    blocked: Mapping[str, StrataflowError] = attrs.field(factory=dict)


def checkpoint(
    disk: Disk,
    layout: Layout,
    journal: Journal,
    stamp: Callable[[], Stamp],
    *,
    history_limit: int,
    root: Root = NOTHING,
) -> CheckpointReport:
    """Write everything that is accepted and not in the files yet, and finish what another process left.

    Scopes whose files somebody else changed give way to those bytes first (J6).

    Args:
      stamp: who acts and when, with a fresh id at each call.
      history_limit: how much history a session's run record tells (limit + 1 boundaries).
      root: what this process has in memory; the files of these scopes are compared, not parsed.

    Raises:
      StoreError: E_DISK, E_BUSY or E_BROKEN; nothing acknowledged is lost, call it again when the cause is gone.
    """
    finish_prepared(disk, layout, journal)
    superseded: list[str] = []
    for _ in range(_ROUNDS_MAX):
        view = journal.view(None)
        dirty = _dirty_scopes(view.rows)
        if not dirty:
            pruned = 0
            if view.rows:  # rows that concern no file: of a superseded scope, of requests that changed nothing
                journal.finish(CheckpointList(view.head, {}, {}, ()))
                pruned = journal.prune(HISTORY_LIMIT_MAX, REQUESTS_KEPT)  # C3
            return CheckpointReport(through=view.head, superseded=tuple(superseded), pruned_rows=pruned)
        loaded = load(disk, layout, journal, _with_neighbours(dirty), after=None, known=root.images.keys())
        if not root.reaches(loaded):
            root = NOTHING
            continue
        foreign = [item for item in loaded.scopes.values() if item.is_foreign]
        if not foreign:
            found = _images(loaded.scopes, loaded.view.rows, root)
            report = _write(disk, layout, journal, loaded, found, dirty, stamp().new_id, history_limit)
            return attrs.evolve(report, superseded=tuple(superseded))
        # One at a time: each adds a row, so the next must be judged on a new look.
        if supersede(disk, layout, journal, foreign[0], loaded.view, stamp()):
            superseded.append(foreign[0].wanted.scope)
    raise StoreError("E_BUSY", f"{layout.root}: other writers kept changing the files; ask again", path=layout.root)


def _write(
    disk: Disk,
    layout: Layout,
    journal: Journal,
    loaded: Loaded,
    found: tuple[Mapping[str, ScopeImage], Mapping[str, StrataflowError]],
    dirty: Mapping[str, Wanted],
    token: str,
    history_limit: int,
) -> CheckpointReport:
    view = loaded.view
    images, errors = found
    blocked = {name: error for name, error in errors.items() if name in dirty}
    staging = Staging(disk, layout, token)
    try:
        for name in sorted(dirty.keys() - blocked.keys()):
            try:
                staging.add(
                    name, loaded.scopes[name], _encode(disk, layout, images, loaded.scopes[name], history_limit)
                )
            except StoreError as error:
                if error.code == "E_DISK" and error.data.get("errno") in _FULL:
                    raise
                # Trouble in one folder is that scope's trouble (Ours-17).
                blocked[name] = error
        through = _through(view, dirty.keys() - blocked.keys())
        prepared = staging.sealed(through, view.head, images, loaded.scopes)
        if prepared.after:
            journal.prepare(prepared)  # C2
    except BaseException as error:
        # Of unknown outcome, the list may be there when the journal is opened again, and then its files must be (C4).
        if not (isinstance(error, StoreError) and error.code == "E_BROKEN"):
            staging.discard()
        raise
    done = finish_prepared(disk, layout, journal)
    return CheckpointReport(
        # What the journal says now: a scope may have turned out to be foreign, or all of them blocked.
        through=journal.view(view.head).checkpointed_through,
        scopes=tuple(name for name in prepared.after if name not in done.left_out),
        files=len(prepared.moves),
        size_bytes=staging.size_bytes,
        pruned_rows=journal.prune(HISTORY_LIMIT_MAX, REQUESTS_KEPT),  # C3
        blocked={**blocked, **done.refused},
    )


def _dirty_scopes(rows: Sequence[Row]) -> dict[str, Wanted]:
    """The scopes that rows beyond the last checkpoint change, with who owns them."""
    dirty: dict[str, Wanted] = {}
    for row in rows:
        address = row.content.address
        for scope in sorted(row.touches()):  # the order of effects must not follow that of a set
            kind = scope_kind(scope)
            assert address is not None
            dirty[scope] = Wanted(
                scope,
                address.cwd if kind != "global" else None,
                address.session_id if kind == "session" else None,
            )
    return dirty


def _with_neighbours(dirty: Mapping[str, Wanted]) -> list[Wanted]:
    """Dirty scopes and the shared scopes that dirty sessions also read: their run records tell of those boundaries."""
    wanted = dict(dirty)
    for item in dirty.values():
        if scope_kind(item.scope) == "session":
            assert item.cwd is not None
            wanted.setdefault("", Wanted(""))
            folder = item.scope.partition("/")[0]
            wanted.setdefault(folder, Wanted(folder, item.cwd))
    return list(wanted.values())


def _images(
    loaded: Mapping[str, LoadedScope], rows: Iterable[Row], root: Root
) -> tuple[dict[str, ScopeImage], dict[str, StrataflowError]]:
    """Each usable scope with the rows on top that it, in memory or in its files, does not contain; and the others."""
    images, through = {}, {}
    errors = {name: item.error for name, item in loaded.items() if item.error is not None}
    for name, item in loaded.items():
        if item.error is None and name in root.images:
            images[name], through[name] = root.images[name], root.head
        elif item.error is None:
            images[name], through[name] = image_of(item), item.through
    for row in rows:
        for scope in row.touches() & images.keys():
            if row.seq > through[scope]:
                try:
                    images[scope] = images[scope].apply(row)
                except StoreError as error:
                    errors[scope] = error
                    del images[scope]
    return images, errors


def _encode(
    disk: Disk, layout: Layout, images: Mapping[str, ScopeImage], found: LoadedScope, history_limit: int
) -> dict[str, bytes]:
    """The canonical files of one scope, all of them; nothing if no row changed them."""
    scope = found.wanted.scope
    image = images[scope]
    if image.state is None or (found.base is not None and image.last_seq == found.base.last_seq):
        return {}
    kind = scope_kind(scope)
    foreign_meta = foreign_members(disk.read(layout.file(scope, META)), is_session=kind == "session")
    files = encode_scope(image.state, owner_cwd=image.cwd if kind == "cwd" else None, foreign_meta=foreign_meta)
    if kind == "session":
        assert image.run is not None
        assert image.cwd is not None
        assert image.session_id is not None
        address = SessionAddress(image.cwd, image.session_id, scope.partition("/")[2])
        trio = [images.get(address.scope(name)) for name in ("global", "cwd")]
        shared = [item for item in trio if item is not None]
        lineage = session_lineage(image, *shared)
        assert lineage is not None
        states = [item.state for item in (*shared, image) if item.state is not None]
        boundaries = lineage.boundaries(states, history_limit)
        files |= encode_session(image.run, legal_suffix(boundaries), address)
    return files


def _through(view: JournalView, written: Set[str]) -> int:
    """Up to where every row is in the files once this checkpoint is done: before the first row that is left out.

    Left out are scopes that are blocked, and those whose first row came after this checkpoint chose what to write.
    """
    for row in view.rows:
        if not row.touches() <= written:
            return row.seq - 1
    return view.head
