"""A host's conversation around a session of the real runtime on a simulated machine, under a MockClock.

Each message is said some milliseconds after the one before it, so that no two have one time. What the model calls is
in the messages with its result, except what is said to be lost on its way.
"""

from __future__ import annotations

from typing import Any

import attrs
import trio

from kit.agent_loops import Message
from kit.hand_stores import CWD
from strataflow.runtime import CallError, Mode, Run, Runtime, Session
from strataflow.runtime.host_log import MemoryEntries
from strataflow.runtime.run import RunContext
from strataflow.store import compact
from strataflow.store.projection import receipt_text

_PAUSE_S = 0.003


@attrs.define(eq=False)
class SimulatedTalk:
    """One session's conversation."""

    runtime: Runtime
    session: Session
    entries: MemoryEntries
    native: list[Message] = attrs.field(factory=list)
    calls: int = 0
    _context: RunContext | None = None
    _run: Run | None = None

    @classmethod
    async def begin(cls, runtime: Runtime, mode: Mode) -> SimulatedTalk:
        """A new session, with a log of its own."""
        entries = MemoryEntries()
        return cls(runtime, await runtime.open_session(CWD, "main", mode, entries=entries), entries)

    async def say(self, role: str, text: str = "", **more: Any) -> Message:
        """One more native message."""
        await trio.sleep(_PAUSE_S)
        time_ms = self.runtime._world.clock.wall_ms()
        message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": time_ms, **more}
        self.native.append(message)
        self.entries.add_message(role)
        return message

    async def request(self) -> list[Message]:
        """The messages of the next request."""
        await trio.sleep(_PAUSE_S)
        return await (self._run or self.session).project(list(self.native))

    async def begin_run(self, prompt: str, *, has_anchor: bool) -> None:
        """A user's turn. A run that is open is superseded."""
        message = await self.say("user", prompt)
        context = self.session.run(prompt, anchor=message["timestamp"] if has_anchor else None)
        self._run = await context.__aenter__()
        if self._context is not None:
            self._context.leave()
        self._context = context

    async def answer(self, text: str) -> None:
        """The run ends with this answer; nothing without a run."""
        if self._run is None:
            return
        await self.say("assistant", text, stopReason="stop")
        await self._run.finish(text)
        self.leave()

    def leave(self) -> None:
        """The run ends as it is."""
        if self._context is not None:
            self._context.leave()
        self._context = self._run = None

    async def call(self, name: str, arguments: Any, *, is_lost: bool = False) -> None:
        """A call of the model. One that is refused leaves no trace, as one that is lost on its way to the messages."""
        self.calls += 1
        call_id = f"c{self.calls}"
        try:
            result = await self.session.call(name, arguments, call_id=call_id)
        except CallError:
            return
        if is_lost:
            return
        tool = {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}
        await self.say("assistant", content=[tool], stopReason="toolUse")
        texts = [result.get("text") or compact(result)]
        if result.get("state_updates") is not None:
            texts.append(receipt_text(result["state_updates"], compact))
        blocks = [{"type": "text", "text": text} for text in texts]
        await self.say("toolResult", content=blocks, toolCallId=call_id, toolName=name, isError=False)

    async def reopen(self) -> None:
        """The session is closed and attached anew, with its log."""
        self.leave()
        await self.session.aclose()
        self.session = await self.runtime.open_session(CWD, "main", entries=self.entries)

    def drop(self, count: int, *, is_told: bool) -> None:
        """The host compacts: its first messages are gone, results with their calls."""
        del self.native[:count]
        while self.native and self.native[0]["role"] == "toolResult":
            del self.native[0]
        if is_told:
            self.session.note_compaction()
