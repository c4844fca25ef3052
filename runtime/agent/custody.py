"""Who has a message between ``steer`` and the transcript: the queues, in memory and on disk, and the recorder.

Invariants:
  C1  A change of the queues on disk and the one in memory belong together: once the blocking call has ended, memory
      follows without a checkpoint, whatever else is raised.
  C2  Blocking calls run one at a time, in a worker thread, and are never left half-way.
  C3  What is in the transcript and could not be recorded is recorded before anything else is: the session file is a
      beginning of the transcript, never one with a gap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar, final

import attrs
import trio

from .messages import AgentMessage
from .queue_file import QueueFile
from .queues import LANES, Queues
from .step_types import Lane

T = TypeVar("T")


class Work(Protocol):
    """Runs a blocking call in a worker thread. A cancellation waits for its end."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(call: Callable[[], T]) -> T:
    """``Work`` by trio's own threads, which a cancellation does not abandon: half-written files would be left."""
    return await trio.to_thread.run_sync(call)


@final
@attrs.define(eq=False)
class Custody:
    """The queues of one agent, and where its messages are recorded. ``file`` is None without a session."""

    file: QueueFile | None
    work: Work
    new_id: Callable[[], str]
    queues: Queues = attrs.field(factory=Queues, init=False)
    # In the transcript, and still to be recorded (C3).
    _owed: list[AgentMessage] = attrs.field(factory=list, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _is_loaded: bool = attrs.field(default=False, init=False)

    async def load(self) -> None:
        """Take over what waited when the last program ended. Once; a cancellation leaves it for the next call."""
        if self.file is None or self._is_loaded:
            return
        async with self._lock:
            if not self._is_loaded:
                for each in await self.work(self.file.load):
                    self.queues.add(each.lane, each.queue_id, each.message)
                self._is_loaded = True

    async def add(self, lane: Lane, message: AgentMessage) -> None:
        """Put a message into a queue. Cancelled: it is in the queue wholly or not at all."""
        queue_id = self.new_id()
        if self.file is None:
            self.queues.add(lane, queue_id, message)
            await trio.lowlevel.checkpoint()
            return
        file = self.file
        await self.load()
        await self._both(lambda: file.add(queue_id, lane, message), lambda: self.queues.add(lane, queue_id, message))

    async def clear(self, lanes: Iterable[Lane] = LANES) -> None:
        """Drop what waits, but not what is about to be delivered. Cancelled: all of it or nothing."""
        if self.file is not None:
            await self.load()
        gone = self.queues.waiting(lanes)

        def forget() -> None:
            for queue_id in gone:
                self.queues.delivered(queue_id)

        if self.file is None or not gone:
            forget()
            await trio.lowlevel.checkpoint()
            return
        file = self.file
        await self._both(lambda: file.remove(gone), forget)

    async def record(self, message: AgentMessage, queue_id: str | None, then: Callable[[], None]) -> None:
        """Record a message and let it go from its queue. ``then`` puts it into the transcript in the same moment."""

        def arrived() -> None:
            if queue_id is not None:
                self.queues.delivered(queue_id)
            then()

        if self.file is None:
            arrived()
            return
        file = self.file

        def record() -> None:
            self._pay(file)
            file.record(message, queue_id)

        await self._both(record, arrived)

    def owe(self, message: AgentMessage) -> None:
        """A message is in the transcript that could not be recorded (C3)."""
        if self.file is not None:
            self._owed.append(message)

    @property
    def has_debts(self) -> bool:
        """Whether anything is owed."""
        return bool(self._owed)

    async def pay(self) -> None:
        """Record what could not be recorded before. Cancelled: what was recorded is known to be."""
        file = self.file
        if file is not None and self._owed:
            await self._both(lambda: self._pay(file), lambda: None)

    def _pay(self, file: QueueFile) -> None:
        while self._owed:
            file.record(self._owed[0], None)
            del self._owed[0]

    async def _both(self, on_disk: Callable[[], Any], in_memory: Callable[[], None]) -> None:
        is_done = False

        def call() -> None:
            nonlocal is_done
            on_disk()
            is_done = True

        async with self._lock:
            try:
                await self.work(call)  # C2
            finally:
                if is_done:
                    in_memory()  # C1
