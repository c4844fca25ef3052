"""``strataflow.Agent``: a conversation with a model that may call tools, and be steered while it works.

::

    idle ──prompt, continue_──> running ──its end──> idle
      │                            │ aclose: aborted, after a while cancelled
      └────────aclose────> closed <┘
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

import trio

from ...actors import Clock, Ids
from ...store import Disk, RealDisk
from ..world import RandomIds, SystemClock
from .activity import Activity
from .custody import Custody, Work, in_thread
from .errors import AgentError, closed
from .host import AgentHost, NoHost
from .messages import AgentMessage, ImageBlock, messages_of, role_of
from .model_stream import Model, StreamFunction, ThinkingLevel
from .options import ConvertToLlm, GetApiKey, ShouldStop, TransformContext
from .options_of import options_of
from .queue_file import QueueFile, Recorder
from .queueing import Queueing
from .queues import QueueMode
from .run import AgentRun
from .sessions import ConversationRules, Conversing, SessionHost
from .setters import Setters
from .signals import AbortSignal
from .state import UNKNOWN_MODEL, AgentState
from .step import unanswered
from .step_types import Begin, Item, Lane, SteeringPolicy
from .tools import AfterToolCall, BeforeToolCall, ExecutionMode, Listener, Tool

if TYPE_CHECKING:
    from ..session import Session

CLOSE_S = 5.0


@final
class Agent(Queueing, Setters, Conversing):
    """An agent. A run lives in the task that called ``prompt`` or ``continue_``; an idle agent has no task.

    ``async with`` closes it at the end; an agent that is idle may as well be dropped.

    Attributes:
      state: what it shows and what the next run uses: see ``AgentState``.
      steering_mode, follow_up_mode: how much a poll takes, ``"one-at-a-time"`` or ``"all"``. Read live.
      steering_policy: ``"finish"`` lets the tool calls of an answer finish before steering is delivered; ``"skip"``
        looks for it between them and skips the rest.
      tool_execution: ``"parallel"`` or ``"sequential"``.
      convert_to_llm, transform_context, get_api_key, api_key, stream_fn: see ``docs/reference/agent.md``.
      before_tool_call, after_tool_call, should_stop_after_turn: hooks.
      expand: what texts given to ``prompt``, ``steer`` and ``follow_up`` mean, such as ``Resources.expand``.
      session_id, thinking_budgets, transport, max_retry_delay_s: handed to the model client.

    All of these may be assigned; the next run uses them.
    """

    def __init__(
        self,
        *,
        model: Model = UNKNOWN_MODEL,
        system_prompt: str = "",
        thinking_level: ThinkingLevel | None = None,
        tools: Iterable[Tool] = (),
        messages: Iterable[AgentMessage] = (),
        stream_fn: StreamFunction | None = None,
        convert_to_llm: ConvertToLlm | None = None,
        transform_context: TransformContext | None = None,
        get_api_key: GetApiKey | None = None,
        api_key: str | None = None,
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        steering_policy: SteeringPolicy = "finish",
        tool_execution: ExecutionMode = "parallel",
        before_tool_call: BeforeToolCall | None = None,
        after_tool_call: AfterToolCall | None = None,
        should_stop_after_turn: ShouldStop | None = None,
        session_id: str | None = None,
        thinking_budgets: Mapping[str, int] | None = None,
        transport: str | None = "auto",
        max_retry_delay_s: float | None = None,
        expand: Callable[[str], str] | None = None,
        session: Session | None = None,
        rules: ConversationRules | None = None,
        host: AgentHost | None = None,
        recorder: Recorder | None = None,
        disk: Disk | None = None,
        work: Work = in_thread,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        """Make an agent; nothing is read or started.

        ``session``: keeps the conversation in its tree, and is the agent's memory; ``rules`` say how that is done.
        Without one: ``recorder`` keeps the conversation, and its queues beside its file; ``host`` joins the runs; and
        the last four are the seams to the world: files, threads, time, ids.
        """
        self._has_level = thinking_level is not None
        self.state = AgentState(system_prompt, model, thinking_level or "off", [*tools], [*messages])
        self.stream_fn = stream_fn
        self.transform_context = transform_context
        self.get_api_key, self.api_key = get_api_key, api_key
        self.steering_mode, self.follow_up_mode = steering_mode, follow_up_mode
        self.steering_policy, self.tool_execution = steering_policy, tool_execution
        self.before_tool_call, self.after_tool_call = before_tool_call, after_tool_call
        self.should_stop_after_turn = should_stop_after_turn
        self.session_id, self.thinking_budgets = session_id, thinking_budgets
        self.transport, self.max_retry_delay_s = transport, max_retry_delay_s
        self.expand = expand
        self._activity: Activity | None = None
        self._listeners: dict[int, Listener] = {}
        self._numbers = itertools.count()
        self._is_closed = False
        self._now_ms = (clock or SystemClock()).wall_ms
        new_id = (ids or RandomIds()).new_id
        self._with_session: SessionHost | None = None
        if session is not None:
            host = self._with_session = SessionHost(self, session, rules or ConversationRules())
            self._now_ms = host.now_ms
            recorder, work, disk, new_id = host.desk.tree, host.desk.work, host.seams.disk, host.seams.new_id
        self._host: AgentHost = host or NoHost()
        self.convert_to_llm: ConvertToLlm = convert_to_llm or self._host.convert_to_llm
        queue_file = None if recorder is None else QueueFile(disk or RealDisk(), recorder, new_id)
        self._custody = Custody(queue_file, work, new_id)

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def prompt(
        self, prompt: str | AgentMessage | Sequence[AgentMessage], images: Sequence[ImageBlock] = ()
    ) -> None:
        """Run with new messages until the agent would stop.

        Args:
          prompt: text, which becomes a user message; a message of any role; or several. None at all is a turn on the
            conversation as it is.
          images: added to the text.

        Returns when the run has settled, also when it failed or was aborted: then ``state.error`` says why. Raises
        AgentError E_AGENT_RUNNING or E_AGENT_CLOSED, TypeError for what is no message. Cancelling is aborting without
        waiting: every tool call in the transcript gets a result, an answer that broke off stays as far as it came, no
        listener is told, and what was queued waits.
        """
        await self._load()
        self._check_idle(" a prompt. Use steer() or follow_up() to queue messages, or wait for completion.")
        said = messages_of(self._expanded(prompt), images, self._now_ms())
        await self._drive(Begin([Item(message) for message in said]))

    async def continue_(self) -> None:
        """Run on the conversation as it is; after an answer, with what waits in the queues. Else as ``prompt``.

        Raises AgentError E_AGENT_CONTINUE if there is nothing to go on with.
        """
        await self._load()
        self._check_idle(". Wait for completion before continuing.")
        await self._drive(self._continuation())

    def _continuation(self) -> Begin:
        messages = self.state.messages
        if not messages:
            raise AgentError("E_AGENT_CONTINUE", "No messages to continue from")
        if role_of(messages[-1]) != "assistant" or unanswered(messages):
            return Begin()
        queues = self._custody.queues
        if steering := queues.take("steering", self.steering_mode):
            return Begin(steering, polls=False)
        if following := queues.take("follow_up", self.follow_up_mode):
            return Begin(following)
        raise AgentError("E_AGENT_CONTINUE", "Cannot continue from message role: assistant")

    def abort(self) -> None:
        """Set the signal of the run; without one, nothing. The queues keep what they have."""
        if self._activity is not None:
            self._activity.signal._set()

    @property
    def signal(self) -> AbortSignal | None:
        """The signal of the run; None when idle."""
        return None if self._activity is None else self._activity.signal

    async def wait_for_idle(self) -> None:
        """Wait until the run has settled, listeners of ``agent_end`` included. A cancellation leaves nothing behind.

        Raises AgentError E_AGENT_RUNNING within the run (a tool, a hook, a listener): it would wait for itself.
        """
        if self._activity is not None:
            self._activity.check_outside()
            await self._activity.is_over.wait()
        else:
            await trio.lowlevel.checkpoint()

    async def reset(self) -> None:
        """Clear transcript, error and queues; keep the prompt, model, level, tools, hooks and modes.

        Raises AgentError E_AGENT_RUNNING during a run. Cancelled: the queues may be cleared already.
        """
        self._check_idle(". Abort it and wait before resetting.")
        await self._custody.clear()
        self._check_idle(". Abort it and wait before resetting.")
        self.state.messages = []
        self.state.error = None

    async def aclose(self, deadline_s: float = CLOSE_S) -> None:
        """Abort the run, wait for it, and cancel it if it takes longer. Then nothing of the agent is alive.

        Queued messages stay where they are kept. Idempotent. Raises AgentError E_AGENT_RUNNING within the run (a tool,
        a hook, a listener), which goes on. Cancelled: the run is cancelled at once, and waited for.
        """
        if self._activity is not None:
            self._activity.check_outside()
        self._is_closed = True
        if self._activity is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._activity.end(deadline_s)

    async def __aenter__(self) -> Self:
        """Take over what waited when the last program ended."""
        await self._load()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- listeners ----------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener(event, signal)`` for every event, in the order of subscription, each awaited.

        A listener that raises makes the run fail. Returns a function that ends it.
        """
        number = next(self._numbers)
        self._listeners[number] = listener

        def unsubscribe() -> None:
            self._listeners.pop(number, None)

        return unsubscribe

    # -- the inside ---------------------------------------------------------------------------------------------------

    def _check_idle(self, text: str) -> None:
        if self._is_closed:
            raise closed()
        if self._activity is not None:
            raise AgentError("E_AGENT_RUNNING", f"Agent is already processing{text}")

    async def _load(self) -> None:
        await self._host.load()
        await self._custody.load()

    async def _occupy(self, work: Callable[[AbortSignal], Awaitable[None]]) -> None:
        activity = self._activity = Activity()
        try:
            with activity.going_on():
                await work(activity.signal)
        finally:
            self._activity = None

    async def _drive(self, begin: Begin) -> None:
        try:
            await self._occupy(lambda signal: self._host.drive(begin, partial(self._live, signal), signal))
        finally:
            self._custody.queues.release()  # what was to begin with, if it never came to a run

    async def _live(self, signal: AbortSignal, begin: Begin) -> None:
        def listeners() -> Iterable[Listener]:
            return self._host.listeners(self._listeners.values())

        run = AgentRun(options_of(self), self.state, self._custody, listeners, self._mode_of, self._now_ms, signal)
        await run.live(begin)

    def _mode_of(self, lane: Lane) -> QueueMode:
        return self.steering_mode if lane == "steering" else self.follow_up_mode
