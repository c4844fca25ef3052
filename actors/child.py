"""A child of a supervisor through all its lives (only ``Child.enter`` moves the phase)::

    STARTING --started--> RUNNING --life ends, Restart--> PAUSING --delay over--> STARTING
        |                    |                               |
        +--------------------+--- Done, GiveUp, stopped -----+--> ENDED

STARTING goes to PAUSING too, when a later life dies before it has started. V1 to V4 are the supervisor's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import final

import attrs
import trio

from .actor import Actor
from .mailbox import Mailbox, MailboxStatistics
from .supervision import ChildSpec

ActorSpec = ChildSpec[Callable[[], Actor]]


class Phase(enum.Enum):
    """Where a child is."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    ENDED = "ended"


_MOVES = {
    Phase.STARTING: {Phase.RUNNING, Phase.PAUSING, Phase.ENDED},
    Phase.RUNNING: {Phase.PAUSING, Phase.ENDED},
    Phase.PAUSING: {Phase.STARTING, Phase.ENDED},
    Phase.ENDED: frozenset[Phase](),
}


@final
@attrs.frozen
class ChildStatistics:
    """Numbers of one child."""

    name: str
    phase: Phase
    restarts: int  # over its whole existence
    mailbox: MailboxStatistics


@final
@attrs.define(eq=False)
class Child:
    """All that is known of one child. It is the ``task_status`` of its lives too."""

    spec: ActorSpec
    mailbox: Mailbox
    # V1: shielded, so that only the supervisor ends it. It ends: whoever leaves the context cancels this scope.
    scope: trio.CancelScope = attrs.field(factory=lambda: trio.CancelScope(shield=True), init=False)
    phase: Phase = attrs.field(default=Phase.STARTING, init=False)
    has_started: bool = attrs.field(default=False, init=False)
    settled: trio.Event = attrs.field(factory=trio.Event, init=False)  # has started, or ended without
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    history: tuple[float, ...] = attrs.field(default=(), init=False)
    restarts: int = attrs.field(default=0, init=False)

    def enter(self, phase: Phase) -> None:
        assert phase in _MOVES[self.phase], (self.spec.name, self.phase, phase)
        self.phase = phase

    def started(self, _value: None = None) -> None:
        self.enter(Phase.RUNNING)
        self.has_started = True
        self.settled.set()

    def statistics(self) -> ChildStatistics:
        return ChildStatistics(self.spec.name, self.phase, self.restarts, self.mailbox.statistics())
