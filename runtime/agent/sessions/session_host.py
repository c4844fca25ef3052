"""What an agent does around its runs when it has a session: the host that joins memory, tree and agent.

::

    prompt --> follow the tree, record settings, compact if it is full
                 |
                 v          failed for the moment: wait
               run <──────────────────────────────────┐
                 │  too long: compact                 │
                 ├────────────────────────────────────┤
                 │  full: compact; something queued   │
                 ├────────────────────────────────────┘
                 v
               settled: record what was said beside, compact what is answered, call ``when_settled``

Only one of these goes on at a time, since the agent is occupied by all of it (host 3.2.10).

Invariants:
  H1  The memory's run lasts over all attempts at one prompt: a retry continues its requests.
  H2  What fails behind a run does not undo it: the error is in the agent's state, and listeners have been told.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, final

import attrs
import trio

from ...resources.compaction import CompactionError, ModelSummarizer
from ...resources.converting import convert_to_llm
from ...run import Run
from ...session import Session
from ..ascending import Ascending
from ..events import AgentEvent, SessionResumed
from ..host import HostRun, Live
from ..messages import AgentMessage, AssistantMessage, LlmMessage, json_of, role_of
from ..model_stream import StreamOptions
from ..options import settled, text_of
from ..signals import AbortSignal
from ..state import UNKNOWN_MODEL
from ..step_types import Begin, Item
from ..tools import Listener, Tool
from .answered import Answered, compact_answered
from .compacting import Compacting
from .conversation import Conversation
from .judging import repaired_text
from .memory_run import MemoryRun
from .memory_tools import memory_tools
from .queue_events import QueueEvents, said_by
from .recovering import Recovering
from .rules import ConversationRules
from .told import teller
from .tree_desk import desk_of

if TYPE_CHECKING:
    from ..agent import Agent


@final
class SessionHost:
    """The host of one agent with one session."""

    def __init__(self, agent: Agent, session: Session, rules: ConversationRules) -> None:
        self.agent = agent
        self.session = session
        self.rules = rules
        self.tell = teller(lambda: agent._listeners.values(), lambda: agent.signal)
        self.desk = desk_of(session)
        self.seams = self.desk.tree.seams
        self.now_ms = Ascending(self.seams.now_ms)
        self.conversation = Conversation(self.desk, agent.state)
        self.compacting = Compacting(session, self.conversation, rules, self.tell, self._summarizer)
        self.recovering = Recovering(self.conversation, self.compacting, rules.retry, self.tell)
        self.queues = QueueEvents(agent.queued, self.tell)
        self.attached: list[AgentMessage] = []
        self._loading = trio.Lock()
        self._is_loaded = False
        self._runs = AsyncExitStack()
        self._memory: Run | None = None
        self._prompt: tuple[str, int | None] | None = None
        self._answered = Answered(session, self.seams.new_id)

    # -- see AgentHost ------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Take up the conversation of the branch: messages, model, level (2.7.7)."""
        if self._is_loaded:
            return
        async with self._loading:
            if self._has_loaded():
                return
            found = await self.conversation.look()
            if found.leaf is not None:
                own = self.agent.state.messages
                self.conversation.take_up(found)
                if not found.context.messages:
                    self.agent.state.messages = own
                self._raise_clock()
            problem = self._take_settings()
            self._is_loaded = True
        if found.context.messages or problem:
            told: SessionResumed = {"type": "session_resumed", "messages": len(found.context.messages)}
            if problem:
                told["problem"] = problem
            await self.tell(told)

    def _take_settings(self) -> str | None:
        """Model and level of the branch, where the program has chosen none. Why the model can not be."""
        state, named = self.agent.state, self.conversation.recorded_model
        if not self.agent._has_level:
            state.thinking_level = self.conversation.recorded_level or state.thinking_level
        if state.model is not UNKNOWN_MODEL or named is None:
            return None
        try:
            state.model = self.rules.find_model(*named)
        except Exception as error:  # of whatever kind: the models are the program's
            return f"the model {'/'.join(named)} of the session can not be had: {text_of(error)}"
        return None

    def _has_loaded(self) -> bool:
        return self._is_loaded  # asked again: somebody else may have done it meanwhile

    def _raise_clock(self) -> None:
        times = [json_of(message).get("timestamp") for message in self.agent.state.messages]
        self.now_ms.floor_ms = max((time for time in times if type(time) is int), default=0)

    def tools(self) -> Sequence[Tool]:
        """The memory's."""
        return memory_tools(self.session)

    def convert_to_llm(self, messages: Sequence[AgentMessage]) -> list[LlmMessage]:
        """What the roles of session files mean to a model (5.7.5)."""
        return convert_to_llm(json_of(message) for message in messages)

    def listeners(self, users: Iterable[Listener]) -> Iterable[Listener]:
        """The users', between two of ours."""
        return [self._before_users, *users, self._after_users]

    async def queued(self) -> None:
        """Tell what waits now."""
        await self.queues.look()

    async def drive(self, begin: Begin, live: Live, signal: AbortSignal) -> None:
        """See the head of this module."""
        begin = await self._prepared(begin, signal)
        async with AsyncExitStack() as self._runs:
            self._memory = None
            again: Begin | None = begin
            while again is not None:
                await live(again)
                again = await self._after(signal)
        try:
            await self._settle()
        except Exception as error:
            self.agent.state.error = text_of(error)  # H2

    @asynccontextmanager
    async def run(self, prompts: Sequence[AgentMessage]) -> AsyncIterator[HostRun]:
        """The memory's part in a run."""
        if self._memory is None or self._answered.is_answered:
            await self._begin_memory(prompts)
        assert self._memory is not None
        signal = self.agent.signal or AbortSignal()
        yield MemoryRun(self._memory, signal, self._report_repair, self._answered.accept, self.rules.read_path)

    # -- the parts of it ----------------------------------------------------------------------------------------------

    async def get_ready(self) -> None:
        """Before anything that records: what could not be, follow the tree, what was said beside, the settings."""
        if self.agent._custody.has_debts:
            await self.agent._custody.pay()
            self.conversation.note_leaf()
        if await self.conversation.follow():
            self.forget_prompt()
        await self.conversation.record_beside()
        changed = await self.conversation.record_settings()
        if changed.level is not None:
            await self.tell({"type": "thinking_level_changed", "level": changed.level})

    def forget_prompt(self) -> None:
        """The conversation is another one: what goes on without a prompt goes on with its last one."""
        self._prompt = None

    async def _prepared(self, begin: Begin, signal: AbortSignal) -> Begin:
        await self.get_ready()
        self.recovering.begin(has_prompt=any(role_of(item.message) == "user" for item in begin.prompts))
        if not begin.prompts:
            return begin
        last = self._last_answer()
        if last is not None and self.compacting.reason(last, has_recovered=False, is_before_prompt=True):
            with suppress(CompactionError):  # it was told; the prompt may do without
                await self.compacting.compact("threshold", signal)
        return attrs.evolve(begin, prompts=[*begin.prompts, *map(Item, self.attached)])

    def _last_answer(self) -> AssistantMessage | None:
        for message in reversed(self.agent.state.messages):
            if role_of(message) == "assistant":
                return json_of(message)  # type: ignore[return-value]
        return None

    async def _after(self, signal: AbortSignal) -> Begin | None:
        self.conversation.note_leaf()
        try:
            await self.queues.delivering(None)
            again = await self.recovering.after(signal)
            if again is None and self.recovering.has_compacted and self.agent.has_queued_messages:
                again = self.agent._continuation()  # 3.2.7
            return again
        except Exception as error:
            self.agent.state.error = text_of(error)  # H2
            return None

    async def _settle(self) -> None:
        await self.conversation.record_beside()
        if not self.agent.has_queued_messages:
            await compact_answered(self._answered, self.compacting, self._last_answer())
        if self.rules.when_settled is not None:
            await self.rules.when_settled()

    async def _begin_memory(self, prompts: Sequence[AgentMessage]) -> None:
        """The memory's run for these messages; for none of a user, the one for the last prompt goes on."""
        user = next((message for message in prompts if role_of(message) == "user"), None)
        if user is None and self._prompt is None:
            user = next((m for m in reversed(self.agent.state.messages) if role_of(m) == "user"), None)
        if user is not None:
            self._prompt = (repaired_text(said_by(user)), json_of(user).get("timestamp"))
        text, anchor = self._prompt or ("".join(repaired_text(said_by(message)) for message in prompts), None)
        self._memory = await self._runs.enter_async_context(self.session.run(text, anchor=anchor))
        self._answered.begin(anchor)

    async def _report_repair(self, count: int) -> None:
        self.session.note_repair(count)
        await self.tell({"type": "answer_repaired", "count": count})

    async def _before_users(self, event: AgentEvent, signal: AbortSignal) -> None:
        if event["type"] == "message_start":
            self.attached = [message for message in self.attached if message is not event["message"]]
            await self.queues.delivering(event["message"])

    async def _after_users(self, event: AgentEvent, signal: AbortSignal) -> None:
        if event["type"] == "message_end":
            await self.queues.delivering(None)
            await self.recovering.heard(event["message"])

    async def _summarizer(self) -> ModelSummarizer:
        agent, state = self.agent, self.agent.state
        if agent.stream_fn is None:
            raise CompactionError("E_MODEL", "Summarization failed: the agent has no stream_fn; give a summarizer")
        key = None if agent.get_api_key is None else await settled(agent.get_api_key(state.model.provider))
        options = StreamOptions(
            api_key=key or agent.api_key, session_id=agent.session_id, max_retry_delay_s=agent.max_retry_delay_s
        )
        return ModelSummarizer(agent.stream_fn, state.model, state.thinking_level, options)
