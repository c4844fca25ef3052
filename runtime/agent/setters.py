"""The setters of an agent, for programs that prefer methods to assignments. None of them tells anybody."""

from __future__ import annotations

from collections.abc import Iterable

from .messages import AgentMessage
from .model_stream import Model, ThinkingLevel
from .queues import QueueMode
from .state import AgentState
from .tools import Tool


class Setters:
    """Each method does what the assignment in its docstring does."""

    state: AgentState
    steering_mode: QueueMode
    follow_up_mode: QueueMode

    def set_system_prompt(self, system_prompt: str) -> None:
        """The same as assigning ``state.system_prompt``."""
        self.state.system_prompt = system_prompt

    def set_model(self, model: Model) -> None:
        """The same as assigning ``state.model``."""
        self.state.model = model

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """The same as assigning ``state.thinking_level``."""
        self.state.thinking_level = level

    def set_tools(self, tools: Iterable[Tool]) -> None:
        """The same as assigning ``state.tools``."""
        self.state.tools = list(tools)

    def append_message(self, message: AgentMessage) -> None:
        """Add to the transcript. Nobody is told and nothing is recorded."""
        self.state.messages.append(message)

    def replace_messages(self, messages: Iterable[AgentMessage]) -> None:
        """The same as assigning ``state.messages``: copies the list."""
        self.state.messages = list(messages)

    def clear_messages(self) -> None:
        """Empty the transcript."""
        self.state.messages = []

    def set_steering_mode(self, mode: QueueMode) -> None:
        """The same as assigning ``steering_mode``."""
        self.steering_mode = mode

    def get_steering_mode(self) -> QueueMode:
        """The same as reading ``steering_mode``."""
        return self.steering_mode

    def set_follow_up_mode(self, mode: QueueMode) -> None:
        """The same as assigning ``follow_up_mode``."""
        self.follow_up_mode = mode

    def get_follow_up_mode(self) -> QueueMode:
        """The same as reading ``follow_up_mode``."""
        return self.follow_up_mode
