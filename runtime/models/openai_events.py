"""The stream of a server that speaks chat completions, as events of an answer. Pure.

::

    before --first chunk--> answering --finish_reason--> finished --[DONE], or the stream's end--> done
                                |                            (usage comes here)
                                +--stream's end--> failed    without a reason to stop nobody knows that it is whole

Servers differ, and what they leave out is not held against them: pieces of calls without an index, a reason to stop
that nobody knows, usage in another place, no ``[DONE]``.
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs

from ...store import compact, parse_stream_piece
from .answer import Answer, Call
from .errors import CallFailed
from .failures import failure_in_stream
from .openai_request import REASONING_FIELDS
from .sse import SseEvent
from .usage import tokens

_MALFORMED: Final = "the server sent a piece that is no sound JSON"
_CUT_OFF: Final = "the answer was cut off: its stream ended without a reason to stop"
_FILTERED: Final = "the answer was stopped by the provider's content filter"


@final
@attrs.define(eq=False)
class OpenAiDecoder:
    """Feeds one answer."""

    answer: Answer
    _reason: str | None = attrs.field(default=None, init=False)
    _calls: dict[object, Call] = attrs.field(factory=dict, init=False)
    _ids: dict[object, str] = attrs.field(factory=dict, init=False)
    _last: object = attrs.field(default=None, init=False)

    def feed(self, event: SseEvent) -> None:
        """Take one event of the stream.

        Raises:
          CallFailed: it says that the call failed, or it can not be understood.
        """
        if event.data.strip() == "[DONE]":
            self._reason = self._reason or "stop"
            self.end()
            return
        try:
            chunk = parse_stream_piece(event.data)
        except ValueError:
            raise CallFailed(_MALFORMED) from None
        if type(chunk) is not dict:
            raise CallFailed(_MALFORMED)
        if chunk.get("error"):
            raise failure_in_stream(chunk["error"])
        answer = self.answer
        if not answer.has_started:
            answer.start(chunk.get("id"), chunk.get("model"))
        choices = chunk.get("choices")
        if type(choices) is list and choices and type(choice := choices[0]) is dict:
            delta = choice.get("delta")
            if type(delta) is dict:
                self._delta(delta)
            if type(reason := choice.get("finish_reason")) is str and reason:
                self._reason = reason
            self._usage(choice.get("usage"))
        self._usage(chunk.get("usage"))

    def _delta(self, delta: dict[str, Any]) -> None:
        for field in REASONING_FIELDS:
            if type(text := delta.get(field)) is str and text:
                self.answer.add_thinking(text, field)
                break
        for field in ("content", "refusal"):
            if type(text := delta.get(field)) is str and text:
                self.answer.add("text", text)
        if type(calls := delta.get("tool_calls")) is list:
            for piece in calls:
                if type(piece) is dict:
                    self._call(piece)

    def _call(self, piece: dict[str, Any]) -> None:
        """A piece of a call: of the one with its index; where it has none, of that with its id, or the last."""
        function = piece.get("function")
        function = function if type(function) is dict else {}
        call_id, name, arguments = piece.get("id"), function.get("name"), function.get("arguments")
        call_id = call_id if type(call_id) is str else ""
        key = piece.get("index")
        if type(key) is not int:
            key = call_id or self._last
        # Servers that give every call the same index tell them apart by their ids.
        if key not in self._calls or (call_id and call_id != self._ids[key] and type(name) is str and name):
            self._calls[key] = self.answer.open_call(call_id, name if type(name) is str else "")
            self._ids[key] = call_id
        self._last = key
        if type(arguments) is dict:
            arguments = compact(arguments)
        if type(arguments) is str:
            self.answer.add_arguments(self._calls[key], arguments)

    def _usage(self, usage: Any) -> None:
        if type(usage) is not dict:
            return
        details = usage.get("prompt_tokens_details")
        details = details if type(details) is dict else {}
        cached = tokens(details.get("cached_tokens")) or 0
        asked = tokens(usage.get("prompt_tokens"))
        self.answer.count(
            input=None if asked is None else max(asked - cached, 0),
            output=tokens(usage.get("completion_tokens")),
            cacheRead=cached,
        )

    def end(self) -> None:
        """The stream has ended.

        Raises:
          CallFailed: before the answer was whole.
        """
        if self.answer.has_ended:
            return
        if self._reason is None:
            raise CallFailed(_CUT_OFF, may_retry=True)
        if self._reason == "content_filter":
            raise CallFailed(_FILTERED)
        self.answer.done("length" if self._reason in ("length", "max_tokens") else "stop")
