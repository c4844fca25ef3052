"""The place where a memory, or another host, joins the runs of an agent. One object; no switches in the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from .messages import AgentMessage, AssistantMessage
from .model_stream import ModelRequest
from .tools import Block, Tool, ToolCallContext


class HostRun(Protocol):
    """A host's part in one run. What any of these raises makes the run fail, unless it is said otherwise."""

    async def before_model_call(self, request: ModelRequest) -> ModelRequest:
        """The request as it shall be sent: a memory puts itself in front. After all conversions."""

    async def receive_answer(self, answer: AssistantMessage) -> AssistantMessage:
        """The answer as it shall be told and recorded: the door at which it is repaired."""

    async def before_tool_call(self, context: ToolCallContext) -> Block | None:
        """Whether a call may run: the barrier. Before the user's own hook. Raising blocks the call with the text."""

    async def accept_answer(self, answer: AssistantMessage) -> None:
        """The run has come to its answer. Before ``agent_end``."""

    async def settle(self, messages: Sequence[AgentMessage]) -> None:
        """The run is over and all have been told; ``messages`` came with it. Not if the run was cancelled, or
        failed outside of the model."""


class AgentHost(Protocol):
    """A host of an agent."""

    def tools(self) -> Sequence[Tool]:
        """Tools of the host's own, in front of the user's."""

    def run(self, prompts: Sequence[AgentMessage]) -> AbstractAsyncContextManager[HostRun]:
        """One run, from before ``agent_start`` until it is over. Left by cancellation too, which must not be slow."""


class NoHost:
    """An agent by itself."""

    def tools(self) -> Sequence[Tool]:
        """None."""
        return ()

    @asynccontextmanager
    async def run(self, prompts: Sequence[AgentMessage]) -> AsyncIterator[HostRun]:
        """Nothing happens."""
        yield _NoRun()


class _NoRun:
    async def before_model_call(self, request: ModelRequest) -> ModelRequest:
        return request

    async def receive_answer(self, answer: AssistantMessage) -> AssistantMessage:
        return answer

    async def before_tool_call(self, context: ToolCallContext) -> Block | None:
        return None

    async def accept_answer(self, answer: AssistantMessage) -> None:
        return None

    async def settle(self, messages: Sequence[AgentMessage]) -> None:
        return None
