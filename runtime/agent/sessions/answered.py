"""After an accepted answer: what came before its run is memory now, and is taken out without asking a model (C30-C34).

Asking and answering are one step here, since the agent is the host: there is no moment for anything to come between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import final

import attrs

from ....store.projection import (
    CompactionAnswer,
    CompactionRequest,
    CompactionSituation,
    Compactor,
    NativeCompaction,
    answer_compaction,
    ask_compaction,
)
from ....store.trace import TraceTree
from ...resources.compaction import Compaction, estimate_context, estimate_tokens, usage_tokens
from ...session import Session
from ..messages import AssistantMessage, json_of
from .compacting import Compacting, result_of


@final
@attrs.define(eq=False)
class Answered:
    """What is known of the memory's last run. ``is_answered``: it has its answer."""

    session: Session
    new_id: Callable[[], str]
    is_answered: bool = attrs.field(default=False, init=False)
    compactor: Compactor = attrs.field(
        default=attrs.Factory(lambda self: Compactor(self.new_id()), takes_self=True), init=False
    )
    _anchor: int | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)
    _is_bootstrap: bool = attrs.field(default=False, init=False)

    def begin(self, anchor: int | None) -> None:
        """A run of the memory begins, at the message of this time."""
        self._number += 1
        self._anchor, self.is_answered = anchor, False

    def accept(self) -> None:
        """It has its answer."""
        record = self.session._cell.record
        self._is_bootstrap = record is not None and record.bootstrap
        self.is_answered = True

    def situation(self, answer: AssistantMessage, transcript_tokens: int) -> CompactionSituation | None:
        """How the session is now that a run has settled; None if it has no memory."""
        cell = self.session._cell
        if cell.memory is None or cell.address is None or cell.record is None:
            return None
        return CompactionSituation(
            mode=cell.mode,
            run=str(self._number) if self.is_answered and not self._is_bootstrap else None,
            is_idle=True,
            has_queued_input=False,
            is_loaded=True,
            is_in_flight=False,
            usage_tokens=usage_tokens(answer["usage"]),
            transcript_tokens=transcript_tokens,
            anchor=self._anchor,
            boundary=cell.memory.boundaries(cell.address)[-1].id,
            step=cell.record.step,
        )


async def compact_answered(answered: Answered, compacting: Compacting, answer: AssistantMessage | None) -> None:
    """Compact what is memory now, if that is worth it. No queued messages wait. Raises what the tree raises.

    Cancelled: nothing was appended, or the next prompt finds that it was.
    """
    conversation = compacting.conversation
    # Most runs are refused for something that needs neither a look at the messages nor at the file.
    situation = None if answer is None else answered.situation(answer, sys.maxsize)
    if situation is None or ask_compaction(answered.compactor, situation, (), "")[1] != "answer":
        return
    estimates = (estimate_tokens(json_of(message)) for message in conversation.state.messages)
    situation = attrs.evolve(situation, transcript_tokens=sum(estimates))

    def compact(tree: TraceTree) -> Compaction | None:
        branch = tree.get_branch()
        answered.compactor, request = ask_compaction(answered.compactor, situation, branch, answered.new_id())
        if not isinstance(request, CompactionRequest) or branch[0]["id"] == request.first_kept_entry:
            return None
        tokens = estimate_context(tree.build_session_context().messages).tokens
        hook = NativeCompaction("manual", request.marker, branch[-1]["id"], tokens, situation.mode)
        found = answer_compaction(answered.compactor, hook)
        answered.compactor = answered.compactor.settle(request.marker)
        if not isinstance(found, CompactionAnswer):
            return None
        own = found.to_json()
        entry_id = tree.append_compaction(
            own["summary"], own["firstKeptEntryId"], own["tokensBefore"], own["details"], True
        )
        return Compaction(entry_id, own["summary"], own["firstKeptEntryId"], own["tokensBefore"], own["details"], {})

    desk = conversation.desk
    compaction = await desk.work(lambda: compact(desk.tree))
    if compaction is None:
        return
    await compacting.take_up()
    await compacting.tell({"type": "compaction_start", "reason": "answered"})
    await compacting.tell(
        {
            "type": "compaction_end",
            "reason": "answered",
            "result": result_of(compaction),
            "aborted": False,
            "willRetry": False,
        }
    )
