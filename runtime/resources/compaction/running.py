"""Compacting a session and moving through its tree: plan, ask, then one append or nothing (host 2.7.6, 3.3, 3.7).

::

    look at the branch --plan--> ask for summaries --answers--> look again --append--> done
                |                       |                           |
              refused          failed, cancelled             somebody moved it
                |                       |                           |
                +-----------------------+---------------------------+--> nothing was changed

Invariants:
  R1  Between the last answer and the append there is no checkpoint: a cancellation comes before, or too late.
  R2  A summary is only appended to the branch that it was made of: further messages may have come, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import trio

from ....store import ReadError
from .branches import CONTEXT_WINDOW_UNKNOWN, NOTHING_TO_SUMMARISE, left_branch, prepare_branch
from .entries import Entry, role_of
from .errors import CompactionError
from .planning import CompactionSettings, plan_compaction
from .requests import SummaryRequest, branch_request
from .summarizer import Summarizer, Summary, ask
from .tokens import add_usages, blocks_of


class BuiltContext(Protocol):
    """What a model would get now."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]: ...


class SummarisedTree(Protocol):
    """What of a session tree is used here; ``SessionTree`` has it. Its calls do not wait."""

    def get_leaf_id(self) -> str | None: ...
    def get_entry(self, entry_id: str, /) -> Entry | None: ...
    def get_branch(self, from_id: str | None = None, /) -> Sequence[Entry]: ...
    def build_session_context(self) -> BuiltContext: ...
    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Any = ...,
        from_hook: bool = ...,
        usage: Any = ...,
    ) -> str: ...
    def append_label_change(self, target_id: str, label: str | None = ..., /) -> str: ...
    def branch(self, entry_id: str, /) -> None: ...
    def reset_leaf(self) -> None: ...
    def branch_with_summary(
        self, entry_id: str | None, summary: str, details: Any = ..., from_hook: bool = ..., usage: Any = ...
    ) -> str: ...


@attrs.frozen
class Compaction:
    """A compaction that was stored, with the members of its entry. ``usage``: what its summaries took."""

    entry_id: str
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Mapping[str, Any]
    usage: Mapping[str, Any]


async def compact_session(
    tree: SummarisedTree,
    summarizer: Summarizer,
    *,
    settings: CompactionSettings | None = None,
    instructions: str | None = None,
) -> Compaction:
    """Sum up what came first on the current branch, and keep what came last word for word.

    Works also with settings that are not enabled: those are about compacting by itself. No run may go on meanwhile.

    Args:
      instructions: what the summary should give weight to.

    Raises:
      CompactionError: E_NOTHING if the branch is empty, ends in a compaction or is all kept; E_MODEL, E_ABORTED if
        there was no summary; E_MOVED if the session went to another branch or was compacted meanwhile.

    Cancellation: nothing was appended.
    """
    settings = settings or CompactionSettings()
    path = tree.get_branch()
    plan = plan_compaction(path, tree.build_session_context().messages, settings)
    if plan is None and path:
        raise CompactionError("E_NOTHING", "Already compacted")
    if plan is None or plan.is_empty:
        raise CompactionError("E_NOTHING", "Nothing to compact: what there is would be kept")
    answers = await _answers(summarizer, plan.requests(settings, instructions, _now_ms()))
    _check_still_there(tree, path)
    summary, first_kept = plan.summary([answer.text for answer in answers]), plan.first_kept_entry_id
    details, usage = plan.files.details(), add_usages(answer.usage for answer in answers)
    entry_id = tree.append_compaction(summary, first_kept, plan.tokens_before, details, False, usage)  # R1
    return Compaction(entry_id, summary, first_kept, plan.tokens_before, details, usage)


async def _answers(summarizer: Summarizer, requests: Sequence[SummaryRequest]) -> list[Summary]:
    """All answers, asked for at the same time; the first failure ends the others."""
    found: dict[int, Summary] = {}
    failures: list[CompactionError] = []

    async def answer(index: int, request: SummaryRequest) -> None:
        try:
            found[index] = await ask(summarizer, request)
        except CompactionError as error:
            failures.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for index, request in enumerate(requests):
            nursery.start_soon(answer, index, request)
    if failures:
        raise failures[0]
    return [found[index] for index in range(len(requests))]


