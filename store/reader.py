"""Reading a store without opening it: for ``read``, ``log``, ``status`` and ``doctor`` (J10, Ours-18).

No session is opened, no lock of ours or Pi's is taken and no file is changed, so it works beside a running store and
on one that may not be written. What is seen is the canonical files as of the last checkpoint with the journal's rows
on top. Files that somebody else changed count as they are, as they will when the store is opened (J6).

Invariants:
  V1  One look is one moment: all scopes stand at the same row of the journal.
  V2  A scope that is damaged takes nothing else with it; what does not exist reads as empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from .algebra import (
    HISTORY_LIMIT_DEFAULT,
    SCOPES,
    Boundary,
    Lineage,
    ScopeName,
    ScopeState,
    StoreError,
    StrataflowError,
    View,
    empty_scope,
)
from .image import ScopeImage, fresh_lineage, image_of, revision_text, session_lineage
from .journal_reader import JournalLook
from .journal_types import JournalView
from .layout import Layout, SessionAddress, check_session_id, cwd_key, normalise_cwd
from .loading import Loaded, LoadedScope, Wanted, adopt_lineage, load, wanted_scopes
from .membership import Ground
from .opening import find_session
from .path_log import LogEntry, entry_of, log_of_session
from .rows import Row

_ABSENT = empty_scope(Boundary("absent", None, 0))


@attrs.frozen
class StoreLook:
    """What one session can see of a store at one moment.

    Attributes:
      address: the session; None if only global and cwd were asked for.
      images: the three scopes, in the order global, cwd, session.
      errors: scopes that can not be read, with the reason.
      journal: the journal as it was; its rows are those not in the canonical files yet.
    """

    layout: Layout
    cwd: str
    address: SessionAddress | None
    images: tuple[ScopeImage, ScopeImage, ScopeImage]
    errors: Mapping[ScopeName, StrataflowError]
    journal: JournalView
    history_limit: int
    _loaded: Mapping[str, LoadedScope]

    @property
    def revision(self) -> str:
        """The vector of the three revisions, such as ``"g15c8s31"``."""
        return revision_text(self.images)

    def states(self) -> list[ScopeState]:
        """The scopes that exist and can be read."""
        return [image.state for image in self.images if image.state is not None]

    def boundaries(self) -> tuple[Boundary, ...]:
        """The visible history, oldest first, the head last.

        Raises:
          StoreError: E_CORRUPT if the session's run record tells of a history that can not have been.
        """
        return self._lineage().boundaries(self.states() or [_ABSENT], self.history_limit)

    def view(self) -> View:
        """What the algebra's ``read`` takes. The past is worked out only if a path asks for it."""
        scopes: dict[ScopeName, ScopeState] = {}
        for name, image in zip(SCOPES, self.images, strict=True):
            if name not in self.errors:
                scopes[name] = image.state or _ABSENT
        return View(scopes, self.boundaries, self.history_limit, dict(self.errors))

    def _lineage(self) -> Lineage:
        shared, cwd, session = self.images
        position = max((state.newest.position for state in self.states()), default=0)
        fresh = fresh_lineage("passive:files", max(position, self.journal.position) + 1)
        if session.run is None or self.address is None or any(item.is_foreign for item in self._loaded.values()):
            # A fresh origin, which an opener would note too: how foreign bytes came about is unknown (Ours-15).
            return fresh
        if session.lineage is None:
            own = adopt_lineage(self.layout, self.address, self._loaded)
            session = attrs.evolve(session, lineage=own or fresh)
        lineage = session_lineage(session, shared, cwd)
        assert lineage is not None
        return lineage


