"""What a session carries from one request to the next, and when it begins anew (C10, C11).

::

    NOTHING_SENT --request--> live --request--> live'         every byte sent before, then more
                               |  |
                               |  +--request with another past--> live''   "native"
                               +--end_projection(reason)--> ended --request--> live'' reason
    any  --request without memory to show--> plain --request--> live
    live: one head with one id, the native messages sent so far, updates at fixed places among them,
          and the view of the memory that all this has told.
    plain: the host's messages as they are (off mode, or nothing is loaded).

Only ``project``, ``acknowledge_call`` and ``end_projection`` move it. Each gives a new value: a caller that drops the
new value has dropped the step (C12).

Invariants:
  X1  While a projection is live its list of sent messages only grows.
  X2  ``shown`` is exactly what a reader of head, receipts and updates knows.
  X3  A projection ends only for a named reason: ``Rebase`` is the whole list.
"""

from __future__ import annotations

from typing import Literal

import attrs

from ..algebra import Json
from ..artifacts import RehydrationPhase
from .messages import Message, Synthetic
from .request import HeadKind
from .shown import Shown

# session: start, reload, resume, tree navigation, and the first request of all. native: a message that was sent is
# missing or is another one now.
Rebase = Literal["session", "mode", "run", "answer", "compaction", "native"]


@attrs.frozen(eq=False)
class Live:
    """A projection under way.

    Attributes:
      id: None for a handoff shown while no memory is loaded; then nothing is ever updated (C9).
      sent: all messages that were sent: the head, ``native``, and synthetic ones between them.
      shown: what has been told of the memory. (X2)
      native: the host's messages that were sent.
      invalidations, phase: the same of these.
      systems: how many system messages there were when the section was placed.
      unseen: tool calls whose receipts count as told but were in no request yet, with what was told before each.
    """

    id: str | None
    kind: HeadKind
    sent: tuple[Message | Synthetic, ...]
    shown: Shown | None
    native: tuple[Message, ...] = ()
    invalidations: list[Json] = attrs.field(factory=list)
    phase: RehydrationPhase | None = None
    systems: int = 0
    unseen: tuple[tuple[str, Shown], ...] = ()


@attrs.frozen(eq=False)
class Carried:
    """The value that is carried.

    Attributes:
      ended: why the next request begins anew, if there is no live projection.
      plain: the messages of the last request, if it showed no memory.
    """

    live: Live | None = None
    ended: Rebase = "session"
    plain: tuple[Message, ...] | None = None

    @property
    def projection_id(self) -> str | None:
        """The id under which updates are told at present, None if there is no head that they could update."""
        return self.live.id if self.live is not None else None


NOTHING_SENT = Carried()


def end_projection(carried: Carried, reason: Rebase) -> Carried:
    """The live projection ends here: the next request begins a new one and names the reason (X3).

    Call it when a user's run begins (``run``), an answer was accepted (``answer``), the mode changes (``mode``), the
    session starts, is reloaded, resumed or navigated (``session``), or the host compacted (``compaction``). Runs and
    answers end nothing in passive mode. What has ended keeps its first reason.
    """
    if carried.live is None or (reason in ("run", "answer") and carried.live.kind != "runtime"):
        return carried
    return Carried(None, reason)
