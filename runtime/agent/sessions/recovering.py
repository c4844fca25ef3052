"""What follows a run that did not end well: asking again, compacting, going on once (host 3.2.5, 5.8.5).

::

    calm --answer failed, may pass--> waiting --> asked again --good answer--> calm
      ^                                 | aborted, or too often                |
      +---------------------------------+--------------------------------------+

Invariants:
  V1  An overflow is answered by one compaction until a good answer or a new prompt comes; then it is said and left.
"""

from __future__ import annotations

from typing import final

import attrs
import trio

from ..failed_answers import is_retryable
from ..messages import AgentMessage, AssistantMessage, json_of, role_of
from ..signals import AbortSignal
from ..step_types import Begin
from .compacting import STUCK, Compacting
from .conversation import Conversation
from .judging import delay_s
from .rules import RetrySettings
from .told import Tell

CANCELLED = "Retry was cancelled"


@final
@attrs.define(eq=False)
class Recovering:
    """Of one agent. ``has_compacted``: the last look has compacted the session."""

    conversation: Conversation
    compacting: Compacting
    retry: RetrySettings
    tell: Tell
    has_compacted: bool = attrs.field(default=False, init=False)
    _attempt: int = attrs.field(default=0, init=False)
    _has_recovered: bool = attrs.field(default=False, init=False)

    def begin(self, *, has_prompt: bool) -> None:
        """A new prompt, or a continuation."""
        self._attempt = 0
        if has_prompt:
            self._has_recovered = False

    async def heard(self, message: AgentMessage) -> None:
        """A message has come in: is it the answer that was waited for?"""
        if role_of(message) == "assistant" and json_of(message)["stopReason"] not in ("error", "aborted"):
            self._has_recovered = False
            await self._end(None)

    async def after(self, signal: AbortSignal) -> Begin | None:
        """How to go on after a run, if at all. Raises what compaction raises; listeners have been told then."""
        self.has_compacted = False
        answer = self._answer()
        if answer is None:
            return None
        if signal.is_set or answer["stopReason"] == "aborted":
            await self._end(CANCELLED)
            return None
        may_ask = self.retry.is_enabled and self._attempt < self.retry.attempts
        if may_ask and is_retryable(answer):
            return await self._ask_again(answer, signal)
        if answer["stopReason"] == "error":
            await self._end(answer.get("errorMessage", ""))
        return await self._compact_if_due(answer, signal)

    def _answer(self) -> AssistantMessage | None:
        messages = self.conversation.state.messages
        is_answer = bool(messages) and role_of(messages[-1]) == "assistant"
        return json_of(messages[-1]) if is_answer else None  # type: ignore[return-value]

    async def _ask_again(self, answer: AssistantMessage, signal: AbortSignal) -> Begin | None:
        self._attempt += 1
        wait = delay_s(self.retry.first_delay_s, self._attempt)
        await self.tell(
            {
                "type": "auto_retry_start",
                "attempt": self._attempt,
                "maxAttempts": self.retry.attempts,
                "delayMs": round(wait * 1000),
                "errorMessage": answer.get("errorMessage", ""),
            }
        )
        self._forget_answer()
        with signal._cancelling():
            await trio.sleep(wait)
        if not signal.is_set:
            return Begin()
        await self._end(CANCELLED)
        return None

    async def _compact_if_due(self, answer: AssistantMessage, signal: AbortSignal) -> Begin | None:
        reason = self.compacting.reason(answer, has_recovered=self._has_recovered, is_before_prompt=False)
        if reason is None:
            return None
        if reason == "stuck":
            self.conversation.state.error = STUCK
            await self.tell(
                {
                    "type": "compaction_end",
                    "reason": "overflow",
                    "aborted": False,
                    "willRetry": False,
                    "errorMessage": STUCK,
                }
            )
            return None
        is_overflow = reason == "overflow"
        self._has_recovered = self._has_recovered or is_overflow  # V1
        await self.compacting.compact(reason, signal, will_retry=is_overflow)
        self.has_compacted = True
        if not is_overflow:
            return None
        if self._answer() == answer:
            self._forget_answer()
        return Begin()

    def _forget_answer(self) -> None:
        """The failed answer stays in the file, and is not sent again."""
        del self.conversation.state.messages[-1]

    async def _end(self, failure: str | None) -> None:
        attempt, self._attempt = self._attempt, 0
        if attempt and failure is None:
            await self.tell({"type": "auto_retry_end", "success": True, "attempt": attempt})
        elif attempt and failure is not None:
            await self.tell({"type": "auto_retry_end", "success": False, "attempt": attempt, "finalError": failure})
