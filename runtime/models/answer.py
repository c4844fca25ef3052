"""An answer while it grows: what a decoder understands becomes the message so far, and events that tell of it. Pure.

::

    new --start--> growing --done | fail--> ended
     \\----------------------fail-----------^

Invariants:
  G1  One message grows in place and is the ``partial`` of every event and the message of the last: a delta costs what
      it brings, not what is there already. Whoever keeps a moment of it copies it.
  G2  A text or thinking block ends before another begins; calls end when the answer does, since servers may mix their
      pieces.
  G3  ``arguments`` is always an object. What a model wrote instead stands in ``invalidArguments``, and must not be run.
  G4  No text holds half a surrogate pair: a half that waits for its other half is held back, a lone one is replaced.
  G5  Nothing follows ``done`` or ``error``.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final, Literal, final

import attrs

from ...store import CallError, parse_strict
from ..agent import messages, model_stream
from .usage import no_usage, usage_of

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CALL_ID: Final = "call_{}"

Kind = Literal["text", "thinking"]


@final
@attrs.define(eq=False)
class Call:
    """A tool call whose arguments are still coming."""

    index: int
    block: messages.ToolCallBlock
    pieces: list[str] = attrs.field(factory=list)


@final
@attrs.define(eq=False)
class Answer:
    """The answer of ``model``. ``events`` waits to be given to whoever reads; the client takes them from the left."""

    model: model_stream.Model
    now_ms: int
    events: deque[model_stream.StreamEvent] = attrs.field(factory=deque, init=False)
    message: messages.AssistantMessage = attrs.field(init=False)
    has_started: bool = attrs.field(default=False, init=False)
    has_ended: bool = attrs.field(default=False, init=False)
    _open: Kind | None = attrs.field(default=None, init=False)
    _block: Any = attrs.field(default=None, init=False)  # of the open text or thinking
    _at: int = attrs.field(default=0, init=False)  # its index
    _half: str = attrs.field(default="", init=False)  # G4: a first half of a pair that waits
    _calls: list[Call] = attrs.field(factory=list, init=False)
    _tokens: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.message = {
            "role": "assistant",
            "content": [],
            "api": self.model.api,
            "provider": self.model.provider,
            "model": self.model.id,
            "usage": no_usage(),
            "stopReason": "stop",
            "timestamp": self.now_ms,
        }

    def start(self, response_id: Any = None, response_model: Any = None) -> None:
        """The server has begun. Ids that are no strings are left out."""
        if self.has_started:
            return
        self.has_started = True
        if type(response_id) is str and response_id:
            self.message["responseId"] = response_id
        if type(response_model) is str and response_model not in ("", self.model.id):
            self.message["responseModel"] = response_model
        self.events.append({"type": "start", "partial": self.message})

    # -- text and thinking ----------------------------------------------------------------------------------------

    def add(self, kind: Kind, delta: str) -> None:
        """More of a text or a thought; opens a block of that kind where none is open."""
        if self._open != kind:
            if not delta:
                return
            self.open(kind)
        if self._half or not (delta.isascii() or _SURROGATE.search(delta) is None):
            delta = self._whole(delta)
        if not delta:
            return
        # While the block holds something else the text is ours alone, and grows without being copied (G1).
        block = self._block
        text = block[kind]
        block[kind] = ""
        text += delta
        block[kind] = text
        self.events.append(
            {
                "type": "text_delta" if kind == "text" else "thinking_delta",
                "contentIndex": self._at,
                "delta": delta,
                "partial": self.message,
            }
        )

    def add_thinking(self, delta: str, seal: str) -> None:
        """More of a thought that has no seal but the name of the field it came in: that is where it goes back."""
        if self._open != "thinking":
            self.open("thinking", thinkingSignature=seal)
        self.add("thinking", delta)

    def open(self, kind: Kind, **more: Any) -> None:
        """Begin a block of that kind, which ends the one before (G2). ``more``: members besides its text."""
        self.close()
        self._open = kind
        self._block = {"type": kind, kind: "", **more}
        self.message["content"].append(self._block)
        self._at = len(self.message["content"]) - 1
        self._tell("text_start" if kind == "text" else "thinking_start", self._at)

    def sign(self, signature: str) -> None:
        """The provider's seal of the open thought, or a further piece of it."""
        if self._open == "thinking":
            self._block["thinkingSignature"] = self._block.get("thinkingSignature", "") + signature

    def close(self) -> None:
        """End the open block, if any."""
        kind = self._open
        if kind is None:
            return
        self._give_up_half()
        self._open = None
        event: model_stream.StreamEvent = {
            "type": "text_end" if kind == "text" else "thinking_end",
            "contentIndex": self._at,
            "content": self._block[kind],
            "partial": self.message,
        }
        self.events.append(event)

    def _give_up_half(self) -> None:
        """The other half never came (G4)."""
        if self._half and self._open is not None:
            self._half = ""
            self.add(self._open, "\ufffd")

    def _whole(self, delta: str) -> str:
        """``delta`` with the half held back before it, without the half that it ends with, and no other halves (G4)."""
        delta, self._half = self._half + delta, ""
        if delta and "\ud800" <= delta[-1] <= "\udbff":
            delta, self._half = delta[:-1], delta[-1]
        return repaired(delta)

    # -- tool calls -----------------------------------------------------------------------------------------------

    def open_call(self, call_id: str, name: str) -> Call:
        """A call begins; the open text or thought ends."""
        self.close()
        index = len(self.message["content"])
        given = call_id or _CALL_ID.format(index)
        block: messages.ToolCallBlock = {"type": "toolCall", "id": given, "name": repaired(name), "arguments": {}}
        self.message["content"].append(block)
        call = Call(index, block)
        self._calls.append(call)
        self._tell("toolcall_start", index)
        return call

    def add_arguments(self, call: Call, delta: str) -> None:
        """More of the JSON text of a call's arguments."""
        if delta:
            call.pieces.append(delta)
            event: model_stream.StreamEvent = {
                "type": "toolcall_delta",
                "contentIndex": call.index,
                "delta": delta,
                "partial": self.message,
            }
            self.events.append(event)

    def close_call(self, call: Call) -> None:
        """A call is complete."""
        if call not in self._calls:
            return
        self._calls.remove(call)
        _seal(call)
        event: model_stream.StreamEvent = {
            "type": "toolcall_end",
            "contentIndex": call.index,
            "toolCall": call.block,
            "partial": self.message,
        }
        self.events.append(event)

    # -- the end --------------------------------------------------------------------------------------------------

    def count(self, **tokens: int | None) -> None:
        """Tokens as the server counted them so far: input, output, cacheRead, cacheWrite. None: not said."""
        self._tokens |= {name: number for name, number in tokens.items() if number is not None}
        self.message["usage"] = usage_of(self.model, self._tokens)

    def done(self, reason: Literal["stop", "length", "toolUse"]) -> None:
        """The answer is whole. A stop after calls means that their results are waited for."""
        if self.has_ended:
            return
        self.start()
        self.close()
        for call in tuple(self._calls):
            self.close_call(call)
        if reason == "stop" and any(block["type"] == "toolCall" for block in self.message["content"]):
            reason = "toolUse"
        self.message["stopReason"] = reason
        self.has_ended = True
        self.events.append({"type": "done", "reason": reason, "message": self.message})

    def fail(self, text: str) -> None:
        """The answer ends here, as far as it came; its open blocks stay as they are, and tell of no end."""
        if self.has_ended:
            return
        self._give_up_half()
        for call in self._calls:
            _seal(call)
        self.message["stopReason"] = "error"
        self.message["errorMessage"] = text
        self.has_ended = True
        self.events.append({"type": "error", "reason": "error", "error": self.message})

    def _tell(self, kind: model_stream.StreamEventType, index: int) -> None:
        self.events.append({"type": kind, "contentIndex": index, "partial": self.message})


def _seal(call: Call) -> None:
    """Make arguments of what has come (G3)."""
    text = "".join(call.pieces)
    try:
        arguments = parse_strict(repaired(text)) if text.strip() else {}
    except CallError:
        arguments = None
    if type(arguments) is dict:
        call.block["arguments"] = arguments
    else:
        call.block["invalidArguments"] = repaired(text)


def repaired(text: str) -> str:
    """``text`` with pairs of surrogates made characters, and lone ones replaced (G4)."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
