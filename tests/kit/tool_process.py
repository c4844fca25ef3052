"""``strataflow tools`` as a real process, spoken to by a test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from strataflow.store import TURN_LOCK, FlockLocks, Layout

ANSWER_S = 30.0


@attrs.define(eq=False)
class ToolProcess:
    """A running tool host."""

    process: trio.Process
    _buffer: bytes = b""

    async def send(self, call: str, arguments: Any = None, **members: Any) -> None:
        """One request; ``arguments`` default to ``{}``."""
        request = {"id": None, "call": call, "arguments": {} if arguments is None else arguments, **members}
        await self.send_line(json.dumps(request).encode())

    async def send_line(self, line: bytes) -> None:
        """One line as it is."""
        assert self.process.stdin is not None
        await self.process.stdin.send_all(line + b"\n")

    async def answer(self) -> Any:
        """The next answer. Fails after a long while, or at the end of the output."""
        with trio.fail_after(ANSWER_S):
            while b"\n" not in self._buffer:
                assert self.process.stdout is not None
                data = await self.process.stdout.receive_some()
                assert data, "the output ended"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def ask(self, call: str, arguments: Any = None, **members: Any) -> Any:
        """Send a request and return the next answer."""
        await self.send(call, arguments, **members)
        return await self.answer()

    async def end_input(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def finish(self) -> tuple[int, list[Any]]:
        """Wait for its end: the exit code and the answers that were left."""
        assert self.process.stdout is not None
        with trio.fail_after(ANSWER_S):
            async for data in self.process.stdout:
                self._buffer += data
            code = await self.process.wait()
        return code, [json.loads(line) for line in self._buffer.splitlines()]


@asynccontextmanager
async def tool_process(agent_dir: Path, *options: str) -> AsyncIterator[ToolProcess]:
    """A tool host for the body, which is killed afterwards if it still runs. Warnings are errors in it, too."""
    command = [sys.executable, "-W", "error", "-m", "strataflow", "tools", "--agent-dir", str(agent_dir)]
    command += ["--cwd", "/project", "--durability", "process", *options]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield ToolProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        # Shielded so that no process outlives its test; it was killed, or has ended.
        with trio.CancelScope(shield=True):
            await process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            await stream.aclose()


@contextmanager
def held_turn(agent_dir: Path) -> Iterator[None]:
    """Another process has the turn to write, for the body."""
    lock = FlockLocks().open(Layout(str(agent_dir / "state-flow")).private(TURN_LOCK))
    assert lock.try_acquire()
    try:
        yield
    finally:
        lock.close()
