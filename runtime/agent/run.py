"""A run of an agent: carries out what ``step`` decides. It lives in the task of whoever called ``prompt``.

Invariants:
  R1  However a run ends, by itself, by failing, by being cancelled: every tool call in the transcript has a result.
  R2  Nothing is recorded later than it is in the transcript, and both in the order of events, before any listener hears
      of it.
  R3  Nothing of a run is left when it is over: no task, no claim on a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import attrs
import trio

from .custody import Custody
from .host import HostRun
from .messages import AgentMessage, AssistantMessage, json_of, role_of, tool_calls
from .model_call import ABORTED, ask_model
from .model_stream import StreamEvent
from .options import RunOptions, settled, text_of
from .queues import QueueMode
from .signals import AbortSignal
from .state import AgentState
from .step import ABORTED_TOOL, step, unanswered
from .step_types import (
    Accept,
    Answered,
    AskStop,
    Begin,
    Broken,
    CallModel,
    Effect,
    Execute,
    Executed,
    Input,
    Keep,
    Lane,
    Poll,
    Polled,
    Prepare,
    Rules,
    RunState,
    StopAsked,
    Streamed,
    Tell,
    Updated,
)
from .tool_calls import ToolCalls
from .tools import Listener

# How long the last words of a cancelled run may take: a few lines into a file.
LAST_WORDS_S = 5


def rules_of(options: RunOptions) -> Rules:
    """The rules by which a run decides."""
    one_by_one = frozenset(tool.name for tool in options.tools.values() if tool.execution_mode == "sequential")
    return Rules(
        options.steering_policy,
        options.should_stop_after_turn is not None,
        None if options.tool_execution == "sequential" else one_by_one,
    )


@final
@attrs.define(eq=False)
class AgentRun:
    """One run. ``listeners`` and ``mode_of`` are asked each time."""

    options: RunOptions
    shown: AgentState
    custody: Custody
    listeners: Callable[[], Iterable[Listener]]
    mode_of: Callable[[Lane], QueueMode]
    now_ms: Callable[[], int]
    signal: AbortSignal
    _context: list[AgentMessage] = attrs.field(init=False)
    _state: RunState = attrs.field(init=False)
    _host: HostRun = attrs.field(init=False)
    _calls: ToolCalls = attrs.field(init=False)
    _has_kept: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._context = list(self.shown.messages)
        self._state = RunState(rules_of(self.options))

    async def live(self, begin: Begin) -> None:
        """The whole run. Returns when it failed or was aborted too; raises Cancelled if its caller is cancelled."""
        is_over = False
        self.shown.is_streaming, self.shown.error = True, None
        try:
            try:
                async with self.options.host.run([item.message for item in begin.prompts]) as self._host:
                    whole = attrs.evolve(begin, unanswered=unanswered(self._context), at_ms=self.now_ms())
                    await self._carry_out(self._step(whole))
                    await self._host.settle(list(self._state.new))
            except Exception as error:
                await self._break(text_of(error))
            is_over = True
        finally:
            try:
                if not is_over:
                    # Shielded: a tool call without its result would spoil every later request (R1). It ends by its
                    # deadline; no listener, hook or tool is called.
                    with trio.move_on_after(LAST_WORDS_S, shield=True):
                        await self._last_words()
            finally:
                self.custody.queues.release()  # R3
                self.shown._settle()

    def _step(self, heard: Input) -> list[Effect]:
        self._state, effects = step(self._state, heard)
        return effects

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            waiting.extend(await self._do(waiting.popleft()))

    async def _do(self, effect: Effect) -> Sequence[Effect]:
        match effect:
            case Tell():
                await self._tell(effect)
            case Keep():
                await self._append(effect.message, None)
            case Poll():
                items = self.custody.queues.take(effect.lane, self.mode_of(effect.lane))
                return self._step(Polled(items, self.now_ms()))
            case CallModel():
                answer = await ask_model(
                    self.options, self._host, self.signal, self._context, self._on_event, self.now_ms
                )
                self._begin_calls(answer)
                return self._step(Answered(answer))
            case Prepare():
                return self._step(await self._calls.prepare(effect.index))
            case Execute():
                found: Sequence[Effect] = await self._calls.execute(effect.indices, self._on_tool)
                return found
            case AskStop():
                hook = self.options.should_stop_after_turn
                stops = hook is not None and await settled(hook(effect.answer, effect.results))
                return self._step(StopAsked(stops))
            case Accept():
                await self._host.accept_answer(effect.answer)
        return ()

    async def _on_event(self, event: StreamEvent) -> None:
        for effect in self._step(Streamed(event)):
            await self._do(effect)

    async def _on_tool(self, heard: Updated | Executed, is_last: bool) -> Sequence[Effect]:
        """What follows the last tool is left to whoever waits for all: it may be the next turn."""
        effects = self._step(heard)
        if is_last:
            return effects
        await self._carry_out(effects)
        return ()

    def _begin_calls(self, answer: AssistantMessage) -> None:
        if blocks := tool_calls(answer):
            # Hooks see the conversation up to the answer, whatever the calls of the same answer have given by then.
            context = [*self._context, answer]
            self._calls = ToolCalls(self.options, self._host, self.signal, answer, blocks, context, self.now_ms)

    async def _tell(self, effect: Tell) -> None:
        event = effect.event
        if event["type"] == "message_end":
            await self._append(event["message"], effect.queue_id)
        else:
            self.shown._apply(event)
        for listener in [*self.listeners()]:
            heard: Any = listener(event, self.signal)
            if heard is not None:  # a plain function: nothing to wait for
                await settled(heard)

    async def _append(self, message: AgentMessage, queue_id: str | None) -> None:
        def arrived() -> None:
            self._context.append(message)
            self.shown._append(message)
            self._has_kept = True

        await self.custody.record(message, queue_id, arrived)  # R2

    # -- ends that nobody wanted -------------------------------------------------------------------------------------

    async def _break(self, text: str) -> None:
        """The run failed: say so in the transcript and tell that it is over. Errors are data, so nothing is raised."""
        reason = "aborted" if self.signal.is_set else "error"
        failure = self.options.message(reason, text, [{"type": "text", "text": ""}], self.now_ms())
        self.shown.error = text
        self.shown.stream_message = None
        await self._end(Broken(text, failure, unanswered(self._context), self.now_ms(), tells=True))

    async def _end(self, heard: Broken) -> None:
        for effect in self._step(heard):
            try:
                await self._do(effect)
            except Exception as error:
                # The disk that made the run fail may fail here too, and so may a listener. The transcript is whole.
                self.shown.error = text_of(error)
                if isinstance(effect, Keep) and self._context[-1:] != [effect.message]:
                    self._context.append(effect.message)
                    self.shown._append(effect.message)
                    self.custody.owe(effect.message)

    async def _last_words(self) -> None:
        """The run is being cancelled: the transcript ends as that of an aborted one (R1)."""
        open_calls = unanswered(self._context)
        last = self._context[-1] if self._context else None
        if not self._has_kept or (last is not None and role_of(last) == "assistant" and not open_calls):
            return
        partial = self.shown.stream_message
        failure: Any = self.options.message("aborted", ABORTED, [], self.now_ms())
        if self._state.is_open and partial is not None and role_of(partial) == "assistant":
            failure = {**json_of(partial), "stopReason": "aborted", "errorMessage": ABORTED}
        self.shown.error = ABORTED
        await self._end(Broken(ABORTED_TOOL, failure, open_calls, self.now_ms(), tells=False))
