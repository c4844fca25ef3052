"""How an agent with a session conducts its conversation: what may be chosen of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from ...models import get_model
from ...resources.compaction import CompactionSettings, Summarizer
from ..model_stream import Model

FindModel: TypeAlias = Callable[[str, str], Model]


@attrs.frozen
class RetrySettings:
    """How often an answer that failed for the moment is asked for again.

    Attributes:
      is_enabled: False: never.
      attempts: how many more times.
      first_delay_s: the wait before the first; each further one is twice as long.
    """

    is_enabled: bool = True
    attempts: int = 3
    first_delay_s: float = 2.0


@attrs.frozen
class ConversationRules:
    """What an agent does around its runs when it has a session.

    Attributes:
      retry, compaction: when it asks again, and when it compacts by itself.
      summarizer: writes summaries; None: the agent's own model.
      find_model: gives the model with this provider and id, or raises, when a session is resumed.
      when_settled: awaited after all that a prompt has led to, however it ended, but not if it was cancelled: a backup
        is due then.
    """

    retry: RetrySettings = attrs.field(factory=RetrySettings)
    compaction: CompactionSettings = attrs.field(factory=CompactionSettings)
    summarizer: Summarizer | None = None
    find_model: FindModel = get_model
    when_settled: Callable[[], Awaitable[None]] | None = None
