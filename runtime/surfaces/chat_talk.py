"""A chat: lines in, at most one piece of work at a time, signals.

::

    idle --a line, /compact, /tree ID--> busy --its end--> idle
      |                                   |  lines follow or steer; Ctrl-C stops it
      +-- /quit, end of input, Ctrl-C twice, SIGHUP --> closing: the work is stopped and waited for

Without a terminal each line is carried out to its end before the next one is read, and Ctrl-C ends the program.

Invariants:
  C1  Whoever works says so before anything else runs, so that two lines never begin two pieces of work.
  C2  The chat has ended when its work has: nothing of it is told, stored or asked afterwards.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, final

import attrs
import trio

from .. import Session, StrataflowError
from ..agent import Agent
from ..resources import Resources
from .chat_commands import carry_out
from .chat_events import Telling
from .chat_screen import Screen
from .error_text import error_text
from .exits import ExitCode, UsageError
from .line_streams import LineReader, LineTooLongError

# Arrows and the like, which a plain terminal puts into the line.
_KEYS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)|[\x00-\x08\x0b-\x1f\x7f]")
_INTERRUPTED = 128 + signal.SIGINT


def is_terminal_input() -> bool:
    """Whether a person types the lines."""
    try:
        return os.isatty(0)
    except OSError:
        return False


@final
@attrs.define(eq=False)
class Chat:
    """One chat; ``run`` is its life. ``is_typed``: a person at a terminal types its lines."""

    agent: Agent
    session: Session
    screen: Screen
    reader: LineReader
    telling: Telling
    resources: Resources
    is_typed: bool
    _code: int = attrs.field(default=ExitCode.OK, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _reading: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _idle: trio.Event = attrs.field(factory=trio.Event, init=False)
    _is_ending: bool = attrs.field(default=False, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)
    _was_hinted: bool = attrs.field(default=False, init=False)

    async def run(self) -> int:
        """Talk until it ends; the exit code. Cancelled: the work is cancelled with it."""
        self._idle.set()
        self.screen.when_lost = partial(self.end, ExitCode.REFUSED)
        async with trio.open_nursery() as self._nursery:
            if self.is_typed:
                await self._nursery.start(self._heed_signals)
            if self.agent.has_queued_messages:
                await self.screen.say("messages wait from last time; they come with your next line", "dim")
            with self._reading:
                await self._read()
            self._is_ending = True
            # What was typed is answered if nobody is there to see that it is not.
            if self.is_typed or self.screen.is_lost:
                await self.agent.aclose()
            await self._idle.wait()  # C2
            self._nursery.cancel_scope.cancel()
        return self._code

    async def _read(self) -> None:
        while True:
            await self._ask()
            try:
                line = await self.reader.next_line()
            except LineTooLongError:
                await self.refuse("the line is too long and was left out")
                continue
            if line is None:
                await self.screen.end_line()
                return
            text = line.decode("utf-8", "replace")
            if self.is_typed:
                self.screen.note_typed()
                text = _KEYS.sub("", text)
            self._was_hinted = False
            await self._take(text)
            if not self.is_typed:
                await self._idle.wait()

    async def _take(self, line: str) -> None:
        try:
            if line.strip() and not await carry_out(self, line):
                await self.say_to_agent(line.strip())
        except (StrataflowError, UsageError) as error:
            await self.refuse(error_text(error))

    # -- what commands use --------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return not self._idle.is_set()

    async def say_to_agent(self, text: str) -> None:
        """A line for the agent: a prompt, or what follows the answer that is under way."""
        if self.is_busy:
            await self.agent.follow_up(text)
            await self.screen.say("(comes after this answer; /steer TEXT comes sooner)", "dim")
        else:
            self.start(partial(self._converse, text))

    def start(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Let work go on while lines are read."""
        assert not self.is_busy
        self._idle = trio.Event()  # C1
        self._is_stopped = False
        self._nursery.start_soon(self._do, work)

    async def refuse(self, text: str) -> None:
        """Tell that something could not be done. Without a person who sees it, the exit code says it too."""
        if not self.is_typed:
            self._code = self._code or ExitCode.REFUSED
        await self.screen.say(text, "red")

    def end(self, code: int = ExitCode.OK) -> None:
        """End the chat: no more lines."""
        self._code = self._code or code
        self._is_ending = True
        self._reading.cancel()

    # -- work ---------------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
        except StrataflowError as error:
            await self.refuse(error_text(error))
        finally:
            self._idle.set()
        await self._ask()

    async def _converse(self, text: str) -> None:
        agent = self.agent
        self.telling.expects_typed = True
        await agent.prompt(text)
        # What was queued in the moment in which the run ended is not left lying.
        while agent.has_queued_messages and agent.state.error is None and not self._is_stopped:
            await agent.continue_()
        if agent.state.error is not None:
            await self.refuse(agent.state.error)
        if agent.has_queued_messages:
            await self.screen.say("what you have queued waits for your next line", "dim")

    async def _ask(self) -> None:
        if self.is_typed and not self.is_busy and not self._is_ending:
            await self.screen.ask()

    # -- signals ------------------------------------------------------------------------------------------------------

    async def _heed_signals(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGHUP) as signals:
            task_status.started()
            await self._heed(signals)

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self.end(128 + number)
            elif self.is_busy:
                self._is_stopped = True
                self.agent.abort()
            elif self._was_hinted:
                self.end(_INTERRUPTED)
            else:
                self._was_hinted = True
                await self.screen.say("(Ctrl-C once more, Ctrl-D or /quit ends the chat)", "dim")
                await self._ask()
