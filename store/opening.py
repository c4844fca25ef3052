"""Opening sessions for writing: find the folder, read the scopes, settle what the journal does not know yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from .algebra import SCOPES, Lineage, StoreError, shown
from .foreign import Stamp, supersede
from .journal_types import Base, Journal
from .layout import (
    SessionAddress,
    check_session_id,
    check_session_key,
    cwd_key,
    is_session_key,
    normalise_cwd,
    scope_kind,
)
from .loading import Loaded, LoadedScope, Wanted, adopt_lineage, load
from .membership import Ground
from .rows import Row
from .scope_files import read_scope, refuse_old_state

_ROUNDS_MAX = 50


def find_session(ground: Ground, cwd: str, session_id: str, rows: Iterable[Row]) -> SessionAddress:
    """Where a session lies (Ours-19): the folder ``<id>``, the only folder ``*_<id>``, else a new ``<id>``.

    Args:
      rows: rows that may not be in the files yet; a session may exist in them alone.

    Raises:
      StoreError: E_UNSUPPORTED for a cwd or id that can not be a name, E_BRANCH if several folders could be meant.
    """
    cwd = normalise_cwd(cwd)
    check_session_id(session_id)
    folder = cwd_key(cwd)
    for row in rows:
        address = row.content.address
        if address is not None and address.cwd == cwd and address.session_id == session_id:
            return address
    try:
        names = [] if _exists(ground, folder, session_id) else _dated(ground, folder, session_id)
    except StoreError as error:
        if error.code != "E_CORRUPT":
            raise
        # A link or a file where the folder should be: every file below it is refused as it is read, and what lies
        # elsewhere can still be read (Ours-18).
        names = []
    if len(names) > 1:
        few = ", ".join(map(shown, names[:3])) + (", …" if len(names) > 3 else "")
        raise StoreError(
            "E_BRANCH", f"session {shown(session_id)} could be any of {few}: name one of them", names=names
        )
    return SessionAddress(cwd, session_id, check_session_key(names[0] if names else session_id))


def _exists(ground: Ground, folder: str, key: str) -> bool:
    # What is no name of a folder (as "..") is not looked for: it would be found.
    return is_session_key(key) and ground.disk.stat(ground.layout.folder(f"{folder}/{key}")) is not None


def _dated(ground: Ground, folder: str, session_id: str) -> list[str]:
    names = ground.disk.list(ground.layout.folder(folder)) or []
    return [name for name in names if name.endswith("_" + session_id)]


def load_for_writing(
    ground: Ground, journal: Journal, wanted: Sequence[Wanted], stamp: Callable[[], Stamp], *, after: int | None
) -> Loaded:
    """As ``load``; besides, foreign bytes win (J6) and files seen for the first time are noted with their identity.

    From here on the journal knows all files of these scopes, so that a later change by others is noticed.

    Raises:
      StoreError: E_BUSY if others keep changing the files; errors of the journal.
    """
    for _ in range(_ROUNDS_MAX):
        loaded = load(ground.disk, ground.layout, journal, wanted, after=after)
        foreign = [found for found in loaded.scopes.values() if found.is_foreign]
        if foreign:
            supersede(ground.disk, ground.layout, journal, foreign[0], loaded.view, stamp())
            continue
        bases, refused = _first_bases(ground, loaded)
        if not bases:
            return attrs.evolve(loaded, scopes={**loaded.scopes, **refused})
        journal.note_bases(bases)
    raise StoreError("E_BUSY", f"{ground.layout.root}: other writers kept changing the files; ask again")


def changed_scopes(ground: Ground, journal: Journal, wanted: Sequence[Wanted]) -> list[str]:
    """The scopes whose files are not what the journal remembers of them: somebody else wrote them.

    For a store shared with Pi, with Pi kept out: no checkpoint is under way.
    """
    bases = journal.view(None, [item.scope for item in wanted]).bases
    changed = []
    for item in wanted:
        base = bases.get(item.scope)
        found = read_scope(ground.disk, ground.layout, item.scope).identity
        if base is None or found != base.identity:
            changed.append(item.scope)
    return changed


def _first_bases(ground: Ground, loaded: Loaded) -> tuple[dict[str, Base], dict[str, LoadedScope]]:
    """What the journal must note of scopes it does not know, and sessions whose lineage can never have been.

    A session is left for later while one of its shared scopes is unreadable or was not asked for: its lineage can be
    judged only beside them.
    """
    bases: dict[str, Base] = {}
    refused: dict[str, LoadedScope] = {}
    for scope, found in loaded.scopes.items():
        if found.base is not None or found.error is not None:
            continue
        lineage: Lineage | None = None
        if scope_kind(scope) == "session" and found.run is not None:
            assert found.wanted.cwd is not None
            assert found.wanted.session_id is not None
            address = SessionAddress(found.wanted.cwd, found.wanted.session_id, scope.partition("/")[2])
            beside = [loaded.scopes.get(address.scope(name)) for name in SCOPES]
            if any(item is None or item.error for item in beside):
                continue
            try:
                lineage = adopt_lineage(ground.layout, address, loaded.scopes)
            except StoreError as error:
                refused[scope] = attrs.evolve(found, error=error)
                continue
        floor = found.state.floor if found.state else 0
        bases[scope] = Base(identity=found.identity, through=0, floor=floor, lineage=lineage)
    return bases, refused


def old_formats(ground: Ground, address: SessionAddress) -> dict[str, StoreError]:
    """The scopes where a ``state.json`` of an old format keeps everybody from creating or writing (store 1.10)."""
    found = {}
    for _, scope in address.scopes():
        try:
            refuse_old_state(ground.disk, ground.layout, scope)
        except StoreError as error:
            found[scope] = error
    return found
