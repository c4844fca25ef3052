"""A batch: the calls of one round of the store actor, from waiting to answered.

waiting --look, stage--> taken --reply--> answered
   |                       +---- not appended: looks and is staged again in the next round, before who came later
   +-- withdrawn: left out, as if it had never come
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import trio

from ..store import Draft, StrataflowError
from .envelope import Envelope
from .limits import STAGING_S_MAX
from .ports import Clock
from .store_messages import Commit


@final
@attrs.define(eq=False)
class Batch:
    """Messages of its envelopes have a method ``stage(draft)`` that returns an answer or raises a refusal."""

    _waiting: list[Envelope] = attrs.field(factory=list, init=False)
    _taken: list[Envelope] = attrs.field(factory=list, init=False)

    @property
    def size(self) -> int:
        """How many calls are not answered."""
        return len(self._waiting) + len(self._taken)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody is left who has not withdrawn."""
        return bool(self._taken) or any(not envelope.is_withdrawn for envelope in self._waiting)

    def add(self, envelope: Envelope) -> None:
        """One more call waits."""
        self._waiting.append(envelope)

    def drop_withdrawn(self) -> None:
        """Forget who has left."""
        self._waiting = [envelope for envelope in self._waiting if not envelope.is_withdrawn]

    async def look(self) -> None:
        """Let those look that rest on something outside of memory, all at once. No checkpoint if there are none."""
        messages = [envelope.message for envelope in (*self._taken, *self._waiting) if not envelope.is_withdrawn]
        looks = [message.look for message in messages if type(message) is Commit and message.look is not None]
        if looks:
            async with trio.open_nursery() as nursery:
                for look in looks:
                    nursery.start_soon(look)

    def stage(self, draft: Draft, clock: Clock) -> list[Any]:
        """Stage who was taken before, then who waits, until it has lasted too long. Returns answers and refusals.

        There is no checkpoint in here: whoever is taken is staged at the same moment.
        """
        answers = [_staged(envelope, draft) for envelope in self._taken]
        started_s = clock.monotonic_s()
        count = 0
        for envelope in self._waiting:
            count += 1
            if envelope.take():
                self._taken.append(envelope)
                answers.append(_staged(envelope, draft))
                if clock.monotonic_s() - started_s > STAGING_S_MAX:
                    break
        del self._waiting[:count]
        return answers

    def reply(self, answers: Sequence[Any]) -> None:
        """Answer everybody who was taken."""
        taken, self._taken = self._taken, []
        for envelope, answer in zip(taken, answers, strict=True):
            if isinstance(answer, StrataflowError):
                envelope.fail(answer)
            else:
                envelope.reply(answer)


def _staged(envelope: Envelope, draft: Draft) -> Any:
    try:
        return envelope.message.stage(draft)
    except StrataflowError as error:
        return error
