"""What an agent shows of itself. Both spellings in use are there: ``stream_message`` and ``streaming_message``,
``error`` and ``error_message``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import attrs

from .events import AgentEvent
from .messages import AgentMessage
from .model_stream import Model, ThinkingLevel
from .tools import Tool

UNKNOWN_MODEL = Model(id="unknown", provider="unknown", api="unknown")


@final
@attrs.define(eq=False)
class AgentState:
    """The state of an agent.

    Attributes:
      system_prompt, model, thinking_level: what the next run uses. May be assigned at any time; a run that is under way
        goes on with what it began with.
      is_streaming: whether a run is going on.
      stream_message: the message between its ``message_start`` and ``message_end``, of any role; else None.
      pending_tool_calls: ids of the tool calls that run. A new set at each change.
      error: the text of the last failed or aborted turn, until the next run begins; else None.
    """

    system_prompt: str = ""
    model: Model = UNKNOWN_MODEL
    thinking_level: ThinkingLevel = "off"
    _tools: list[Tool] = attrs.field(factory=list)
    _messages: list[AgentMessage] = attrs.field(factory=list)
    is_streaming: bool = attrs.field(default=False, init=False)
    stream_message: AgentMessage | None = attrs.field(default=None, init=False)
    pending_tool_calls: frozenset[str] = attrs.field(default=frozenset(), init=False)
    error: str | None = attrs.field(default=None, init=False)

    @property
    def tools(self) -> list[Tool]:
        """The tools of the next run: the live list. Assigning copies."""
        return self._tools

    @tools.setter
    def tools(self, tools: Iterable[Tool]) -> None:
        self._tools = list(tools)

    @property
    def messages(self) -> list[AgentMessage]:
        """The transcript: the live list. Assigning copies. A run that is under way does not see what others add."""
        return self._messages

    @messages.setter
    def messages(self, messages: Iterable[AgentMessage]) -> None:
        self._messages = list(messages)

    @property
    def streaming_message(self) -> AgentMessage | None:
        """The same as ``stream_message``."""
        return self.stream_message

    @property
    def error_message(self) -> str | None:
        """The same as ``error``."""
        return self.error

    def _apply(self, event: AgentEvent) -> None:
        """Follow an event that is about to be told. ``message_end`` is followed by ``_append``."""
        match event["type"]:
            case "message_start" | "message_update":
                self.stream_message = event["message"]
            case "tool_execution_start":
                self.pending_tool_calls = self.pending_tool_calls | {event["toolCallId"]}
            case "tool_execution_end":
                self.pending_tool_calls = self.pending_tool_calls - {event["toolCallId"]}
            case "turn_end":
                self.error = event["message"].get("errorMessage") or self.error

    def _append(self, message: AgentMessage) -> None:
        self.stream_message = None
        self._messages.append(message)

    def _settle(self) -> None:
        self.is_streaming = False
        self.stream_message = None
        self.pending_tool_calls = frozenset()
