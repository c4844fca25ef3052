"""When a session is compacted by itself (host 3.2). Pure: the agent asks after each run and before each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from ....store.trace import time_ms
from ...agent.failed_answers import is_context_overflow
from .entries import Entry
from .planning import CompactionSettings
from .tokens import Message, counted_tokens, estimate_context

# threshold: compact. overflow: take the failed answer out of the agent's list, compact, go on once. stuck: the answer
# after that overflowed too, so nothing is tried again. None: nothing to do.
CompactionReason = Literal["threshold", "overflow", "stuck"]


@attrs.frozen
class ModelInUse:
    """The model of the next request; ``context_window`` 0: unknown."""

    provider: str
    model_id: str
    context_window: int


def should_compact(context_tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    """Whether a context leaves less room than is reserved."""
    return settings.is_enabled and context_tokens > context_window - settings.reserve_tokens


def compaction_reason(
    answer: Message,
    *,
    path: Sequence[Entry],
    context: Sequence[Message],
    model: ModelInUse,
    settings: CompactionSettings,
    has_recovered: bool,
    is_before_prompt: bool = False,
) -> CompactionReason | None:
    """Why to compact now, judged by the latest answer.

    Args:
      answer: the latest assistant message.
      path: entries from the root to the leaf.
      context: the agent's messages, this answer included.
      has_recovered: since the last good answer or new user message an overflow was answered by a compaction.
      is_before_prompt: asked before a prompt, not at the end of a run: then an aborted answer counts too.
    """
    if not settings.is_enabled or (answer.get("stopReason") == "aborted" and not is_before_prompt):
        return None
    compacted_ms = _compaction_time(path)
    if not _is_newer(answer, compacted_ms):
        return None
    is_of_model = answer.get("provider") == model.provider and answer.get("model") == model.model_id
    if is_of_model and is_context_overflow(answer, model.context_window):
        return "stuck" if has_recovered else "overflow"
    tokens = _context_tokens(answer, context, compacted_ms)
    is_full = model.context_window > 0 and should_compact(tokens, model.context_window, settings)
    return "threshold" if is_full else None


def _compaction_time(path: Sequence[Entry]) -> int | None:
    latest = next((entry for entry in reversed(path) if entry["type"] == "compaction"), None)
    return None if latest is None else time_ms(latest.get("timestamp"))


def _is_newer(message: Message, compacted_ms: int | None) -> bool:
    """What was counted before a compaction says nothing of the context after it (3.2.4)."""
    time = message.get("timestamp")
    return compacted_ms is None or not isinstance(time, int | float) or time > compacted_ms


def _context_tokens(answer: Message, context: Sequence[Message], compacted_ms: int | None) -> int:
    """As counted for this answer; else estimated, but for a failed one only on top of a count that still holds."""
    counted = counted_tokens(answer)
    if counted:
        return counted
    estimate = estimate_context(context)
    index = estimate.last_usage_index
    has_failed = answer.get("stopReason") in ("error", "aborted")
    if index is None:
        return 0 if has_failed else estimate.tokens
    return estimate.tokens if _is_newer(context[index], compacted_ms) else 0
