"""Watching memory: ``session.watch`` and ``session.wait_for``.

A watch is a place to stand, not a task: what has changed is found out when somebody asks for it, in the task that asks.
So cancelling that task loses nothing, a watch that nobody reads costs a few names, and one that is dropped without
``aclose`` is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine
from types import TracebackType
from typing import Any, Final, final

import attrs
import trio

from ..actors import Listener, SessionCell, WatchHub
from ..store import CallError, Change, MemoryStore, Row, SessionAddress, StoreError, WatchedPaths, detach, shown

# Each commit looks at the paths of every watch that is concerned.
WATCH_PATHS_MAX: Final = 1_000


@attrs.frozen(eq=False)
class Sight:
    """What a session's watches need of it. ``check`` raises StoreError E_CLOSED once the session has ended."""

    cell: SessionCell
    state: MemoryStore
    hub: WatchHub
    check: Callable[[], None]


@final
@attrs.define(eq=False)
class _Ear(Listener):
    """What the hub knows of a watch."""

    watched: WatchedPaths

    def note(self, scope: str, row: Row | None) -> None:
        """See ``Listener.note``."""
        if self.watched.note(scope, row):
            self.lot.unpark_all()


@final
@attrs.define(eq=False, repr=False)
class Watch:
    """Changes of memory as an async iterator; made by ``Session.watch``.

    Use it in ``async for``, or call ``anext`` as often as you like. The iteration ends when the session, its runtime or
    the process it was opened in ends, and after ``aclose``.
    """

    _sight: Sight
    _address: SessionAddress
    _ear: _Ear
    _is_closed: bool = attrs.field(default=False, init=False)

    def __repr__(self) -> str:
        return f"<Watch of {shown(self._address.session_id)}{' closed' if self._is_closed else ''}>"

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        """The next change. There is at most one for each scope at a time: what came after it is part of it.

        Always a checkpoint. If it raises Cancelled, nothing is lost: the next call gives what this one would have.

        Raises:
          StopAsyncIteration: nothing will change here any more.
          CallError: E_OFF, as long as the session is off.
        """
        await trio.lowlevel.checkpoint()
        while True:
            try:
                self._check()
            except StoreError:
                self._end()
                raise StopAsyncIteration from None
            address = self._sight.cell.readable()
            if address != self._address:
                self._move(address)
            state = self._sight.state
            change = self._ear.watched.next_change(state.view(address), state.revision(address))
            if change is not None:
                return change
            await self._sight.hub.park(self._ear)

    def _check(self) -> None:
        if self._is_closed:
            raise StoreError("E_CLOSED", "this watch was closed; watch anew")
        self._sight.check()

    def _move(self, address: SessionAddress) -> None:
        """The session's folder was given another name while the session was off."""
        self._sight.hub.remove(self._ear)
        self._address = address
        self._ear.watched.place(address)
        self._ear.watched.note_all()
        self._sight.hub.add(self._ear, self._sight.cell.watched())

    def _end(self) -> None:
        self._is_closed = True
        self._sight.hub.remove(self._ear)

    async def aclose(self) -> None:
        """End the watch: whoever waits for its next change gets StopAsyncIteration. Idempotent.

        Always a checkpoint. If it raises Cancelled, the watch has ended.
        """
        self._end()
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Watch:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        await trio.lowlevel.checkpoint()


def begin_watch(sight: Sight, paths: tuple[str, ...]) -> Watch:
    """See ``Session.watch``."""
    sight.check()
    if len(paths) > WATCH_PATHS_MAX or any(type(path) is not str for path in paths):
        raise CallError("E_SHAPE", f"paths are strings, at most {WATCH_PATHS_MAX}; watch their common parent")
    address = sight.cell.readable()
    ear = _Ear(WatchedPaths.of(paths, address, sight.state.view(address)))
    sight.hub.add(ear, sight.cell.watched())
    return Watch(sight, address, ear)


async def wait_for(sight: Sight, path: str, predicate: Callable[[Any], Any]) -> Any:
    """See ``Session.wait_for``."""
    await trio.lowlevel.checkpoint()
    watch = begin_watch(sight, (path,))
    try:
        while True:
            found = watch._ear.watched.told(path)
            if found.error is not None:
                raise type(found.error)(found.error.code, found.error.message, **found.error.data) from found.error
            verdict = predicate(detach(found.value))
            if iscoroutine(verdict):
                verdict.close()
                raise CallError("E_SHAPE", "the predicate answers at once; it must not be async")
            if verdict:
                return detach(found.value)
            await _next(watch)
    finally:
        watch._end()


async def _next(watch: Watch) -> None:
    async for _ in watch:
        return
    watch._sight.check()  # says what has ended
