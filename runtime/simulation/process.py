"""A process of a simulated world, as a workload sees it.

    begun --> open --workload returns--> closed          the next look at the store is somebody else's
                |------ asked to end -------> closed     as after a signal, which cancels the program
                |------ killed, power cut --> gone       the world begins its next life
                +------ the store fails ----> failed     as a program would: end, and be started again

Each of its lives is an object of its own; what one leaves to the next is in the store, and in its notes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, cast, final

import attrs
import trio

from ...store import HostEntries, Mode
from .halting import on_the_loop
from .recorded_runtime import RecordedRuntime
from .recorder import RecordedSession, Recorder

if TYPE_CHECKING:
    from ..assembly import Runtime


@final
@attrs.define(eq=False, repr=False)
class Process:
    """One life of a process: it has the store open, and ends when its workload returns, or sooner.

    Attributes:
      number: which process, from 0; the same in all its lives.
      life: which life, from 1.
      writers: the numbers of the writers that are this process's business.
      random: a generator that follows from the seed of the world, the number and the life.
      notes: what lives of this process leave for later ones, as a program does outside of its store. It outlives all.
    """

    number: int
    life: int
    writers: tuple[int, ...]
    random: random.Random
    notes: dict[str, object]
    _recorder: Recorder
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    # Around the program and its store: what a signal cancels.
    program: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    gone: trio.Event = attrs.field(factory=trio.Event, init=False)
    is_gone: bool = attrs.field(default=False, init=False)
    is_opening_or_closing: bool = attrs.field(default=True, init=False)
    _runtime: Runtime | None = attrs.field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<Process {self.name}{' gone' if self.is_gone else ''}>"

    @property
    def name(self) -> str:
        """A name that no other life has, such as ``"p1.2"``."""
        return f"p{self.number}.{self.life}"

    @property
    def runtime(self) -> Runtime:
        """The open store, for a server that takes a runtime: all calls of its sessions become part of the history."""
        return cast("Runtime", RecordedRuntime(self.unrecorded, self.open_session))

    @property
    def has_opened(self) -> bool:
        """Whether the store was open at some time."""
        return self._runtime is not None

    @property
    def unrecorded(self) -> Runtime:
        """The open store itself: what it does is in no history, and no fault comes of it."""
        assert self._runtime is not None, "the process has not opened its store yet"
        return self._runtime

    async def open_session(
        self,
        cwd: str,
        session_id: str = "main",
        mode: Mode | None = "active",
        entries: HostEntries | None = None,
        tree: bool | None = None,
    ) -> RecordedSession:
        """As ``runtime.open_session``, active unless one says otherwise.

        Cancellation and errors as there.
        """
        with self._recorder.call(self, cwd, session_id, "open"):
            session = await self.unrecorded.open_session(cwd, session_id, mode, entries=entries, tree=tree)
        return RecordedSession(session, self, self._recorder)

    def attach(self, runtime: Runtime) -> None:
        """The store is open."""
        self._runtime, self.is_opening_or_closing = runtime, False

    def detach(self) -> None:
        """It is about to be closed."""
        self.is_opening_or_closing = True

    def end(self, release: Callable[[str], None]) -> None:
        """It is gone: nothing of it happens any more. ``release`` frees what the machine holds for it."""
        if not self.is_gone:
            self.is_gone = True
            release(self.name)
            on_the_loop(self.scope.cancel)
            on_the_loop(self.gone.set)
