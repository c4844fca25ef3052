"""A server under uvicorn as a real process, and a small client of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from kit.agent_server import STORE_VARIABLE
from kit.source_tree import ROOT

ANSWER_S = 30.0
_RUNNING = re.compile(r"running on http://(\S+):(\d+)")


class NoAnswer(Exception):
    """The server did not take the request, or left without an answer."""


@attrs.define(eq=False)
class ServerProcess:
    """A running server. ``said``: what it told its operator."""

    process: trio.Process
    said: str = ""
    _address: tuple[str, int] = ("", 0)

    async def listen(self) -> None:
        """Read what it says until it can be reached."""
        while (found := _RUNNING.search(self.said)) is None:
            assert await self._hear(), f"it ended early:\n{self.said}"
        self._address = found[1], int(found[2])

    async def ask(self, path: str, given: Any = None) -> tuple[int, Any]:
        """One request on a connection of its own, a POST if something is given: status and JSON of the answer. If it
        is cancelled the connection is closed.

        Raises:
          NoAnswer: nobody answered.
        """
        body = b"" if given is None else json.dumps(given).encode()
        lines = [f"{'GET' if given is None else 'POST'} {path.replace(' ', '%20')} HTTP/1.1", "Host: agent"]
        lines += ["Connection: close", f"Content-Length: {len(body)}", "", ""]
        answer = b""
        with trio.fail_after(ANSWER_S):
            try:
                async with await trio.open_tcp_stream(*self._address) as stream:
                    await stream.send_all("\r\n".join(lines).encode() + body)
                    async for data in stream:
                        answer += data
            except (OSError, trio.BrokenResourceError):
                raise NoAnswer from None
        head, _, text = answer.partition(b"\r\n\r\n")
        if not head:
            raise NoAnswer
        return int(head.split()[1]), json.loads(text)

    async def _hear(self) -> bool:
        assert self.process.stderr is not None
        with trio.fail_after(ANSWER_S):
            data = await self.process.stderr.receive_some()
        self.said += data.decode()
        return bool(data)

    async def end(self) -> int:
        """Ask it to end as an operator would, and wait: its exit code."""
        self.process.send_signal(signal.SIGTERM)
        while await self._hear():
            pass
        with trio.fail_after(ANSWER_S):
            return await self.process.wait()


@asynccontextmanager
async def server_process(root: Path) -> AsyncIterator[ServerProcess]:
    """A server over the store ``root`` for the body, killed afterwards if it still runs. Warnings are errors in it."""
    command = [sys.executable, "-W", "error", "-m", "uvicorn", "kit.agent_server:app"]
    command += ["--port", "0", "--no-access-log", "--no-use-colors"]
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
    environment = {**os.environ, "PYTHONPATH": paths, STORE_VARIABLE: str(root)}
    process = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE, env=environment)
    server = ServerProcess(process)
    try:
        await server.listen()
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        # Shielded so that no process outlives its test; it was killed, or has ended.
        with trio.CancelScope(shield=True):
            await process.wait()