def _check_still_there(tree: SummarisedTree, path: Sequence[Entry]) -> None:
    """Refuse if the branch is no longer the one that was looked at, plus perhaps further entries. (R2)"""
    if tree.get_leaf_id() == path[-1]["id"]:
        return
    now = tree.get_branch()
    if [entry["id"] for entry in now[: len(path)]] != [entry["id"] for entry in path]:
        raise CompactionError("E_MOVED", "The session went to another branch while it was summed up; ask again")
    if any(entry["type"] == "compaction" for entry in now[len(path) :]):
        raise CompactionError("E_MOVED", "The session was compacted by somebody else meanwhile")


@attrs.frozen
class Navigation:
    """Where a session is after moving.

    Attributes:
      leaf_id: the new leaf; None before all entries.
      text: of the user or custom message that was chosen, to be edited and sent anew; else None.
      summary_entry_id: the summary of the branch that was left, if one was stored.
      is_moved: False: the session was there already.
    """

    leaf_id: str | None
    text: str | None = None
    summary_entry_id: str | None = None
    is_moved: bool = True


async def navigate_session(
    tree: SummarisedTree,
    target_id: str,
    summarizer: Summarizer | None = None,
    *,
    instructions: str | None = None,
    is_replacing: bool = False,
    label: str | None = None,
    context_window: int = 0,
    settings: CompactionSettings | None = None,
) -> Navigation:
    """Go on from another entry. From a user or custom message one goes on before it, with its text given back.

    Args:
      summarizer: sums up what is left; None: nothing is said of it.
      instructions: what the summary should give weight to; ``is_replacing``: all that is asked for.
      label: for the summary, else for the target.
      context_window: of the summarizer's model in tokens; 0: unknown.

    Raises:
      ReadError: E_MISSING if there is no such entry.
      CompactionError: E_MODEL, E_ABORTED if there was no summary; E_MOVED if the session went on meanwhile.

    Cancellation: nothing was moved or appended.
    """
    target = tree.get_entry(target_id)
    if target is None:
        raise ReadError("E_MISSING", f"Entry {target_id} not found", id=target_id)
    old_leaf = tree.get_leaf_id()
    if target_id == old_leaf:
        return Navigation(old_leaf, is_moved=False)
    is_resent = role_of(target) == "user" or target["type"] == "custom_message"
    new_leaf = target.get("parentId") if is_resent else target_id
    text = _words(target) if is_resent else None
    summary = None
    if summarizer is not None and old_leaf is not None:
        reserved = (settings or CompactionSettings()).reserve_tokens
        budget = max((context_window or CONTEXT_WINDOW_UNKNOWN) - reserved, 1)
        left = left_branch(tree.get_branch(old_leaf), tree.get_branch(target_id)).entries
        summary = await _branch_summary(left, summarizer, instructions, is_replacing, budget)
    if tree.get_leaf_id() != old_leaf:
        raise CompactionError("E_MOVED", "The session went on while its branch was summed up; ask again")
    summary_id = _move(tree, new_leaf, summary)
    if label:
        tree.append_label_change(summary_id or target_id, label)
    return Navigation(tree.get_leaf_id(), text, summary_id)


@attrs.frozen
class _BranchSummary:
    text: str
    details: Mapping[str, Any]
    usage: Mapping[str, Any] | None = None


async def _branch_summary(
    left: Sequence[Entry], summarizer: Summarizer, instructions: str | None, is_replacing: bool, budget: int
) -> _BranchSummary | None:
    """What is told of the branch that is left; None if nothing is left."""
    if not left:
        return None
    material = prepare_branch(left, budget)
    if not material.has_words:
        return _BranchSummary(NOTHING_TO_SUMMARISE, material.files.details())
    answer = await ask(summarizer, branch_request(material.messages, instructions, is_replacing, _now_ms()))
    return _BranchSummary(material.summary(answer.text), material.files.details(), answer.usage)


def _move(tree: SummarisedTree, new_leaf: str | None, summary: _BranchSummary | None) -> str | None:
    """Move without a checkpoint; returns the id of the summary's entry. (R1)"""
    if summary is not None:
        return tree.branch_with_summary(new_leaf, summary.text, summary.details, False, summary.usage)
    if new_leaf is None:
        tree.reset_leaf()
    else:
        tree.branch(new_leaf)
    return None


def _words(entry: Entry) -> str:
    message = entry["message"] if entry["type"] == "message" else entry
    return "".join(str(block.get("text") or "") for block in blocks_of(message) if block.get("type") == "text")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
