"""Compaction of an agent's session: by itself, when it is asked for, and after an accepted answer without any model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, final

import attrs

from ...resources.compaction import (
    Compaction,
    CompactionError,
    CompactionReason,
    ModelInUse,
    Summarizer,
    compact_session,
    compaction_reason,
)
from ...session import Session
from ..events import CompactionEnd
from ..messages import AssistantMessage, json_of
from ..options import text_of
from ..signals import AbortSignal
from .conversation import Conversation
from .rules import ConversationRules
from .told import Tell

Reason = Literal["manual", "threshold", "overflow"]
STUCK = (
    "The input is too long for the model, also after the session was compacted. "
    "Compact it with other settings, or take a model with a larger context window"
)


@final
@attrs.define(eq=False)
class Compacting:
    """Of one agent. ``model_summarizer`` gives who writes summaries where the rules name nobody."""

    session: Session
    conversation: Conversation
    rules: ConversationRules
    tell: Tell
    model_summarizer: Callable[[], Awaitable[Summarizer]]

    def reason(
        self, answer: AssistantMessage, *, has_recovered: bool, is_before_prompt: bool
    ) -> CompactionReason | None:
        """Why the session should be compacted now, judged by its latest answer."""
        model, latest = self.conversation.state.model, self.conversation.compaction
        return compaction_reason(
            answer,
            path=[] if latest is None else [latest],
            context=[json_of(message) for message in self.conversation.state.messages],
            model=ModelInUse(model.provider, model.id, model.context_window),
            settings=self.rules.compaction,
            has_recovered=has_recovered,
            is_before_prompt=is_before_prompt,
        )

    async def compact(
        self, reason: Reason, signal: AbortSignal, *, instructions: str | None = None, will_retry: bool = False
    ) -> Compaction:
        """Compact, and go on with what is kept. An abortion ends it.

        Raises:
          CompactionError, StoreError: it was not; listeners have been told why.
        """
        await self.tell({"type": "compaction_start", "reason": reason})
        try:
            compaction = await self._compacted(signal, instructions)
            await self.take_up()
        except Exception as error:
            is_aborted = isinstance(error, CompactionError) and error.code == "E_ABORTED"
            text = f"Compaction failed: {text_of(error)}"
            ended: CompactionEnd = {
                "type": "compaction_end",
                "reason": reason,
                "aborted": is_aborted,
                "willRetry": False,
            }
            if not is_aborted:
                ended["errorMessage"] = text
            await self.tell(ended)
            raise
        await self.tell(
            {
                "type": "compaction_end",
                "reason": reason,
                "result": result_of(compaction),
                "aborted": False,
                "willRetry": will_retry,
            }
        )
        return compaction

    async def _compacted(self, signal: AbortSignal, instructions: str | None) -> Compaction:
        desk = self.conversation.desk
        compaction: Compaction | None = None
        with signal._cancelling():
            compaction = await compact_session(
                desk.tree,
                self.rules.summarizer or await self.model_summarizer(),
                settings=self.rules.compaction,
                instructions=instructions,
                on_tree=desk.work,
            )
        if compaction is not None:
            return compaction
        raise CompactionError("E_ABORTED", "Compaction was aborted")

    async def take_up(self) -> None:
        """Go on with the messages of the branch, and let memory begin its next request anew."""
        self.conversation.take_up(await self.conversation.look())
        self.session.note_compaction()


def result_of(compaction: Compaction) -> dict[str, Any]:
    """As listeners are told of it."""
    return {
        "summary": compaction.summary,
        "firstKeptEntryId": compaction.first_kept_entry_id,
        "tokensBefore": compaction.tokens_before,
        "details": dict(compaction.details),
    }
