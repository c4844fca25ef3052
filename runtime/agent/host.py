"""The place where a memory, or another host, joins the runs of an agent. One object; no switches in the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias

from .messages import AgentMessage, AssistantMessage, LlmMessage, only_llm
from .signals import AbortSignal
from .step_types import Begin
from .tools import Block, Listener, ResultChange, Tool, ToolCallContext

# One run, from these messages until it has settled.
Live: TypeAlias = Callable[[Begin], Awaitable[None]]


class HostRun(Protocol):
    """A host's part in one run. What any of these raises makes the run fail, unless it is said otherwise."""

    async def before_model_call(
        self, system_prompt: str, messages: Sequence[AgentMessage]
    ) -> tuple[str, Sequence[AgentMessage]]:
        """The system prompt and the messages as they shall be sent: a memory puts itself in front. The messages are
        as ``transform_context`` gave them, and are converted afterwards."""

    async def receive_answer(self, answer: AssistantMessage) -> AssistantMessage:
        """The answer as it shall be told and recorded: the door at which it is repaired."""

    async def before_tool_call(self, context: ToolCallContext) -> Block | None:
        """Whether a call may run: the barrier. Before the user's own hook. Raising blocks the call with the text."""

    async def after_tool_call(self, context: ToolCallContext) -> ResultChange | None:
        """What becomes of the result of a call that was run. Before the user's own hook. Raising makes it an error."""

    async def accept_answer(self, answer: AssistantMessage) -> None:
        """The run has come to its answer. Before ``agent_end``."""

    async def settle(self, messages: Sequence[AgentMessage]) -> None:
        """The run is over and all have been told; ``messages`` came with it. Not if the run was cancelled, or
        failed outside of the model."""


class AgentHost(Protocol):
    """A host of an agent."""

    async def load(self) -> None:
        """Take up what an earlier program has left. Before anything else is asked of an agent, each time: what is
        loaded already costs nothing."""

    def tools(self) -> Sequence[Tool]:
        """Tools of the host's own, in front of the user's."""

    def convert_to_llm(self, messages: Sequence[AgentMessage]) -> list[LlmMessage]:
        """The conversion of an agent that was given none."""

    def listeners(self, users: Iterable[Listener]) -> Iterable[Listener]:
        """Who hears an event, in this order."""

    async def drive(self, begin: Begin, live: Live, signal: AbortSignal) -> None:
        """All that a prompt leads to: usually one run. ``signal``: the user wants it to end."""

    async def queued(self) -> None:
        """The queues have changed, otherwise than by a run."""

    def run(self, prompts: Sequence[AgentMessage]) -> AbstractAsyncContextManager[HostRun]:
        """One run, from before ``agent_start`` until it is over. Left by cancellation too, which must not be slow."""


class NoHost:
    """An agent by itself."""

    async def load(self) -> None:
        """Nothing."""

    def tools(self) -> Sequence[Tool]:
        """None."""
        return ()

    def convert_to_llm(self, messages: Sequence[AgentMessage]) -> list[LlmMessage]:
        """What models know is kept."""
        return only_llm(messages)

    def listeners(self, users: Iterable[Listener]) -> Iterable[Listener]:
        """The user's."""
        return users

    async def drive(self, begin: Begin, live: Live, signal: AbortSignal) -> None:
        """One run."""
        await live(begin)

    async def queued(self) -> None:
        """Nothing."""

    @asynccontextmanager
    async def run(self, prompts: Sequence[AgentMessage]) -> AsyncIterator[HostRun]:
        """Nothing happens."""
        yield NoHostRun()


class NoHostRun:
    """Changes nothing."""

    async def before_model_call(
        self, system_prompt: str, messages: Sequence[AgentMessage]
    ) -> tuple[str, Sequence[AgentMessage]]:
        """As it is."""
        return system_prompt, messages

    async def receive_answer(self, answer: AssistantMessage) -> AssistantMessage:
        """As it is."""
        return answer

    async def before_tool_call(self, context: ToolCallContext) -> Block | None:
        """It may run."""
        return None

    async def after_tool_call(self, context: ToolCallContext) -> ResultChange | None:
        """As it is."""
        return None

    async def accept_answer(self, answer: AssistantMessage) -> None:
        """Nothing."""

    async def settle(self, messages: Sequence[AgentMessage]) -> None:
        """Nothing."""
