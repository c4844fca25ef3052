"""One request to a model: everything that its messages are made of, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from ..algebra import HISTORY_LIMIT_DEFAULT, Json
from ..artifacts import RehydrationPhase
from .messages import Message
from .section import Mode
from .shown import Scopes
from .trajectory import Handoff, Hints
from .transitions import Transition

HeadKind = Literal["runtime", "passive", "handoff"]


@attrs.frozen(eq=False)
class ContextRequest:
    """Everything that one request to a model is made of.

    Attributes:
      mode: of the session, now.
      messages: the host's, complete and in order; they must not be changed in place afterwards.
      scopes: all three, as they are now; None while no memory is loaded.
      time_ms: now.
      new_id: a fresh random UUID, used if a projection begins with this request.
      specification: prompt of the run under way; None between an accepted answer and the next prompt. May be "".
      anchor: see ``observed_anchor``.
      bootstrap: whether the run carries the conversation from before memory was active.
      handoff: the retained boundary of leaving active mode, if there is one.
      hints: text by path for artifact cards older than their source.
      invalidations: what must be compiled anew, ``{path, scope, reason}`` sorted by path.
      phase: of knowledge rehydration.
      transitions: the session's own, oldest first.
      history_limit: 0 to 100.
    """

    mode: Mode
    messages: Sequence[Message]
    scopes: Scopes | None
    time_ms: float
    new_id: str
    specification: str | None = None
    anchor: float | None = None
    bootstrap: bool = False
    handoff: Handoff | None = None
    hints: Hints = attrs.field(factory=dict)
    invalidations: Sequence[Json] = ()
    phase: RehydrationPhase | None = None
    transitions: Sequence[Transition] = ()
    history_limit: int = HISTORY_LIMIT_DEFAULT


def kind_of(request: ContextRequest) -> HeadKind | None:
    """Which head the request needs; None if there is no memory to show."""
    if request.mode == "passive" and request.handoff is not None:
        return "handoff"
    if request.scopes is None or request.mode == "off":
        return None
    return "runtime" if request.mode == "active" else "passive"
