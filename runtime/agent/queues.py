"""The two queues of an agent, in memory. A message leaves its queue when it is in the transcript, not before.

::

    waiting ──take──> claimed ──delivered──> gone
       ^                 │
       └──── release ────┘   (the run ended before the message was in the transcript)

Invariants:
  Q1  A message is in exactly one place: waiting or claimed in its queue, or in the transcript.
  Q2  A claimed message keeps its place in the queue, so that a release restores the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, final

import attrs

from .messages import AgentMessage
from .step_types import Item, Lane

QueueMode: TypeAlias = Literal["one-at-a-time", "all"]
LANES: tuple[Lane, ...] = ("steering", "follow_up")


@final
@attrs.define(eq=False)
class Queues:
    """Both queues. Synchronous: no change can be seen half-made."""

    _lanes: dict[Lane, dict[str, AgentMessage]] = attrs.field(factory=lambda: {lane: {} for lane in LANES}, init=False)
    _claimed: set[str] = attrs.field(factory=set, init=False)

    def add(self, lane: Lane, queue_id: str, message: AgentMessage) -> None:
        """Put a message at the end."""
        self._lanes[lane][queue_id] = message

    def take(self, lane: Lane, mode: QueueMode) -> list[Item]:
        """Claim the oldest, or all, that wait. They stay in the queue until ``delivered``."""
        found = []
        for queue_id, message in self._lanes[lane].items():
            if queue_id not in self._claimed:
                found.append(Item(message, queue_id))
                if mode == "one-at-a-time":
                    break
        self._claimed.update(item.queue_id for item in found if item.queue_id is not None)
        return found

    def delivered(self, queue_id: str) -> None:
        """The message is in the transcript."""
        for lane in self._lanes.values():
            lane.pop(queue_id, None)
        self._claimed.discard(queue_id)

    def release(self) -> None:
        """Nobody delivers any more: what is claimed waits again."""
        self._claimed.clear()

    def waiting(self, lanes: Iterable[Lane]) -> list[str]:
        """Ids of what waits: not of what is claimed."""
        return [queue_id for lane in lanes for queue_id in self._lanes[lane] if queue_id not in self._claimed]

    def messages(self, lane: Lane) -> list[AgentMessage]:
        """What is in a queue, oldest first, claimed or not."""
        return list(self._lanes[lane].values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in either."""
        return not any(self._lanes.values())
