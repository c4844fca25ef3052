"""What listeners are told of the queues of an agent: one event at each change, with what still waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs

from ..messages import AgentMessage, json_of
from ..step_types import Lane
from .told import Tell


@final
@attrs.define(eq=False)
class QueueEvents:
    """Of one agent. A message that is being delivered waits no more, though it leaves its queue only with the append
    that records it."""

    queued: Callable[[Lane], Sequence[AgentMessage]]
    tell: Tell
    _delivering: AgentMessage | None = attrs.field(default=None, init=False)
    _told: tuple[list[str], list[str]] = attrs.field(factory=lambda: ([], []), init=False)

    async def look(self) -> None:
        """Tell, if there is news."""
        now = self._texts("steering"), self._texts("follow_up")
        if now != self._told:
            self._told = now
            await self.tell({"type": "queue_update", "steering": now[0], "followUp": now[1]})

    async def delivering(self, message: AgentMessage | None) -> None:
        """This message comes in now; None: none does any more."""
        self._delivering = message
        await self.look()

    def _texts(self, lane: Lane) -> list[str]:
        return [said_by(message) for message in self.queued(lane) if message is not self._delivering]


def said_by(message: AgentMessage) -> str:
    """The text of a message."""
    content: Any = json_of(message).get("content", "")
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content if block.get("type") == "text")
