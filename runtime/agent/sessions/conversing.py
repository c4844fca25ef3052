"""The part of an agent that is about its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...resources.compaction import Compaction, Navigation, OnTree, navigate_session
from ..errors import AgentError
from ..messages import AgentMessage, role_of
from ..signals import AbortSignal

if TYPE_CHECKING:
    from ...session import Session
    from .session_host import SessionHost


class Conversing:
    """What an agent with a session can do beside its runs. Without one these raise AgentError E_AGENT_SESSION."""

    _with_session: SessionHost | None
    _is_closed: bool

    if TYPE_CHECKING:

        def abort(self) -> None: ...
        async def wait_for_idle(self) -> None: ...
        def _check_idle(self, text: str) -> None: ...
        async def _occupy(self, work: Callable[[AbortSignal], Awaitable[None]]) -> None: ...

    @property
    def session(self) -> Session | None:
        """The session; None if it has none."""
        return None if self._with_session is None else self._with_session.session

    async def compact(self, instructions: str | None = None) -> Compaction:
        """Sum up what came first in the conversation, and keep what came last. Aborts a run that goes on.

        Args:
          instructions: what the summary should give weight to.

        Raises:
          CompactionError: E_NOTHING, E_MODEL, E_ABORTED, E_MOVED; nothing was appended.
          AgentError: E_AGENT_RUNNING if somebody else was quicker; E_AGENT_CLOSED.
          StoreError: what the tree raises.

        Cancelled: nothing was appended, or the next prompt finds that it was.
        """
        host = self._host_of_session()
        self.abort()
        await self.wait_for_idle()

        async def work(signal: AbortSignal) -> Compaction:
            return await host.compacting.compact("manual", signal, instructions=instructions)

        found: Compaction = await self._alone(host, "compacting", work)
        return found

    async def navigate(
        self,
        target_id: str,
        *,
        has_summary: bool = False,
        instructions: str | None = None,
        is_replacing: bool = False,
        label: str | None = None,
    ) -> Navigation:
        """Go on from another entry of the session's tree; the agent's messages are then those of that branch.

        From a user or custom message one goes on before it, with its text given back. Arguments and errors as
        ``compaction.navigate_session``; ``has_summary``: say what is left. AgentError E_AGENT_RUNNING during a run.

        Cancelled: nothing was moved, or the next prompt finds that it was.
        """
        host = self._host_of_session()

        async def work(signal: AbortSignal) -> Navigation:
            desk, state = host.desk, host.agent.state
            summarizer = None
            if has_summary:
                summarizer = host.rules.summarizer or await host._summarizer()
            moved: Navigation | None = None
            with signal._cancelling():
                moved = await navigate_session(
                    desk.tree,
                    target_id,
                    summarizer,
                    instructions=instructions,
                    is_replacing=is_replacing,
                    label=label,
                    context_window=state.model.context_window,
                    settings=host.rules.compaction,
                    on_tree=_look_then_move(desk.work, desk.move),
                )
                if moved.is_moved:
                    await host.compacting.take_up()
                    host.forget_prompt()
            if moved is not None:
                return moved
            raise AgentError("E_AGENT_ABORTED", "the navigation was aborted; the session stays where it was")

        found: Navigation = await self._alone(host, "navigating", work)
        return found

    async def insert(self, message: AgentMessage) -> None:
        """Record a message without a turn: what an application or a command of the user adds.

        During a run it is held back, so that it never stands between a tool call and its result, and recorded when the
        run is over. Cancelled: it is recorded and in the transcript, or neither.
        """
        host = self._host_of_session()
        await host.agent._load()
        if host.agent.signal is not None:
            host.conversation.say_beside(message)
            return

        async def work(signal: AbortSignal) -> None:
            if role_of(message) == "bashExecution":
                await host.conversation.record(message)
                return
            await host.tell({"type": "message_start", "message": message})
            await host.conversation.record(message)
            await host.tell({"type": "message_end", "message": message})

        await self._alone(host, "recording", work)

    def attach(self, message: AgentMessage) -> None:
        """Let a message come with the next prompt, behind it. Until then it is kept in memory only."""
        self._host_of_session().attached.append(message)

    async def set_session_name(self, name: str) -> None:
        """Name the session; an empty name takes it away. At any time. Cancelled: it is named, or not."""
        host = self._host_of_session()
        await host.agent._load()
        await host.conversation.record_name(name)
        await host.tell({"type": "session_info_changed", "name": name.strip()})

    def _host_of_session(self) -> SessionHost:
        if self._with_session is None:
            raise AgentError("E_AGENT_SESSION", "this agent has no session: make it with Agent(session=…)")
        return self._with_session

    async def _alone(self, host: SessionHost, doing: str, work: Callable[[AbortSignal], Awaitable[Any]]) -> Any:
        """What ``work`` gives, with the agent occupied by it."""
        await host.agent._load()
        self._check_idle(f". Wait for completion before {doing}.")
        results: list[Any] = []

        async def ready_then_work(signal: AbortSignal) -> None:
            await host.get_ready()
            results.append(await work(signal))

        await self._occupy(ready_then_work)
        if not results:
            raise AgentError("E_AGENT_CLOSED", "the agent was closed meanwhile")
        return results[0]


def _look_then_move(look: OnTree, move: OnTree) -> OnTree:
    """The first call on the tree looks at it; the other one moves, and memory follows."""
    calls = iter((look, move))

    async def on_tree(call: Any, /) -> Any:
        return await next(calls)(call)

    return on_tree
