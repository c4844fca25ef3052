"""The stream of a server that speaks Anthropic's messages, as events of an answer. Pure.

::

    before --message_start--> answering --message_delta with stop_reason--> finished --message_stop--> done
                                 |   ^                                          (or the stream's end)
             content_block_start +---+ content_block_delta, content_block_stop
                                 |
                                 +--error, or the stream's end--> failed

``ping`` and kinds of events and blocks that nobody here knows are passed over: the format allows new ones at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, final

import attrs

from ...store import compact, parse_stream_piece
from .answer import Answer, Call
from .errors import CallFailed
from .failures import failure_in_stream
from .sse import SseEvent
from .usage import tokens

_MALFORMED: Final = "the server sent a piece that is no sound JSON"
_CUT_OFF: Final = "the answer was cut off: its stream ended without a reason to stop"
_REFUSED: Final = {
    "refusal": "the model refused to answer",
    "sensitive": "the answer was stopped by the provider's content filter",
}
_CUT_SHORT: Final = ("max_tokens", "model_context_window_exceeded")


@final
@attrs.define(eq=False)
class AnthropicDecoder:
    """Feeds one answer. A block is known by its index: a kind of text, a call, or nothing that anybody here knows."""

    answer: Answer
    _reason: str | None = attrs.field(default=None, init=False)
    _blocks: dict[Any, Literal["text", "thinking"] | Call] = attrs.field(factory=dict, init=False)
    _inputs: dict[Any, Any] = attrs.field(factory=dict, init=False)  # arguments that came whole, at the start of a call

    def feed(self, event: SseEvent) -> None:
        """Take one event of the stream.

        Raises:
          CallFailed: it says that the call failed, or it can not be understood.
        """
        try:
            data = parse_stream_piece(event.data)
        except ValueError:
            raise CallFailed(_MALFORMED) from None
        if type(data) is not dict:
            raise CallFailed(_MALFORMED)
        index = data.get("index")
        index = index if type(index) is int else None
        match data.get("type"):
            case "content_block_delta":
                self._delta(index, _object(data.get("delta")))
            case "content_block_start":
                self.answer.start()
                self._open(index, _object(data.get("content_block")))
            case "content_block_stop":
                self._close(index)
            case "message_start":
                message = _object(data.get("message"))
                self.answer.start(message.get("id"), message.get("model"))
                self._usage(message.get("usage"))
            case "message_delta":
                self._usage(data.get("usage"))
                if type(reason := _object(data.get("delta")).get("stop_reason")) is str:
                    self._reason = reason
            case "message_stop":
                self.end()
            case "error":
                raise failure_in_stream(data.get("error"))

    def _open(self, index: Any, block: Mapping[str, Any]) -> None:
        answer = self.answer
        match block.get("type"):
            case "text":
                answer.open("text")
                self._blocks[index] = "text"
                answer.add("text", _text(block.get("text")))
            case "thinking":
                answer.open("thinking")
                self._blocks[index] = "thinking"
                answer.add("thinking", _text(block.get("thinking")))
                answer.sign(_text(block.get("signature")))
            case "redacted_thinking":
                answer.open("thinking", redacted=True, thinkingSignature=_text(block.get("data")))
                self._blocks[index] = "thinking"
            case "tool_use":
                self._blocks[index] = answer.open_call(_text(block.get("id")), _text(block.get("name")))
                self._inputs[index] = block.get("input")

    def _delta(self, index: Any, delta: Mapping[str, Any]) -> None:
        block = self._blocks.get(index)
        match delta.get("type"):
            case "text_delta" if block == "text":
                self.answer.add("text", _text(delta.get("text")))
            case "thinking_delta" if block == "thinking":
                self.answer.add("thinking", _text(delta.get("thinking")))
            case "signature_delta" if block == "thinking":
                self.answer.sign(_text(delta.get("signature")))
            case "input_json_delta" if isinstance(block, Call):
                self.answer.add_arguments(block, _text(delta.get("partial_json")))

    def _close(self, index: Any) -> None:
        block = self._blocks.pop(index, None)
        if isinstance(block, Call):
            given = self._inputs.pop(index, None)
            if not block.pieces and given:
                self.answer.add_arguments(block, compact(given))
            self.answer.close_call(block)
        elif block is not None:
            self.answer.close()

    def _usage(self, usage: Any) -> None:
        known = _object(usage)
        self.answer.count(
            input=tokens(known.get("input_tokens")),
            output=tokens(known.get("output_tokens")),
            cacheRead=tokens(known.get("cache_read_input_tokens")),
            cacheWrite=tokens(known.get("cache_creation_input_tokens")),
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
        if self._reason in _REFUSED:
            raise CallFailed(_REFUSED[self._reason])
        for index in list(self._blocks):  # of a server that does not end its blocks
            self._close(index)
        self.answer.done("length" if self._reason in _CUT_SHORT else "stop")


def _object(value: Any) -> Mapping[str, Any]:
    return value if type(value) is dict else {}


def _text(value: Any) -> str:
    return value if type(value) is str else ""
