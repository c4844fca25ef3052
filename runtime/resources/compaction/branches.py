"""What is told of a branch that is left (host 3.7). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .entries import Entry, message_of, role_of
from .file_lists import FileOperations, operations_of_messages, operations_of_summary
from .serialising import has_words
from .tokens import Message, estimate_tokens

CONTEXT_WINDOW_UNKNOWN = 128_000
NOTHING_TO_SUMMARISE = "No content to summarize"
_PREAMBLE = "The user was on another branch of this conversation and came back here.\nThis is what was done there:\n\n"
# A summary is small for what it holds, so it is still taken while the budget is not nearly used up.
_NEARLY_USED = 0.9


@attrs.frozen
class LeftBranch:
    """``entries`` that are left, oldest first, and ``common_ancestor``, where the two ways part (None: nowhere)."""

    entries: Sequence[Entry]
    common_ancestor: str | None


def left_branch(old_path: Sequence[Entry], target_path: Sequence[Entry]) -> LeftBranch:
    """What is left by going from the end of one path to the end of another; paths begin at their root.

    An unknown target has an empty path: all is left.
    """
    on_target = {entry["id"] for entry in target_path}
    for index in range(len(old_path) - 1, -1, -1):
        if old_path[index]["id"] in on_target:
            return LeftBranch(old_path[index + 1 :], old_path[index]["id"])
    return LeftBranch(old_path, None)


@attrs.frozen
class BranchMaterial:
    """What of a branch fits a request: ``messages`` oldest first, their size, and what was done to files."""

    messages: Sequence[Message]
    tokens: int
    files: FileOperations

    @property
    def has_words(self) -> bool:
        """Whether there is anything to sum up."""
        return has_words(self.messages)

    def summary(self, answer: str) -> str:
        """The text of the entry, from a model's answer."""
        return _PREAMBLE + answer + self.files.text()


def prepare_branch(entries: Sequence[Entry], budget_tokens: int) -> BranchMaterial:
    """Take the newest messages up to a budget; 0: all. Files of all earlier summaries count, even if those do not fit.

    Tool results are left out: calls and answers say what was done.
    """
    files = FileOperations()
    for entry in entries:
        if entry["type"] == "branch_summary":
            files |= operations_of_summary(entry)
    taken: list[Message] = []
    tokens = 0
    for entry in reversed(entries):
        message = None if role_of(entry) == "toolResult" else message_of(entry)
        if message is None:
            continue
        files |= operations_of_messages([message])
        size = estimate_tokens(message)
        if budget_tokens and tokens + size > budget_tokens:
            is_summary = entry["type"] in ("compaction", "branch_summary")
            if is_summary and tokens < budget_tokens * _NEARLY_USED:
                taken.append(message)
                tokens += size
            break
        taken.append(message)
        tokens += size
    return BranchMaterial(taken[::-1], tokens, files)
