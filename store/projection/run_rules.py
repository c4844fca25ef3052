"""Small rules of a run's life: what is an answer, and which phase of rehydration follows (L13, L18, L19)."""

from __future__ import annotations

from typing import Literal

from ..artifacts import RehydrationPhase
from .barrier import calls_of
from .messages import Message, text_of

RunEvent = Literal["start", "resume", "answer", "prompt", "prompt-over-unfinished"]


def accepted_answer(message: Message) -> str | None:
    """The text to accept as the answer of a run, possibly ""; None if the message is no answer (L18).

    No answer are messages with tool calls, and those that ended ``toolUse``, ``aborted``, ``length`` or ``error``.
    """
    is_final = message.get("role") == "assistant" and not calls_of(message)
    if not is_final or message.get("stopReason") in ("toolUse", "aborted", "length", "error"):
        return None
    return text_of(message)


def failed_ending(message: Message) -> str | None:
    """The stop reason to log, if the message was cut off or failed: ``length`` or ``error``."""
    reason = message.get("stopReason")
    return reason if reason in ("length", "error") else None


def next_rehydration_phase(phase: RehydrationPhase | None, event: RunEvent) -> RehydrationPhase | None:
    """The phase of knowledge rehydration after something happened (L13). Before any start of a session it is None."""
    if event == "start":
        return "new-bootstrap"
    if event == "resume":
        return "resume-bootstrap"
    if event == "answer":
        return "step"
    if event == "prompt-over-unfinished" and phase not in ("new-bootstrap", "resume-bootstrap"):
        return "step"
    return phase
