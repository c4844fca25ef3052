"""Whoever writes summaries: any async function of a request, for instance one that asks a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, final

import attrs

from ...agent.messages import AssistantMessage
from ...agent.model_stream import Model, ModelRequest, StreamFunction, StreamOptions, ThinkingLevel
from .errors import CompactionError
from .requests import SummaryRequest
from .tokens import blocks_of


class Summarizer(Protocol):
    """Writes a summary.

    May be cancelled at any time and must then leave nothing running. A failure is an answer with stop reason ``error``,
    or an exception.
    """

    async def __call__(self, request: SummaryRequest) -> AssistantMessage: ...


@final
@attrs.frozen
class ModelSummarizer:
    """Summaries by a model of any client.

    Attributes:
      stream: the client.
      model: which model.
      thinking_level: of the session; asked for only if the model can reason and it is not ``off``.
      options: what else the client needs, such as a key.
    """

    stream: StreamFunction
    model: Model
    thinking_level: ThinkingLevel = "off"
    options: StreamOptions = attrs.field(factory=StreamOptions)

    async def __call__(self, request: SummaryRequest) -> AssistantMessage:
        """Ask the model. Cancellation closes the connection.

        Raises:
          CompactionError: E_MODEL if the stream ends without an answer.
        """
        reasons = self.model.reasoning and self.thinking_level != "off"
        limit = min(request.max_tokens, self.model.max_tokens or request.max_tokens)
        options = attrs.evolve(self.options, max_tokens=limit, reasoning=self.thinking_level if reasons else None)
        asked = ModelRequest(request.system_prompt, request.messages, [])
        answer: AssistantMessage | None = None
        async with self.stream(self.model, asked, options) as events:
            async for event in events:  # to its end: an iterator that is left half-way would have to be closed
                if event["type"] == "done":
                    answer = event["message"]
                elif event["type"] == "error":
                    answer = event["error"]
        if answer is None:
            raise CompactionError("E_MODEL", "Summarization failed: the model's stream ended without an answer")
        return answer


@attrs.frozen
class Summary:
    """A whole summary, and the tokens it took."""

    text: str
    usage: Mapping[str, Any]


async def ask(summarizer: Summarizer, request: SummaryRequest) -> Summary:
    """Ask for a summary.

    Raises:
      CompactionError: E_ABORTED if the answer was aborted; E_MODEL for every other answer that is no whole summary.
    """
    try:
        answer: Mapping[str, Any] = await summarizer(request)
    except CompactionError:
        raise
    except Exception as error:  # whatever a foreign summarizer raises: the session stays as it was
        raise CompactionError("E_MODEL", f"Summarization failed: {error}") from error
    match answer.get("stopReason"):
        case "aborted":
            raise CompactionError("E_ABORTED", "Summarization was aborted")
        case "error":
            raise CompactionError("E_MODEL", f"Summarization failed: {answer.get('errorMessage') or 'unknown error'}")
        case "length":
            # Half a summary would stand for the whole conversation for ever.
            raise CompactionError("E_MODEL", "Summarization failed: the summary was cut off by the output limit")
    text = "\n".join(str(block["text"]) for block in blocks_of(answer) if block.get("type") == "text")
    if not text.strip():
        raise CompactionError("E_MODEL", "Summarization failed: the answer has no text")
    return Summary(text, answer.get("usage") or {})
