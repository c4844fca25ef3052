"""How an agent with a session conducts its conversation: what may be chosen of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import attrs

from ...models import get_model
from ...resources.compaction import CompactionSettings, Summarizer
from ...run import READ_TOOL
from ..model_stream import Model
from ..tools import ToolCallContext

FindModel: TypeAlias = Callable[[str, str], Model]
ReadPath: TypeAlias = Callable[[ToolCallContext], "str | None"]


def path_of_read(context: ToolCallContext) -> str | None:
    """The path that a call of the tool ``read`` names; None for other calls."""
    if context.call["name"] != READ_TOOL or not isinstance(context.arguments, Mapping):
        return None
    path = context.arguments.get("path")
    return path if type(path) is str and path else None


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
      when_settled: awaited after all that a prompt has led to, however it ended, but not if it was cancelled. The
        runtime makes backups of the memory by itself.
      read_path: the file that a tool call reads, absolute or seen from the session's directory, or None. Asked before
        the call and after it. Its cards are compiled from what was read.
    """

    retry: RetrySettings = attrs.field(factory=RetrySettings)
    compaction: CompactionSettings = attrs.field(factory=CompactionSettings)
    summarizer: Summarizer | None = None
    find_model: FindModel = get_model
    when_settled: Callable[[], Awaitable[None]] | None = None
    read_path: ReadPath = path_of_read
