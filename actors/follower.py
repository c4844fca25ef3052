"""The root follows the journal: rows that other processes append, scopes that must be read, sessions that open.

Other processes' rows are applied between rounds or at the beginning of one; files are read in worker threads and
installed while the root is held, so that nothing is installed in the middle of an append.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import final

import attrs
import trio

from ..store import (
    Journal,
    Loaded,
    MemoryStore,
    NewRow,
    Row,
    SessionAddress,
    Stamp,
    StoreError,
    Wanted,
    changed_scopes,
    find_session,
    load_for_writing,
    old_formats,
    restore_folders,
    wanted_scopes,
    write_aside,
)
from .limits import ALONE_S, FOLLOW_SLICE
from .store_world import StoreWorld


@final
@attrs.define(eq=False)
class Follower:
    """Keeps the root up to date. ``note_work`` is called when rows of others came."""

    _world: StoreWorld
    _state: MemoryStore
    _note_work: Callable[[], None]
    # Held while the root changes.
    root: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _others_s: float = attrs.field(default=-math.inf, init=False)

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has written for a while: then an append may be staged without reading first."""
        lately = trio.current_time() - self._others_s < ALONE_S
        return not lately and not self._state.stale and self._world.shared_pi is None

    def note_others(self) -> None:
        """Somebody else was faster, or has written."""
        self._others_s = trio.current_time()

    async def follow_far(self) -> None:
        """Far behind: catch up in slices without the turn, so that nobody waits for it."""
        while len(rows := self._world.journal.rows_since(self._state.head, FOLLOW_SLICE)) == FOLLOW_SLICE:
            async with self.root:
                await self._apply(self._world.journal, rows)

    async def follow(self, journal: Journal) -> bool:
        """What others have appended; with the turn held, that is all there is. False: far behind, give it back."""
        rows = journal.rows_since(self._state.head, FOLLOW_SLICE)
        if len(rows) == FOLLOW_SLICE:
            return False
        if rows:
            await self._apply(journal, rows)
        if self._state.stale:
            await self._reload([*self._state.stale])
        return True

    async def _apply(self, journal: Journal, rows: Sequence[Row]) -> None:
        if not self._state.is_followed_by(rows):
            # Rows in between have been pruned: they are in the files by now (J1).
            await self._reload(None)
            return
        if self._world.level == "power" and rows[-1].level == "process":
            await self._world.threads.commit(journal.sync)  # M3
        self._state.follow(rows)
        self.note_others()
        self._note_work()

    async def refresh(self) -> None:
        """Everything that others have appended up to now.

        The root comes first: an append that is under way holds the journal in its thread, and the loop must not wait
        for that.
        """
        is_far = True
        while is_far:
            async with self.root:
                rows = self._world.journal.rows_since(self._state.head, FOLLOW_SLICE)
                if rows:
                    await self._apply(self._world.journal, rows)
                if self._state.stale:
                    await self._reload([*self._state.stale])
                is_far = len(rows) == FOLLOW_SLICE

    async def has_news(self) -> bool:
        """Whether others have appended something that was not followed yet."""
        async with self.root:
            return bool(self._state.stale or self._world.journal.rows_since(self._state.head, 1))

    async def _reload(self, scopes: Sequence[str] | None) -> None:
        """Read scopes anew from files and rows; None: everything. The root must be held."""
        if scopes is not None:
            wanted = [item for item in self._state.wanted() if item.scope in scopes]
            if self._state.install(await self._load(wanted, self._state.head)):
                return
        # Everything, also where a part was not enough: the rows that belong on top of it are gone from memory.
        self._state.install(await self._load(self._state.wanted(), None), whole=True)

    async def _load(self, wanted: Sequence[Wanted], after: int | None) -> Loaded:
        ground, journal = self._world.ground, self._world.journal

        def load() -> Loaded:
            loaded = load_for_writing(ground, journal, wanted, self.stamp, after=after)
            if self._world.level == "power" and any(row.level == "process" for row in loaded.view.rows):
                journal.sync()  # M3
            return loaded

        return await self._world.threads.work(load)

    async def open(self, cwd: str, session_id: str, kept_out: AbstractAsyncContextManager[None]) -> SessionAddress:
        """Find a session and load what is not known of its scopes. ``kept_out`` keeps Pi out meanwhile, if shared."""
        ground, pending = self._world.ground, tuple(self._state.pending)

        def find() -> tuple[SessionAddress, dict[str, StoreError]]:
            address = find_session(ground, cwd, session_id, pending)
            return address, old_formats(ground, address)

        address, blocked = await self._world.threads.work(find)
        self._state.check_owner(address)
        # Pi may be half-way through writing what is read here, unless it is kept out meanwhile.
        async with kept_out:
            wanted = self._missing(address)
            while True:
                await self.refresh()
                loaded = await self._load(wanted, self._state.head)
                for found in loaded.scopes.values():
                    if found.error is not None and "owner" in found.error.data:
                        # Not kept as the folder's trouble: its rightful directory may be open here too.
                        raise found.error
                async with self.root:
                    self._state.check_owner(address)
                    if not self._state.install(loaded):
                        await self._reload(None)
                    else:
                        wanted = self._lacking(address, wanted)
                        if not wanted:
                            self._state.accept(address, blocked)
                            return address

    def _missing(self, address: SessionAddress) -> Sequence[Wanted]:
        """What must be read to open a session: what is not known yet, or not as this process may use it."""
        state = self._state
        missing = [
            item
            for item in wanted_scopes(address)
            if item.scope not in state.images or item.scope in state.fences or item.scope in state.errors
        ]
        return wanted_scopes(address) if self._is_undecided(address) else missing

    def _lacking(self, address: SessionAddress, loaded: Sequence[Wanted]) -> Sequence[Wanted]:
        """What must be read once more: all, to judge the lineage, or what another session's closing has dropped."""
        state, everything = self._state, wanted_scopes(address)
        if len(loaded) < len(everything) and self._is_undecided(address):
            return everything
        return [item for item in everything if item.scope not in state.images and item.scope not in state.errors]

    def _is_undecided(self, address: SessionAddress) -> bool:
        """Whether the session's lineage is one of its files that was not judged beside its shared scopes yet."""
        session = self._state.image(address.scope("session"))
        return session.run is not None and session.lineage is None

    async def close(self, address: SessionAddress) -> None:
        """Forget the scopes of a session that nobody has open any more."""
        async with self.root:
            self._state.release(address)

    async def compare(self) -> None:
        """Shared with Pi: what Pi wrote since we looked wins (store 2.2). The root and Pi's lock are held."""
        ground, journal, wanted = self._world.ground, self._world.journal, self._state.wanted()
        changed = await self._world.threads.work(lambda: changed_scopes(ground, journal, wanted))
        if changed:
            await self._reload(changed)

    async def check_ground(self, journal: Journal) -> None:
        """Before an answer that rests on no append of its own (J9).

        Raises:
          StoreError: E_BROKEN, the journal's files were replaced.
        """
        if not journal.is_on_its_ground():
            raise await self.keep_aside(())

    async def keep_aside(self, rows: Sequence[NewRow]) -> StoreError:
        """Somebody replaced the files under the journal: everything that they may not hold is kept aside (J9).

        Returns the error with which this life must end.
        """
        kept = [*self._state.pending, *(row.at(self._state.head + 1 + n) for n, row in enumerate(rows))]
        ground, stamp = self._world.ground, self.stamp()

        def keep() -> str | None:
            restore_folders(ground)
            return write_aside(ground.disk, ground.layout, kept, None, stamp)

        path = await self._world.threads.work(keep)
        self._world.report("journal-replaced", path=path)
        return StoreError(
            "E_BROKEN",
            f"{ground.layout.private()}: the journal's files were replaced while the store was open; "
            + (f"what they may not hold is kept in {path}" if path else "the canonical files hold everything"),
            path=path,
        )

    async def recover(self) -> None:
        """After a life that broke: open the journal again; SQLite's own recovery says what the disk holds (M4)."""
        if self._world.is_used:
            await self._world.reconnect()
            async with self.root:
                await self._reload(None)
        self._world.is_used = True

    def stamp(self) -> Stamp:
        """Who acts, and when."""
        world = self._world
        return Stamp(self._state.writer, world.level, world.clock.wall_ms(), world.ids.new_id())
