"""A scripted host: the native messages of one conversation as a coding agent keeps them, and the requests it sends.

The model is scripted too. What it would be given is counted in the canonical form of the prefix ledger: compact JSON in
UTF-8 of the exact list of messages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs

from ....store import compact, parse_strict
from ....store.projection import Message, canonical_messages, receipt_text, shared_bytes

SYSTEM = "You are a scripted agent of a benchmark."
_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


@attrs.define(eq=False)
class ScriptedHost:
    """Native messages, in memory and, if ``path`` is given, in a file of JSON lines.

    Attributes:
      messages: all of them, oldest first; the system prompt is not kept in the file.
      calls: tool calls made so far.
      transcript_bytes: written to the file so far.
    """

    path: str | None = None
    messages: list[Message] = attrs.field(factory=lambda: [{"role": "system", "content": SYSTEM}])
    calls: int = 0
    transcript_bytes: int = 0
    _last_ms: int = 0

    @classmethod
    def resumed(cls, path: str) -> ScriptedHost:
        """A conversation that was left in a file."""
        host = cls(path)
        with open(path, "rb") as file:
            data = file.read()
        host.messages += [parse_strict(line) for line in data.splitlines()]
        host.transcript_bytes = len(data)
        host.calls = sum(message["role"] == "toolResult" for message in host.messages)
        host._last_ms = max((message.get("timestamp", 0) for message in host.messages), default=0)
        return host

    def user(self, text: str) -> None:
        """A message of the user."""
        self._add({"role": "user", "content": [{"type": "text", "text": text}]})

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The model calls a tool; the call as its message holds it."""
        self.calls += 1
        call = {"type": "toolCall", "id": f"call-{self.calls:06}", "name": name, "arguments": arguments}
        self._assistant([call], "toolUse")
        return call

    def result(self, call: dict[str, Any], texts: Sequence[str]) -> None:
        """What the tool returned."""
        blocks = [{"type": "text", "text": text} for text in texts]
        self._add(
            {
                "role": "toolResult",
                "toolCallId": call["id"],
                "toolName": call["name"],
                "content": blocks,
                "isError": False,
            }
        )

    def answer(self, text: str) -> None:
        """The model's last message of a run."""
        self._assistant([{"type": "text", "text": text}], "stop")

    def until_past_s(self) -> float:
        """How long until the clock has passed the time of the last message, in seconds."""
        return max(0.0, (self._last_ms + 2) / 1_000 - time.time())

    def _assistant(self, content: list[dict[str, Any]], reason: str) -> None:
        # What a host keeps of a model's message besides its content; it is sent again with every request.
        about = {"api": "scripted", "provider": "scripted", "model": "scripted-model"}
        usage = {**_USAGE, "cost": _COST}
        self._add({"role": "assistant", "content": content, **about, "usage": usage, "stopReason": reason})

    def _add(self, message: dict[str, Any]) -> None:
        # Anchors of runs are times of messages, so that no two may have the same.
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        message["timestamp"] = self._last_ms
        self.messages.append(message)
        if self.path is not None:
            line = compact(message).encode() + b"\n"
            self.transcript_bytes += len(line)
            with open(self.path, "ab") as file:
                file.write(line)


@attrs.frozen
class Inference:
    """One request to the model.

    Attributes:
      context_bytes: of the request in canonical form.
      shared_prefix_bytes: how many first bytes are those of the request before in the same run; None for the first.
      previous_bytes: of that request; None for the first.
    """

    context_bytes: int
    shared_prefix_bytes: int | None
    previous_bytes: int | None

    @property
    def lost_bytes(self) -> int:
        """Bytes of the request before that this one does not begin with."""
        return 0 if self.shared_prefix_bytes is None else (self.previous_bytes or 0) - self.shared_prefix_bytes

    def to_json(self) -> dict[str, Any]:
        """As reports name it."""
        return {"contextBytes": self.context_bytes, "sharedPrefixBytes": self.shared_prefix_bytes}


@attrs.define(eq=False)
class ScriptedModel:
    """Counts what it is given in one run; its answers are the workload's.

    ``counting_s``: how long that took, so that it can be left out of what is timed.
    """

    inferences: list[Inference] = attrs.field(factory=list)
    counting_s: float = 0.0
    _last: bytes | None = None

    def receive(self, request: Sequence[Message]) -> Inference:
        """Take a request."""
        before = time.perf_counter()
        data, last = canonical_messages(request), self._last
        shared = None if last is None else shared_bytes(last, data)
        found = Inference(len(data), shared, None if last is None else len(last))
        self.inferences.append(found)
        self._last = data
        self.counting_s += time.perf_counter() - before
        return found


def patch_texts(text: str, updates: dict[str, Any] | None) -> list[str]:
    """The blocks of a patch's result: what was done, and what the model could not foresee."""
    return [text] if updates is None else [text, receipt_text(updates, compact)]


def json_bytes(value: Any) -> int:
    """Bytes of a JSON value in canonical form."""
    return len(canonical_messages(value))
