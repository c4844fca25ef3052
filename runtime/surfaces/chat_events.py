"""What a chat tells of its agent's events: answers as they come, and short notes of everything else."""

from __future__ import annotations

import json
import sys
from typing import Any, final

import attrs

from ..agent import AbortSignal, AgentEvent
from .chat_screen import Screen
from .error_text import shortened

# What is looked at of a text of which a line is shown: it may be very long.
_LOOKED_AT_CHARS = 2_000


@final
@attrs.define(eq=False)
class Telling:
    """The listener.

    Attributes:
      expects_typed: whether the next message of the user's stands on the screen already, as the line that was typed.
    """

    _screen: Screen
    expects_typed: bool = attrs.field(default=False, init=False)

    async def hear(self, event: AgentEvent, signal: AbortSignal) -> None:
        """Tell one event."""
        screen = self._screen
        match event["type"]:
            case "message_update":
                await self._grow(event["assistantMessageEvent"])
            case "message_start":
                await self._delivered(event["message"])
            case "message_end":
                await screen.end_line()
            case "tool_execution_start":
                await screen.say(_short(f"[{event['toolName']} {_json(event['args'])}]"), "cyan")
            case "tool_execution_end" if event["isError"]:
                await screen.say(_short(f"[{event['toolName']}: {_text(event['result'])}]"), "red")
            case "auto_retry_start":
                again = f"again in {event['delayMs'] / 1000:g} s, {event['attempt']} of {event['maxAttempts']}"
                await screen.say(_short(f"{event['errorMessage']}; {again}"), "yellow")
            case "compaction_start" if event["reason"] != "answered":
                await screen.say(f"compacting the session ({event['reason']}) …", "dim")
            case "compaction_end" if event.get("errorMessage"):
                await screen.say(_short(event["errorMessage"]), "yellow")
            case "compaction_end" if event["reason"] != "answered" and event.get("result"):
                await screen.say(f"compacted; it had {event['result']['tokensBefore']} tokens", "dim")
            case "session_resumed":
                await screen.say(f"the conversation goes on: {event['messages']} messages", "dim")
            case "answer_repaired":
                await screen.say(f"{event['count']} broken characters of the answer were replaced", "yellow")

    async def _grow(self, step: Any) -> None:
        if step["type"] == "text_delta":
            await self._screen.stream(step["delta"])
        elif step["type"] == "thinking_delta" and sys.stdout.isatty():
            await self._screen.stream(step["delta"], "dim")
        elif step["type"] == "thinking_end":
            await self._screen.end_line()

    async def _delivered(self, message: Any) -> None:
        """A message of the user's that has waited is shown when it comes in."""
        if message["role"] != "user":
            return
        is_typed, self.expects_typed = self.expects_typed, False
        if not is_typed:
            await self._screen.say(_short(f"» {_text(message)}"), "dim")


def _text(message: Any) -> str:
    content = message["content"]
    return content if type(content) is str else " ".join(block.get("text", "") for block in content)


def _json(arguments: Any) -> str:
    """As a model gave them: not all of it need be what memory takes."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _short(text: str) -> str:
    return shortened(text[:_LOOKED_AT_CHARS])
