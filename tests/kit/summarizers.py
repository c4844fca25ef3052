"""Summarizers that answer as told, and remember what they were asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from kit.talk import answer
from strataflow.compaction import SummaryRequest

Step = Callable[[], Awaitable[None]]


@attrs.define
class Scripted:
    """Gives ``answers`` in the order of its calls: a text, a message, or an error to raise. ``before`` runs first."""

    answers: list[Any]
    before: Step | None = None
    asked: list[SummaryRequest] = attrs.field(factory=list)

    async def __call__(self, request: SummaryRequest) -> Any:
        self.asked.append(request)
        told = self.answers.pop(0)
        if self.before is not None:
            await self.before()
        if isinstance(told, Exception):
            raise told
        return answer(told) if isinstance(told, str) else told


@attrs.frozen
class AskedOf:
    """A request taken apart."""

    conversation: str
    previous: str | None
    instructions: str

    @classmethod
    def of(cls, request: SummaryRequest) -> AskedOf:
        assert request.system_prompt
        (message,) = request.messages
        text: str = message["content"][0]["text"]  # type: ignore[index,typeddict-item,assignment]
        assert text.startswith("<conversation>\n")
        conversation, _, rest = text.removeprefix("<conversation>\n").partition("\n</conversation>\n\n")
        if not rest.startswith("<previous-summary>\n"):
            return cls(conversation, None, rest)
        previous, _, instructions = rest.removeprefix("<previous-summary>\n").partition("\n</previous-summary>\n\n")
        return cls(conversation, previous, instructions)
