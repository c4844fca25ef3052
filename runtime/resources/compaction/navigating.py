"""Moving through a session's tree, with a summary of the branch that is left (host 2.7.6, 3.7).

Like a compaction it looks, asks and then moves in one call, or changes nothing: R1 and R2 of ``running`` hold here too,
but the session must not have gone on at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ....store import ReadError
from .branches import CONTEXT_WINDOW_UNKNOWN, NOTHING_TO_SUMMARISE, left_branch, prepare_branch
from .entries import Entry, role_of
from .errors import CompactionError
from .planning import CompactionSettings
from .ports import OnTree, SummarisedTree, in_thread
from .requests import branch_request
from .summarizer import Summarizer, ask
from .tokens import blocks_of


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
    on_tree: OnTree = in_thread,
) -> Navigation:
    """Go on from another entry. From a user or custom message one goes on before it, with its text given back.

    Args:
      summarizer: sums up what is left; None: nothing is said of it.
      instructions: what the summary should give weight to; ``is_replacing``: all that is asked for.
      label: for the summary, else for the target.
      context_window: of the summarizer's model in tokens; 0: unknown.
      on_tree: runs each call on the tree; by default in a worker thread.

    Raises:
      ReadError: E_MISSING if there is no such entry.
      CompactionError: E_MODEL, E_ABORTED if there was no summary; E_MOVED if the session went on meanwhile.
      StoreError: what the tree raises.

    Cancellation: nothing was moved or appended.
    """
    move = await on_tree(partial(_look, tree, target_id, summarizer is not None))
    if target_id == move.old_leaf:
        return Navigation(move.old_leaf, is_moved=False)
    summary = None
    if summarizer is not None and move.left:
        reserved = (settings or CompactionSettings()).reserve_tokens
        budget = max((context_window or CONTEXT_WINDOW_UNKNOWN) - reserved, 1)
        summary = await _summary(move.left, summarizer, instructions, is_replacing, budget)
    return await on_tree(partial(_move, tree, move, summary, label))


@attrs.frozen
class _Move:
    target_id: str
    old_leaf: str | None
    new_leaf: str | None
    text: str | None
    left: Sequence[Entry]


@attrs.frozen
class _Summary:
    text: str
    details: Mapping[str, Any]
    usage: Mapping[str, Any] | None = None


def _look(tree: SummarisedTree, target_id: str, needs_left: bool) -> _Move:
    target = tree.get_entry(target_id)
    if target is None:
        raise ReadError("E_MISSING", f"Entry {target_id} not found", id=target_id)
    old_leaf = tree.get_leaf_id()
    left: Sequence[Entry] = ()
    if needs_left and old_leaf is not None:
        left = left_branch(tree.get_branch(old_leaf), tree.get_branch(target_id)).entries
    if role_of(target) == "user" or target["type"] == "custom_message":
        return _Move(target_id, old_leaf, target.get("parentId"), _words(target), left)
    return _Move(target_id, old_leaf, target_id, None, left)


async def _summary(
    left: Sequence[Entry], summarizer: Summarizer, instructions: str | None, is_replacing: bool, budget: int
) -> _Summary:
    material = prepare_branch(left, budget)
    if not material.has_words:
        return _Summary(NOTHING_TO_SUMMARISE, material.files.details())
    now_ms = time.time_ns() // 1_000_000
    answer = await ask(summarizer, branch_request(material.messages, instructions, is_replacing, now_ms))
    return _Summary(material.summary(answer.text), material.files.details(), answer.usage)


def _move(tree: SummarisedTree, move: _Move, summary: _Summary | None, label: str | None) -> Navigation:
    if tree.get_leaf_id() != move.old_leaf:
        raise CompactionError("E_MOVED", "The session went on while its branch was summed up; ask again")
    summary_id = None
    if summary is not None:
        summary_id = tree.branch_with_summary(move.new_leaf, summary.text, summary.details, False, summary.usage)
    elif move.new_leaf is None:
        tree.reset_leaf()
    else:
        tree.branch(move.new_leaf)
    if label:
        tree.append_label_change(summary_id or move.target_id, label)
    return Navigation(tree.get_leaf_id(), move.text, summary_id)


def _words(entry: Entry) -> str:
    message = entry["message"] if entry["type"] == "message" else entry
    return "".join(str(block.get("text") or "") for block in blocks_of(message) if block.get("type") == "text")