@attrs.frozen
class StoreReader:
    """Looks at one store. Blocking; call it in a worker thread where an event loop runs."""

    ground: Ground
    journal: JournalLook

    def look(self, cwd: str, session_id: str | None = None, history_limit: int = HISTORY_LIMIT_DEFAULT) -> StoreLook:
        """One moment of a session's three scopes, or of global and cwd alone (V1, V2).

        Raises:
          StoreError: E_UNSUPPORTED for a cwd or id that can not be a name, E_BRANCH if several sessions could be
            meant, E_BUSY if the files kept changing for five rounds, E_CORRUPT or E_DISK for the journal.
        """
        unreadable: StoreError | None = None
        try:
            address, wanted = self._wanted(normalise_cwd(cwd), session_id)
        except StoreError as error:
            if error.code != "E_DISK":
                raise
            # Where the session lies can not be told, so it is unreadable and never missing; the rest is (V2).
            unreadable = error
            address, wanted = self._wanted(normalise_cwd(cwd), None)
        loaded = load(self.ground.disk, self.ground.layout, self.journal, wanted, after=None)
        images, errors = _images(wanted, loaded)
        if unreadable is not None:
            errors["session"] = unreadable
        return StoreLook(
            layout=self.ground.layout,
            cwd=normalise_cwd(cwd),
            address=address,
            images=images,
            errors=errors,
            journal=loaded.view,
            history_limit=history_limit,
            loaded=loaded.scopes,
        )

    def view(self, cwd: str, session_id: str | None = None, history_limit: int = HISTORY_LIMIT_DEFAULT) -> View:
        """What a session reads, for the algebra's ``read``. Raises as ``look``."""
        return self.look(cwd, session_id, history_limit).view()

    def log(self, limit: int, cwd: str | None = None, session_id: str | None = None) -> list[LogEntry]:
        """The newest accepted transitions that the journal still holds, the newest last.

        Raises:
          StoreError: as ``look``.
        """
        cwd = None if cwd is None else normalise_cwd(cwd)
        session_id = None if session_id is None else check_session_id(session_id)
        return [entry_of(row) for row in self.journal.log(limit, cwd, session_id)]

    def log_of_session(self, cwd: str, session_id: str, path: str | None, limit: int) -> list[LogEntry]:
        """The newest retained transitions that a session can see and that touched ``path``, the newest last.

        Raises:
          ReadError: the path.
          StoreError: as ``look``.
        """
        address = find_session(self.ground, normalise_cwd(cwd), session_id, self.journal.view(None).rows)
        return log_of_session(self.journal, address, path, limit)

    def _wanted(self, cwd: str, session_id: str | None) -> tuple[SessionAddress | None, tuple[Wanted, ...]]:
        if session_id is None:
            return None, (Wanted(""), Wanted(cwd_key(cwd), cwd))
        address = find_session(self.ground, cwd, session_id, self.journal.view(None).rows)
        return address, wanted_scopes(address)


def _images(
    wanted: Sequence[Wanted], loaded: Loaded
) -> tuple[tuple[ScopeImage, ScopeImage, ScopeImage], dict[ScopeName, StrataflowError]]:
    """Each scope at the journal's head, and those that can not be read."""
    images = [ScopeImage(""), ScopeImage(""), ScopeImage("")]
    errors: dict[ScopeName, StrataflowError] = {}
    for number, (name, item) in enumerate(zip(SCOPES, wanted, strict=False)):
        found = loaded.scopes[item.scope]
        try:
            if found.error is not None:
                raise found.error
            images[number] = replayed(found, loaded.view.rows)
        except StrataflowError as error:
            errors[name] = error
    if images[0].state is None and images[1].state is not None and "global" not in errors:
        # A patch would begin a new one; a reader must not take what is lost for what never was (store 3.2.6).
        errors["global"] = StoreError(
            "E_CORRUPT", "global memory is missing beside the memory of a directory; restore it or patch it anew"
        )
    return (images[0], images[1], images[2]), errors


def replayed(found: LoadedScope, rows: Sequence[Row]) -> ScopeImage:
    """A readable scope with the rows on top that its files do not contain."""
    image = image_of(found)
    if found.is_foreign:
        # Rows may have come since these files were judged; they give way as the others do.
        return image
    for row in rows:
        if row.seq > found.through and image.scope in row.touches():
            image = image.apply(row)
    return image
