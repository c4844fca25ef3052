"""The two wire formats, each as a row: where to send, what to send, and who understands the answer. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, final

import attrs

from ..agent.model_stream import Model, ModelRequest, StreamEvent, StreamOptions
from . import anthropic_request, openai_request
from .answer import Answer
from .anthropic_events import AnthropicDecoder
from .errors import CallFailed
from .openai_events import OpenAiDecoder
from .sse import EventTooLong, SseEvent, SseParser


class Decoder(Protocol):
    """Understands the events of one stream, and feeds its answer."""

    def feed(self, event: SseEvent) -> None: ...

    def end(self) -> None: ...


@attrs.frozen
class Wire:
    """One format."""

    path: str
    headers: Callable[[str | None], dict[str, str]]
    body: Callable[[Model, ModelRequest, StreamOptions], dict[str, Any]]
    decoder: Callable[[Answer], Decoder]


WIRES: Final[Mapping[str, Wire]] = {
    "openai-completions": Wire(openai_request.PATH, openai_request.headers, openai_request.body, OpenAiDecoder),
    "anthropic-messages": Wire(
        anthropic_request.PATH, anthropic_request.headers, anthropic_request.body, AnthropicDecoder
    ),
}


def wire_of(model: Model) -> Wire:
    """The format that ``model`` is asked in.

    Raises:
      CallFailed: nobody here speaks it.
    """
    if (wire := WIRES.get(model.api)) is None:
        raise CallFailed(f"no client for api {model.api[:96]!r}: it is one of {', '.join(WIRES)}")
    return wire


def request_body(model: Model, request: ModelRequest, options: StreamOptions) -> dict[str, Any]:
    """What is sent, as JSON; ``options.extra`` is put over it, where None takes a member away."""
    body = wire_of(model).body(model, request, options)
    return {name: value for name, value in {**body, **options.extra}.items() if value is not None}


@final
@attrs.define(eq=False)
class Reading:
    """Bytes of one stream in, events of its answer out: parser, decoder and answer in a row."""

    answer: Answer
    _parser: SseParser = attrs.field(factory=SseParser, init=False)
    _waiting: deque[SseEvent] = attrs.field(factory=deque, init=False)
    _decoder: Decoder | None = attrs.field(default=None, init=False)

    def _decoding(self) -> Decoder:
        if self._decoder is None:
            self._decoder = wire_of(self.answer.model).decoder(self.answer)
        return self._decoder

    def feed(self, piece: bytes) -> None:
        """Take a piece of the stream; ``advance`` understands it.

        Raises:
          CallFailed: an event of it is too long.
        """
        try:
            self._waiting.extend(self._parser.feed(piece))
        except EventTooLong as error:
            raise CallFailed(str(error)) from None

    def advance(self) -> bool:
        """Understand one more event of the stream; False if none waits.

        One at a time, so that the message so far is not ahead of what its reader was told.

        Raises:
          CallFailed: the answer has failed.
        """
        if not self._waiting:
            return False
        self._decoding().feed(self._waiting.popleft())
        return True

    def end(self) -> None:
        """The stream has ended.

        Raises:
          CallFailed: before the answer was whole.
        """
        self._decoding().end()


def read_answer(model: Model, pieces: Iterable[bytes], now_ms: int) -> list[StreamEvent]:
    """All events of the answer that ``pieces`` of a stream are. A failure is its last event."""
    reading = Reading(Answer(model, now_ms))
    try:
        for piece in pieces:
            reading.feed(piece)
            while not reading.answer.has_ended and reading.advance():
                pass
        reading.end()
    except CallFailed as failure:
        reading.answer.fail(failure.text)
    return list(reading.answer.events)
