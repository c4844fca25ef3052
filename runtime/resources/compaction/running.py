"""Compacting a session: plan, ask, then one append or nothing (host 3.3).

::

    look at the branch --plan--> ask for summaries --answers--> look again, append --> done
                |                       |                           |
              refused          failed, cancelled             somebody moved it
                |                       |                           |
                +-----------------------+---------------------------+--> nothing was changed

Invariants:
  R1  Looking again and appending are one call on the tree: a cancellation comes before it, or too late.
  R2  A summary is only appended to the branch that it was made of: further messages may have come, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from .entries import Entry
from .errors import CompactionError
from .planning import CompactionPlan, CompactionSettings, plan_compaction
from .ports import OnTree, SummarisedTree, in_thread
from .requests import SummaryRequest
from .summarizer import Summarizer, Summary, ask
from .tokens import add_usages


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
    on_tree: OnTree = in_thread,
) -> Compaction:
    """Sum up what came first on the current branch, and keep what came last word for word.

    Works also with settings that are not enabled: those are about compacting by itself. No run may go on meanwhile.

    Args:
      instructions: what the summary should give weight to.
      on_tree: runs each call on the tree; by default in a worker thread.

    Raises:
      CompactionError: E_NOTHING if the branch is empty, ends in a compaction or is all kept; E_MODEL, E_ABORTED if
        there was no summary; E_MOVED if the session went to another branch or was compacted meanwhile.
      StoreError: what the tree raises; nothing was appended, except at E_BROKEN, where that is not known.

    Cancellation: nothing was appended.
    """
    settings = settings or CompactionSettings()
    # The requests are made there too: to write out a long session takes longer than a loop should stand still.
    path, plan, requests = await on_tree(partial(_look, tree, settings, instructions))
    answers = await _answers(summarizer, requests)
    return await on_tree(partial(_store, tree, path, plan, answers))


def _look(
    tree: SummarisedTree, settings: CompactionSettings, instructions: str | None
) -> tuple[Sequence[Entry], CompactionPlan, Sequence[SummaryRequest]]:
    path = tree.get_branch()
    plan = plan_compaction(path, tree.build_session_context().messages, settings)
    if plan is None and path:
        raise CompactionError("E_NOTHING", "Already compacted")
    if plan is None or plan.is_empty:
        raise CompactionError("E_NOTHING", "Nothing to compact: what there is would be kept")
    return path, plan, plan.requests(settings, instructions, time.time_ns() // 1_000_000)


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


def _store(tree: SummarisedTree, path: Sequence[Entry], plan: CompactionPlan, answers: Sequence[Summary]) -> Compaction:
    """Append, if the branch is still the one that was looked at, plus perhaps further entries. (R1, R2)"""
    if tree.get_leaf_id() != path[-1]["id"]:
        now = tree.get_branch()
        if [entry["id"] for entry in now[: len(path)]] != [entry["id"] for entry in path]:
            raise CompactionError("E_MOVED", "The session went to another branch while it was summed up; ask again")
        if any(entry["type"] == "compaction" for entry in now[len(path) :]):
            raise CompactionError("E_MOVED", "The session was compacted by somebody else meanwhile")
    summary, first_kept = plan.summary([answer.text for answer in answers]), plan.first_kept_entry_id
    details, usage = plan.files.details(), add_usages(answer.usage for answer in answers)
    entry_id = tree.append_compaction(summary, first_kept, plan.tokens_before, details, False, usage)
    return Compaction(entry_id, summary, first_kept, plan.tokens_before, details, usage)
