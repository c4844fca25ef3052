"""What a compaction of a session would do, and the entry it makes of the answers (host 3.4, 3.5.5). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .cutting import find_cut
from .entries import Entry, message_of
from .file_lists import FileOperations, operations_of_messages, operations_of_summary, without_lists
from .requests import SummaryRequest, history_request, turn_request
from .serialising import has_words
from .tokens import Message, estimate_context

RESERVE_TOKENS = 16384
KEEP_RECENT_TOKENS = 20000
_NO_HISTORY = "No prior history."
_TURN_HEADING = "**Turn Context (split turn):**"


@attrs.frozen
class CompactionSettings:
    """When and how far to compact. ``reserve_tokens`` are kept free for answers, ``keep_recent_tokens`` of messages are
    kept word for word."""

    is_enabled: bool = True
    reserve_tokens: int = RESERVE_TOKENS
    keep_recent_tokens: int = KEEP_RECENT_TOKENS


@attrs.frozen
class CompactionPlan:
    """What would be summed up, and what kept.

    Attributes:
      first_kept_entry_id: the kept part begins here.
      history: messages before the kept part, or before its turn if that is split.
      turn_prefix: messages of the split turn that are not kept.
      is_split: whether the kept part begins inside a turn.
      tokens_before: size of the context as it is.
      previous_summary: text of the compaction before this one, which the new summary brings up to date.
      files: what the messages, and the compaction before, say of files.
    """

    first_kept_entry_id: str
    history: Sequence[Message]
    turn_prefix: Sequence[Message]
    is_split: bool
    tokens_before: int
    previous_summary: str | None
    files: FileOperations

    @property
    def is_empty(self) -> bool:
        """Whether there are no words to sum up."""
        return not has_words(self.history) and not has_words(self.turn_prefix)

    def requests(self, settings: CompactionSettings, instructions: str | None, now_ms: int) -> list[SummaryRequest]:
        """What to ask a model: for the history, for the split turn, or both. The answers go to ``summary``."""
        reserved, found = settings.reserve_tokens, []
        if has_words(self.history):
            found.append(history_request(self.history, self.previous_summary, instructions, reserved, now_ms))
        if has_words(self.turn_prefix):
            found.append(turn_request(self.turn_prefix, reserved, now_ms))
        return found

    def summary(self, answers: Sequence[str]) -> str:
        """The text of the compaction, from the answers to ``requests`` in their order."""
        # Where one turn is all there is, what an earlier summary knew must not get lost.
        earlier = without_lists(self.previous_summary or "") or _NO_HISTORY
        history = answers[0] if has_words(self.history) else earlier
        turn = f"\n\n---\n\n{_TURN_HEADING}\n\n{answers[-1]}" if has_words(self.turn_prefix) else ""
        return history + turn + self.files.text()


def plan_compaction(
    path: Sequence[Entry], context: Sequence[Mapping[str, Any]], settings: CompactionSettings
) -> CompactionPlan | None:
    """Plan the compaction of a path. None: it is empty, or ends in a compaction.

    Args:
      path: entries from the root to the leaf.
      context: the messages that a model would get for this path now.
    """
    if not path or path[-1]["type"] == "compaction":
        return None
    latest = next((index for index in range(len(path) - 1, -1, -1) if path[index]["type"] == "compaction"), None)
    start = 0 if latest is None else _span_start(path, latest)
    cut = find_cut(path, start, len(path), settings.keep_recent_tokens)
    turn_start = cut.first_kept if cut.turn_start is None else cut.turn_start
    history = _messages(path[start:turn_start])
    prefix = _messages(path[turn_start : cut.first_kept])
    files = operations_of_messages((*history, *prefix))
    previous = None if latest is None else path[latest]
    return CompactionPlan(
        first_kept_entry_id=path[cut.first_kept]["id"],
        history=history,
        turn_prefix=prefix,
        is_split=cut.is_split,
        tokens_before=estimate_context(context).tokens,
        previous_summary=None if previous is None else previous.get("summary"),
        files=files if previous is None else files | operations_of_summary(previous),
    )


def _span_start(path: Sequence[Entry], latest: int) -> int:
    """What the compaction before has kept is summed up now; if it kept nothing, what came after it."""
    first = path[latest].get("firstKeptEntryId")
    return next((index for index in range(latest) if path[index]["id"] == first), latest + 1)


def _messages(entries: Sequence[Entry]) -> list[Message]:
    # Earlier compactions say nothing here: the latest comes in as the summary to bring up to date.
    found = (message_of(entry) for entry in entries if entry["type"] != "compaction")
    return [message for message in found if message is not None]
