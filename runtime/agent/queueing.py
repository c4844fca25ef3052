"""The part of an agent that is about its queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from .custody import Custody
from .errors import closed
from .host import AgentHost
from .messages import AgentMessage, messages_of
from .queues import LANES
from .step_types import Lane

T = TypeVar("T")


class Queueing:
    """What waits to steer a run, and what waits to follow it. Any time, by any task."""

    _custody: Custody
    _now_ms: Callable[[], int]
    _host: AgentHost
    _is_closed: bool
    expand: Callable[[str], str] | None

    async def steer(self, message: str | AgentMessage) -> None:
        """Queue a message for the next turn of the run, or of the next run.

        With a recorder it is on disk when this returns. Cancelled: it is queued wholly or not at all. Raises TypeError
        for what is no message; with a recorder CallError E_JSON for what no session can keep, StoreError of the disk.
        """
        await self._queue("steering", message)

    async def follow_up(self, message: str | AgentMessage) -> None:
        """Queue a message for when the agent would stop. As ``steer`` otherwise."""
        await self._queue("follow_up", message)

    async def clear_steering_queue(self) -> None:
        """Drop what waits to steer. What a run has taken already is delivered."""
        await self._clear(("steering",))

    async def clear_follow_up_queue(self) -> None:
        """Drop what waits to follow."""
        await self._clear(("follow_up",))

    async def clear_all_queues(self) -> None:
        """Drop all that waits."""
        await self._clear(LANES)

    @property
    def has_queued_messages(self) -> bool:
        """Whether anything is on its way to the transcript."""
        return not self._custody.queues.is_empty

    def queued(self, lane: Lane) -> list[AgentMessage]:
        """What is queued, oldest first: ``"steering"`` or ``"follow_up"``."""
        return self._custody.queues.messages(lane)

    async def _queue(self, lane: Lane, message: str | AgentMessage) -> None:
        if self._is_closed:
            raise closed()
        (whole,) = messages_of(self._expanded(message), (), self._now_ms())
        await self._custody.add(lane, whole)
        await self._host.queued()

    async def _clear(self, lanes: Sequence[Lane]) -> None:
        await self._custody.clear(lanes)
        await self._host.queued()

    def _expanded(self, said: T) -> T | str:
        """A text as it is meant: with skills and templates in place of their names."""
        return self.expand(said) if self.expand is not None and isinstance(said, str) else said
