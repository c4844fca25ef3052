"""Running other programs so that nothing of them stays: the real form of ``Processes``.

    STARTED --ended by itself-------------------------------> pipes read for a moment more --> nobody left --> ENDED
       +-----limit, cancelled, ended with others left-------> TERM -> 2 s -> KILL -> sweep --> nobody left --> ENDED

A command runs in a session of its own, so that no terminal can be asked. What it started is found as its group, as its
descendants, and by a mark in the environment, which also finds who has left both. A guarded command is run by
``guard.py``, below which everything stays whatever it does, also when this process is killed; ending it means to let go
of a pipe.

What lost: ``trio.run_process``, which stops looking when the program itself is dead; a death signal from the kernel,
which belongs to the thread that started the program and not to this process.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from typing import final

import attrs
import trio

from ..actors import ENDING_S, TERM_GRACE_S, Command, Ended
from . import guard

MARK = "STRATAFLOW_JOB"
# A grandchild may hold a pipe open for ever; what the program itself has written is there by then.
_LAST_WORDS_S = 0.25
# How much of an answer is taken in: the listing of some two million files.
OUTPUT_BYTES_MAX = 256 << 20
_GUARD_SAYS_S = TERM_GRACE_S + 2.0


@final
@attrs.frozen
class SystemProcesses:
    """See ``Processes``."""

    @property
    def environment(self) -> Mapping[str, str]:
        """See ``Processes.environment``."""
        return os.environ

    async def run(self, command: Command) -> Ended:
        """See ``Processes.run``."""
        job = _Job(command, f"{MARK}={uuid.uuid4().hex}")
        await job.start()
        is_late = True
        try:
            with trio.move_on_after(command.limit_s):
                await job.talk()
                is_late = False
        finally:
            # Without the shield a cancelled caller would leave programs behind. It ends: TERM, two seconds, KILL.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + ENDING_S):
                await job.end(is_done=not is_late)
            job.close()
        code = job.process.returncode
        left, is_cut = tuple(job.left), len(job.stdout) >= OUTPUT_BYTES_MAX
        return Ended(-9 if code is None else code, bytes(job.stdout), bytes(job.stderr), is_late, left, is_cut)


@final
@attrs.define(eq=False)
class _Job:
    """One command under way."""

    command: Command
    mark: str
    stdout: bytearray = attrs.field(factory=bytearray)
    stderr: bytearray = attrs.field(factory=bytearray)
    left: set[int] = attrs.field(factory=set)
    _process: trio.Process | None = None
    # Our end of the pipe to the guard.
    _leash: int | None = None

    @property
    def process(self) -> trio.Process:
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Raises OSError."""
        arguments, passed = self.command.arguments, tuple[int, ...]()
        ends: tuple[int, int] | None = None
        if self.command.is_guarded:
            ends = os.pipe()
            arguments, passed = _guarded(arguments, ends[0]), (ends[0],)
        name, _, value = self.mark.partition("=")
        try:
            self._process = await trio.lowlevel.open_process(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.command.folder,
                env={**self.command.environment, name: value},
                start_new_session=True,
                pass_fds=passed,
            )
        except BaseException:
            if ends is not None:
                os.close(ends[1])
            raise
        finally:
            if ends is not None:
                os.close(ends[0])
        self._leash = None if ends is None else ends[1]

    async def talk(self) -> None:
        """Give it its input, take its output, until it has ended."""
        process = self.process
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._feed)
            nursery.start_soon(self._pump, process.stdout, self.stdout)
            nursery.start_soon(self._pump, process.stderr, self.stderr)
            await process.wait()
            nursery.cancel_scope.deadline = trio.current_time() + _LAST_WORDS_S

    async def _feed(self) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        # A program that does not want its input closes it, or has ended.
        with contextlib.suppress(trio.BrokenResourceError):
            async with stdin:
                await stdin.send_all(self.command.stdin)

    async def _pump(self, stream: trio.abc.ReceiveStream | None, buffer: bytearray) -> None:
        assert stream is not None
        async for data in stream:
            if len(buffer) < OUTPUT_BYTES_MAX:
                buffer += data

    async def end(self, *, is_done: bool) -> None:
        """Leave nothing of it. ``is_done``: the program has ended by itself."""
        is_guarded, leader = self.command.is_guarded, self.process.pid
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
            with trio.move_on_after(_GUARD_SAYS_S):
                await self.process.wait()
        code = self.process.returncode
        # A guard that has ended by itself has seen to everything; one that was killed could not, and what it guarded
        # is in another group.
        is_over = code is not None and code >= 0 if is_guarded else is_done and not _has_members(leader)
        if not is_over:
            # It was given time before, where a guard was told to end it.
            end = functools.partial(_end_all, leader, self.mark, is_urgent=is_guarded and not is_done)
            self.left = await trio.to_thread.run_sync(end, abandon_on_cancel=True)
        with trio.move_on_after(_LAST_WORDS_S):
            await self.process.wait()

    def close(self) -> None:
        """Give back the ends of its pipes."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if isinstance(stream, trio.lowlevel.FdStream):
                stream.close()


def _guarded(arguments: tuple[str, ...], leash: int) -> tuple[str, ...]:
    python = sys.executable
    if not python:
        raise OSError("this Python does not know its own program, which guards others")
    return (python, "-I", "-S", guard.__file__, str(leash), str(TERM_GRACE_S), *arguments)


def _has_members(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end_all(leader: int, mark: str, is_urgent: bool) -> set[int]:
    known: set[int] = set()

    def look() -> set[int]:
        # Descendants are remembered: whoever's parent dies first is nobody's descendant any more.
        found = guard.group_of(leader) | guard.marked_with(mark)
        for pid in (leader, *found):
            known.update(guard.family_of(pid))
        return found | {pid for pid in known if guard.is_alive(pid)}

    return guard.end(look, TERM_GRACE_S, is_urgent=is_urgent)
