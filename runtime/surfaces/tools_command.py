"""``strataflow tools``: the tool host as a process.

Its life::

    OPENING --store is open--> SERVING --input ends--> DRAINING --all answered--> CLOSING --> exit 0
       |                          |                       |
       +------- SIGTERM, SIGINT --+-----------------------+--> STOPPING --> CLOSING --> exit 143, 130
       +--store cannot be used--> what was read is refused --> exit 3

Stopping takes at most ``STOP_S`` seconds, whatever hangs: a thread of ours that waits for the disk cannot be ended,
so that the process itself is, by a timer that needs no event loop.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import AsyncIterator
from typing import final

import attrs
import trio

from .. import CLOSE_DEADLINE_S, CallError, Durability, Mode, Runtime, StrataflowError, normalise_cwd, open_runtime
from .exits import ExitCode, say_error
from .line_streams import take_standard_input, take_standard_output
from .options import place_options, session_options, working_folder, writing_options
from .running import STOP_S, end_at_last, selected_mode
from .tool_host import ToolHost

# What happens after a signal: finishing what is accepted, closing the store, writing the last answers.
_FINISH_S = 1.8
_CLOSE_S = 2.0
_DELIVER_S = 0.5
# A client may have written its first requests before it learns that the store cannot be used.
_LATE_REQUESTS_S = 0.2

assert _FINISH_S + _CLOSE_S + _DELIVER_S < STOP_S


@attrs.frozen
class ToolOptions:
    """The command line."""

    agent_dir: str | None
    store: str | None
    cwd: str
    session_id: str
    mode: Mode | None
    history_limit: int | None
    durability: Durability
    share_with_pi: bool


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "tools",
        help="serve the memory over standard input and output, one JSON request a line",
        description="Answer one JSON request a line: patch_state, read_state, accept_response, status, set_mode, "
        "outcome, cancel. Ends with its input, or by SIGTERM or SIGINT within five seconds.",
    )
    place_options(parser)
    session_options(parser)
    writing_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the input ends or a signal comes."""
    options = ToolOptions(
        agent_dir=arguments.agent_dir,
        store=arguments.store,
        cwd=normalise_cwd(working_folder(arguments.cwd)),
        session_id=arguments.session,
        mode=arguments.mode,
        history_limit=arguments.history_limit,
        durability=arguments.durability,
        share_with_pi=arguments.share_with_pi,
    )
    return trio.run(serve, options)


async def serve(options: ToolOptions) -> int:
    """The process's whole work. Returns its exit code."""
    writer = take_standard_output()
    reader = take_standard_input()
    try:
        return await _Service(options, ToolHost(reader, writer, options.cwd, options.session_id)).run()
    finally:
        reader.close()
        writer.close()


@final
@attrs.define(eq=False)
class _Service:
    """The host, the store below it and the signals around it."""

    options: ToolOptions
    host: ToolHost
    code: int = 0
    _is_open: bool = False
    # Cancelled only before the store is open; then nothing was changed.
    _opening: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    # Gets a deadline when a signal comes.
    _work: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def run(self) -> int:
        """The life in the drawing."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, signals)
                nursery.start_soon(self.host.write)
                nursery.start_soon(self.host.read, nursery)
                nursery.start_soon(self._expire)
                try:
                    with self._opening:
                        await self._open_and_serve()
                except StrataflowError as error:
                    await self._refuse(error)
                await self._deliver()
                nursery.cancel_scope.cancel()
        if self.host.delivery_error is not None and not self.code:
            print(f"strataflow tools: answers could not be written: {self.host.delivery_error}", file=sys.stderr)
            self.code = ExitCode.REFUSED
        return self.code

    async def _open_and_serve(self) -> None:
        options = self.options
        async with open_runtime(
            options.agent_dir,
            store=options.store,
            durability=options.durability,
            history_limit=options.history_limit,
            share_with_pi=options.share_with_pi,
        ) as runtime:
            self._is_open = True
            try:
                self.host.serve(runtime, selected_mode(options.mode, runtime))
                with self._work:
                    await self.host.has_drained.wait()
            finally:
                # Shielded, because a signal may come while the store opens, and others wait for it to be left
                # properly. It ends at its deadline.
                with trio.CancelScope(shield=True):
                    await self._close(runtime)

    async def _close(self, runtime: Runtime) -> None:
        report = await runtime.aclose(deadline=_CLOSE_S if self.code else CLOSE_DEADLINE_S)
        for text in report.left_behind:
            print(f"strataflow tools: {text}", file=sys.stderr)

    async def _watch(self, signals: AsyncIterator[int]) -> None:
        """The first signal ends the process; more of them change nothing."""
        async for number in signals:
            if not self.code:
                self.code = 128 + number
                end_at_last(self.code)
                self.host.stop_reading()
                self.host.withdraw_all(CallError("E_ABORTED", "the tool host is being stopped; nothing was stored"))
                self._work.deadline = trio.current_time() + _FINISH_S
                self._give_up_opening()

    async def _expire(self) -> None:
        await self.host.expire()
        self._give_up_opening()

    def _give_up_opening(self) -> None:
        if not self._is_open:
            self._opening.cancel()

    async def _refuse(self, error: StrataflowError) -> None:
        """The store cannot be used, or not any more: tell everybody who has asked."""
        say_error("strataflow tools", error)
        self.code = self.code or ExitCode.UNUSABLE
        self.host.refuse(error)
        # Requests that came together with the start are answered too; a client that goes on asking is not waited for.
        with trio.move_on_after(_LATE_REQUESTS_S):
            await self.host.has_ended.wait()

    async def _deliver(self) -> None:
        """Write the last answers, unless nobody reads them."""
        self.host.stop_reading()
        with trio.move_on_after(_DELIVER_S):
            await self.host.has_drained.wait()
