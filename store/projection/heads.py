"""Heads: the message in front of a request that shows the memory (C4 to C7, C9).

Three kinds, told apart by their label. A head is made once for a projection and then only repeated: its text, time and
id do not change whatever happens to the memory; updates tell the rest.
"""

from __future__ import annotations

from ..algebra import Json
from .messages import Dump, Synthetic
from .request import ContextRequest
from .shown import Shown, look
from .texts import (
    HANDOFF_LABEL,
    HANDOFF_NOTE,
    HANDOFF_NOTE_UNFINISHED,
    PASSIVE_LABEL,
    PROJECTION_LABEL,
    RUNTIME_LABEL,
)
from .trajectory import Handoff
from .transitions import recent_transitions


def runtime_head(request: ContextRequest, shown: Shown, dump: Dump) -> Synthetic:
    """The head of active mode (C5)."""
    content: Json = {}
    if request.specification is not None:
        content["specification"] = request.specification
    content["state"] = shown.state()
    content["lazy_navigation"] = shown.navigation
    if request.phase is not None:
        content["knowledge_rehydration"] = {"phase": request.phase}
    if request.invalidations:
        content["artifact_invalidations"] = list(request.invalidations)
    recent = recent_transitions(request.transitions, request.history_limit)
    if recent:
        content["recent_transitions"] = recent
    return _head(RUNTIME_LABEL, content, request.new_id, request.time_ms, dump)


def passive_head(request: ContextRequest, shown: Shown, dump: Dump) -> Synthetic:
    """The head of passive mode (C6)."""
    content = {"state": shown.state(), "lazy_navigation": shown.navigation}
    return _head(PASSIVE_LABEL, content, request.new_id, request.time_ms, dump)


def handoff_message(handoff: Handoff, shown: Shown | None, head_id: str | None, time: float, dump: Dump) -> Synthetic:
    """The exit handoff: a head of passive mode, or, without an id, a message behind the head of a bootstrap run (C26).

    Args:
      shown: the state at the switch, or the oldest known after it; None while no memory is loaded.
    """
    note = HANDOFF_NOTE_UNFINISHED if handoff.is_unfinished else HANDOFF_NOTE
    content: Json = {} if shown is None else {"state": shown.state()}
    return _head(HANDOFF_LABEL, {**content, "continuation": note}, head_id, time, dump)


def captured(request: ContextRequest, dump: Dump) -> Shown | None:
    """What the handoff of a request shows: the state at the switch if it is known, else the present one (C20)."""
    assert request.handoff is not None
    handoff = request.handoff
    if handoff.captured is not None:
        return look(handoff.captured, handoff.hints, hides_response=True, dump=dump)
    if request.scopes is None:
        return None
    return look(request.scopes, request.hints, hides_response=True, dump=dump)


def _head(label: str, content: Json, head_id: str | None, time: float, dump: Dump) -> Synthetic:
    text = f"{label}\n{dump(content)}"
    return Synthetic((text,) if head_id is None else (text, PROJECTION_LABEL + head_id), time)
