"""Which native messages a request keeps (C23 to C27).

A run in active mode sees its own trajectory: from the message that began it to the end. Where that message cannot be
told beyond doubt everything is kept, since a lost message is worse than a long prompt. Messages that belong to no turn
(``custom``, and a host's ``system``) always stay, in their order.

Nothing here is remembered: what is chosen is a function of the messages and of a few times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from .messages import STANDING_ROLES, Message, is_moment, text_of
from .shown import Scopes

Hints = dict[str, str]


def observed_anchor(anchor: float | None, message: Message) -> float | None:
    """The anchor of a run after one more message was seen: the time of the first user message since it started (C23).

    In every mode. Begin with None at the start of a run or session and when the tree is navigated.
    """
    if anchor is not None or message.get("role") != "user":
        return anchor
    timestamp = message.get("timestamp")
    # A first user message without a usable time is an anchor that nothing matches: everything is kept.
    return float("nan") if not is_moment(timestamp) else timestamp


def from_anchor(messages: Sequence[Message], anchor: float) -> Sequence[Message]:
    """From the one user message with that time to the end, and standing messages before it; all if it is not one."""
    if not is_moment(anchor):
        return messages
    places = [
        index
        for index, message in enumerate(messages)
        if message.get("role") == "user" and message.get("timestamp") == anchor and is_moment(message["timestamp"])
    ]
    return _from(messages, places)


def from_text(messages: Sequence[Message], text: str) -> Sequence[Message]:
    """As ``from_anchor`` for the one user message with exactly that text (C25)."""
    places = [i for i, message in enumerate(messages) if message.get("role") == "user" and text_of(message) == text]
    return _from(messages, places)


def _from(messages: Sequence[Message], places: list[int]) -> Sequence[Message]:
    if len(places) != 1:
        return messages
    standing = [message for message in messages[: places[0]] if message.get("role") in STANDING_ROLES]
    return [*standing, *messages[places[0] :]]


def run_trajectory(messages: Sequence[Message], anchor: float | None, specification: str | None) -> Sequence[Message]:
    """What a run in active mode keeps: by its anchor, or, if none was captured, by its prompt (C24, C25)."""
    if anchor is not None:
        return from_anchor(messages, anchor)
    return messages if specification is None else from_text(messages, specification)


@attrs.frozen(eq=False)
class Handoff:
    """Where a session went from active to passive, and what is kept of the conversation before (C27, C28).

    Attributes:
      at: time of the switch, milliseconds.
      anchor: of the run that was not finished then, if it had one.
      keeps_context: whether everything is kept.
      captured: the scopes as they were at the switch; None if that is no longer known (after a restart).
      hints: of stale cards at the switch.
    """

    at: float
    anchor: float | None = None
    keeps_context: bool = False
    captured: Scopes | None = None
    hints: Hints = attrs.field(factory=dict)

    @property
    def is_unfinished(self) -> bool:
        """Whether the last run's work stands in the messages and not yet in memory."""
        return self.keeps_context or self.anchor is not None

    def chosen(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that are kept (C27)."""
        if self.keeps_context:
            return messages
        if self.anchor is not None:
            return from_anchor(messages, self.anchor)
        for index, message in enumerate(messages):
            timestamp: Any = message.get("timestamp")
            if message.get("role") == "user" and is_moment(timestamp) and timestamp >= self.at:
                return _from(messages, [index])
        return [message for message in messages if message.get("role") in STANDING_ROLES]


def leave_active(
    at: float,
    *,
    is_unfinished: bool,
    anchor: float | None,
    captured: Scopes | None,
    hints: Hints | None = None,
    could_not_save: bool = False,
) -> Handoff:
    """The handoff of a session that leaves active mode now.

    An unfinished run is kept from its anchor on; without one, or if the change of mode could not be saved (L27),
    everything is kept.
    """
    keeps = could_not_save or (is_unfinished and anchor is None)
    return Handoff(at, anchor if is_unfinished and not keeps else None, keeps, captured, dict(hints or {}))
