"""The hub: who waits for changes of the published root, and how they are woken.

::

    quiet --a row, a reload, a session that ends--> woken --looks at the root--> quiet, or done

It holds no changes. Whoever waits keeps what it has seen and compares it with the root when it is woken, so a
notice can not be lost between two waits, nothing piles up for those who never look, and publishing costs one call for
each listener of the scopes concerned. A queue for each watcher lost: it must be bounded, and then decide what to drop.

Invariants:
  W1  Telling the hub of a change never waits, never raises and never runs anybody's code but ``Listener.note``.
  W2  Between looking at the root and being parked there is no checkpoint, so that no change falls in between.
  W3  Listeners are held weakly: one that was dropped without a word is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import final
from weakref import WeakValueDictionary

import attrs
import trio

from ..store import Row

_NOBODY: WeakValueDictionary[int, Listener] = WeakValueDictionary()
# Scopes are swept of listeners that are gone when there are twice as many as after the last time.
_SWEEP_FIRST = 64


@attrs.define(eq=False)
class Listener:
    """Somebody who wants to know that ``scopes`` have changed. Tasks that wait for it are parked in ``lot``."""

    scopes: tuple[str, ...] = attrs.field(default=(), init=False)
    lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    def note(self, scope: str, row: Row | None) -> None:
        """This scope has changed, by ``row`` or because it was read anew. Called in the middle of publishing."""
        self.lot.unpark_all()


@final
@attrs.define(eq=False)
class WatchHub:
    """One per runtime; it outlives the lives of the store actor."""

    _by_scope: dict[str, WeakValueDictionary[int, Listener]] = attrs.field(factory=dict, init=False)
    _sweep_at: int = attrs.field(default=_SWEEP_FIRST, init=False)
    _waiting: int = attrs.field(default=0, init=False)
    _somebody: trio.Event = attrs.field(factory=trio.Event, init=False)

    # -- telling ------------------------------------------------------------------------------------------------

    def change(self, scopes: Collection[str], row: Row | None) -> None:
        """The root has changed in these scopes; see ``MemoryStore.on_change``. (W1)

        Sorted, a directory comes before its sessions: who listens to both hears of the narrowest scope last.
        """
        for scope in sorted(scopes) if self._by_scope else ():
            for listener in self._by_scope.get(scope, _NOBODY).values():
                listener.note(scope, row)

    def wake(self) -> None:
        """Everybody looks again: the runtime has ended."""
        for scope in [*self._by_scope]:
            self.wake_those_of(scope)

    def wake_those_of(self, scope: str) -> None:
        """Those who listen to this scope look again. Sessions have a name that works like one: see ``SessionCell``."""
        for listener in self._by_scope.get(scope, _NOBODY).values():
            listener.lot.unpark_all()

    # -- listening ----------------------------------------------------------------------------------------------

    def add(self, listener: Listener, scopes: Collection[str]) -> None:
        """Tell ``listener`` of every change in one of these scopes, for as long as it lives. (W3)"""
        listener.scopes = tuple(scopes)
        for scope in scopes:
            self._by_scope.setdefault(scope, WeakValueDictionary())[id(listener)] = listener
        if len(self._by_scope) >= self._sweep_at:
            self._by_scope = {scope: known for scope, known in self._by_scope.items() if known}
            self._sweep_at = max(_SWEEP_FIRST, 2 * len(self._by_scope))

    def remove(self, listener: Listener) -> None:
        """Tell ``listener`` nothing more; whoever waits for it looks once more."""
        for scope in listener.scopes:
            known = self._by_scope.get(scope)
            if known is not None:
                known.pop(id(listener), None)
                if not known:
                    del self._by_scope[scope]
        listener.scopes = ()
        listener.lot.unpark_all()

    async def park(self, listener: Listener) -> None:
        """Wait until ``listener`` is told of something. Nothing is lost if it raises Cancelled."""
        with self._counted():
            await listener.lot.park()

    async def wait_until(self, check: Callable[[], bool], scopes: Collection[str]) -> None:
        """Wait until ``check()`` is true; asked at once, after each change in one of ``scopes`` (their folders, or
        the session's name), and when the runtime ends. What it raises is raised here.

        Always a checkpoint, and none between a true ``check`` and the return. Holds nothing; Cancelled loses nothing.
        """
        listener = Listener()
        self.add(listener, scopes)
        try:
            await trio.lowlevel.checkpoint()
            while not check():  # W2
                await self.park(listener)
        finally:
            self.remove(listener)

    # -- for the task that follows other processes -----------------------------------------------------------------

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for a change now."""
        return self._waiting > 0

    async def wait_for_somebody(self) -> None:
        """Wait until somebody waits for a change."""
        while not self._waiting:
            self._somebody = trio.Event()
            await self._somebody.wait()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._waiting += 1
        self._somebody.set()
        try:
            yield
        finally:
            self._waiting -= 1
