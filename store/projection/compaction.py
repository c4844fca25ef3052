"""Compacting completed history: when to ask the host for it, and how to answer (C30 to C34).

Once an answer is accepted memory holds what lasts, so the messages before the run can go. The host compacts; we ask it
under a marker of our own and, when it comes to ask for the summary, give a fixed one. Compactions of others pass.

::

    idle --ask--> asked(marker) --answer--> asked --settle(marker)--> idle
                       |  shut, or a newer ask: the marker is stale, its hook is cancelled
    any  --shut--> shut: nothing is asked, own markers are cancelled

Invariants:
  K1  A run is asked for at most once, whatever became of it; a later run may try again.
  K2  A hook with a marker of ours is answered or cancelled, never passed on: a model must not summarise for it.
  K3  A completion or refusal clears only the request whose marker it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from ..algebra import Json
from .messages import is_moment
from .section import Mode
from .texts import COMPACTION_SUMMARY

COMPACTION_TOKENS_MIN = 24_000
MARKER_PREFIX = "state-flow-boundary:"
OWNER = "state-flow"
_OWN_ENTRIES = "state-flow-"
_HARMLESS_ENTRY = "codemode-store"

Entry = Mapping[str, Any]
# Why nothing is asked: in the order in which it is looked at.
CompactionRefusal = Literal[
    "shut",
    "mode",
    "run",
    "done",
    "busy",
    "queue",
    "view",
    "flight",
    "usage",
    "transcript",
    "answer",
    "anchor",
    "foreign",
]


@attrs.frozen
class CompactionSituation:
    """What a session is doing when a run has settled.

    Attributes:
      run: the last run, if its answer was accepted and it was no bootstrap run.
      usage_tokens: context tokens of the last answer as the provider counted them; None if unknown.
      transcript_tokens: estimate of the persisted messages themselves.
      anchor: of the run, see ``observed_anchor``.
      boundary, step: the session's newest boundary and its step.
    """

    mode: Mode
    run: str | None
    is_idle: bool
    has_queued_input: bool
    is_loaded: bool
    is_in_flight: bool
    usage_tokens: int | None
    transcript_tokens: int
    anchor: float | None
    boundary: str
    step: int


@attrs.frozen
class CompactionRequest:
    """A manual compaction to ask the host for. ``marker`` goes where its instructions go."""

    marker: str
    run: str
    leaf: str
    first_kept_entry: str
    boundary: str
    step: int


@attrs.frozen
class Compactor:
    """What is remembered of it. ``instance`` is a random id of this attachment."""

    instance: str
    pending: CompactionRequest | None = None
    last_run: str | None = None
    is_shut: bool = False

    def shut(self) -> Compactor:
        """After shutdown nothing is asked for, and what was asked is cancelled."""
        return attrs.evolve(self, pending=None, is_shut=True)

    def settle(self, marker: str) -> Compactor:
        """After the host completed or refused the compaction with this marker. (K3)"""
        is_pending = self.pending is not None and self.pending.marker == marker
        return attrs.evolve(self, pending=None) if is_pending else self


@attrs.frozen
class NativeCompaction:
    """A host's question for a summary, before it compacts. ``leaf`` is the branch's last entry at that moment."""

    reason: Literal["manual", "threshold", "overflow"]
    instructions: str | None
    leaf: str | None
    tokens_before: int
    mode: Mode
    is_cancelled: bool = False


@attrs.frozen
class CompactionAnswer:
    """The fixed summary that stands for completed runs."""

    first_kept_entry: str
    tokens_before: int
    boundary: str
    step: int
    summary: str = COMPACTION_SUMMARY

    def to_json(self) -> Json:
        """As a ``compaction`` entry takes it."""
        return {
            "summary": self.summary,
            "firstKeptEntryId": self.first_kept_entry,
            "tokensBefore": self.tokens_before,
            "details": {"version": 1, "owner": OWNER, "boundary": self.boundary, "step": self.step},
        }


@attrs.frozen
class CompactionPlan:
    """What a compaction would keep: everything from this entry on, the user message that began the last run."""

    first_kept_entry: str


def ask_compaction(
    compactor: Compactor, now: CompactionSituation, branch: Sequence[Entry], request_id: str
) -> tuple[Compactor, CompactionRequest | CompactionRefusal]:
    """Ask for the compaction of what is before the last run, or say why not (C30, C31). (K1)

    Args:
      branch: entries of the session tree from the root to the leaf.
      request_id: fresh.
    """
    refusal = _refusal(compactor, now)
    if refusal is not None:
        return compactor, refusal
    plan = compaction_plan(branch, now.anchor)
    if not isinstance(plan, CompactionPlan):
        return compactor, plan
    assert now.run is not None
    marker = f"{MARKER_PREFIX}{compactor.instance}:{request_id}"
    request = CompactionRequest(marker, now.run, branch[-1]["id"], plan.first_kept_entry, now.boundary, now.step)
    return attrs.evolve(compactor, pending=request, last_run=now.run), request


def compaction_plan(branch: Sequence[Entry], anchor: float | None) -> CompactionPlan | CompactionRefusal:
    """What a compaction of this branch would keep (C31): it goes back to exactly one user message, and loses nothing
    that somebody else put before it."""
    roles = [entry["message"].get("role") if entry["type"] == "message" else None for entry in branch]
    last = next((index for index in reversed(range(len(branch))) if roles[index] == "assistant"), None)
    if last is None or branch[last]["message"].get("stopReason") in ("aborted", "error", "length"):
        return "answer"
    found = [
        index
        for index, role in enumerate(roles)
        if role == "user" and is_moment(anchor) and branch[index]["message"].get("timestamp") == anchor
    ]
    if len(found) != 1 or found[0] > last:
        return "anchor"
    if any(_is_foreign(entry) for entry in branch[: found[0]]):
        return "foreign"
    return CompactionPlan(branch[found[0]]["id"])


def answer_compaction(compactor: Compactor, hook: NativeCompaction) -> CompactionAnswer | Literal["pass", "cancel"]:
    """What a host gets that asks for a summary (C32, C33): ours, ``pass`` (not our business) or ``cancel``. (K2)"""
    if hook.reason != "manual" or not (hook.instructions or "").startswith(MARKER_PREFIX):
        return "pass"
    pending = compactor.pending
    if pending is None or pending.marker != hook.instructions:
        return "cancel"
    if hook.mode != "active" or hook.is_cancelled or hook.leaf != pending.leaf:
        return "cancel"
    return CompactionAnswer(pending.first_kept_entry, hook.tokens_before, pending.boundary, pending.step)


def _refusal(compactor: Compactor, now: CompactionSituation) -> CompactionRefusal | None:
    tokens = -1 if now.usage_tokens is None else now.usage_tokens
    refusals: list[tuple[bool, CompactionRefusal]] = [
        (compactor.is_shut, "shut"),
        (now.mode != "active", "mode"),
        (now.run is None, "run"),
        (now.run == compactor.last_run, "done"),
        (not now.is_idle, "busy"),
        (now.has_queued_input, "queue"),
        (not now.is_loaded, "view"),
        (now.is_in_flight, "flight"),
        (tokens < COMPACTION_TOKENS_MIN, "usage"),
        (now.transcript_tokens < COMPACTION_TOKENS_MIN, "transcript"),
    ]
    return next((refusal for is_met, refusal in refusals if is_met), None)


def _is_foreign(entry: Entry) -> bool:
    """Whether an entry is somebody else's and would be lost from the context, or from what its owner relies on."""
    if entry["type"] == "custom_message":
        return True
    name = entry.get("customType")
    return entry["type"] == "custom" and not (
        type(name) is str and (name.startswith(_OWN_ENTRIES) or name == _HARMLESS_ENTRY)
    )
