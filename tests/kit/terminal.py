"""A program in a real terminal: tmux on a socket of its own, whose screen a test reads and whose keys it presses.

Nothing is polled: a second client in control mode is told of each piece of output, and then the screen is looked at.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
import trio

PATIENCE_S = 30.0
# The shell tells how the program ended, and then keeps the screen. Ctrl-C is for the program alone.
_SHELL = 'trap : INT HUP; "$@"; echo "[exit $?]"; exec cat'
_numbers = itertools.count()


@attrs.define(eq=False)
class Terminal:
    """A running program and its screen."""

    _name: str
    _environment: Mapping[str, str]
    _told: trio.abc.ReceiveStream

    async def screen(self) -> str:
        """All that is and was to be seen, without the blanks at line ends."""
        text = await self._tmux("capture-pane", "-p", "-J", "-S", "-")
        return "\n".join(line.rstrip() for line in text.splitlines())

    async def wait_for(self, text: str, *, count: int = 1) -> str:
        """Wait until ``text`` is on the screen so many times: the screen. Fails after a long while, showing it."""
        return await self._wait_until(lambda screen: screen.count(text) >= count, f"{text!r}, {count} times")

    async def wait_for_prompt(self, prompt: str) -> str:
        """Wait until the last line is ``prompt`` and nothing more: the screen."""
        return await self._wait_until(lambda screen: screen.rstrip().endswith(f"\n{prompt}"), "a prompt")

    async def _wait_until(self, is_so: Callable[[str], bool], what: str) -> str:
        screen = ""
        with trio.move_on_after(PATIENCE_S):
            while not is_so(screen := await self.screen()):
                assert await self._told.receive_some(), "the terminal is gone"
            return screen
        raise AssertionError(f"not seen: {what}\n{screen.rstrip()}")

    async def type(self, line: str) -> None:
        """Type a line."""
        await self._tmux("send-keys", "-l", line)
        await self.press("Enter")

    async def press(self, key: str) -> None:
        """Press a key, such as ``C-c``."""
        await self._tmux("send-keys", key)

    async def process_id(self, program: str) -> int:
        """The process whose command line has ``program`` in it, below this terminal."""
        shell = (await self._tmux("display-message", "-p", "#{pane_pid}")).strip()
        listed = await trio.run_process(["ps", "-o", "pid=,args=", "--ppid", shell], capture_stdout=True)
        found = [line.split()[0] for line in listed.stdout.decode().splitlines() if program in line]
        assert len(found) == 1, listed.stdout
        return int(found[0])

    async def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._name, *arguments]
        done = await trio.run_process(command, capture_stdout=True, env=self._environment)
        return done.stdout.decode()


@asynccontextmanager
async def terminal(command: Sequence[str], folder: Path) -> AsyncIterator[Terminal]:
    """``command`` in a terminal of 110 columns for the body; all of it is ended afterwards by its own socket."""
    if shutil.which("tmux") is None:
        pytest.skip("tests in a real terminal need tmux on PATH")
    name = f"strataflow-{os.getpid()}-{next(_numbers)}"
    settings = folder / "tmux.conf"
    settings.write_text("set -g status off\nset -g history-limit 5000\nset -g default-terminal screen\n")
    line = shlex.join(["sh", "-c", _SHELL, "sh", *command])
    begin = ["-u", "-f", str(settings), "new-session", "-d", "-x", "110", "-y", "40", line]
    # tmux leaves its socket behind; and a path that is too long for one is no place for it.
    with TemporaryDirectory(prefix="tmux-") as place:
        environment = {**os.environ, "TMUX_TMPDIR": place}
        try:
            await trio.run_process(["tmux", "-L", name, *begin], env=environment)
            async with _watching(["tmux", "-L", name, "-C", "attach"], environment) as told:
                yield Terminal(name, environment, told)
        finally:
            # Shielded so that no terminal outlives its test. It ends: the server is told to end all it has.
            with trio.CancelScope(shield=True):
                end = ["tmux", "-L", name, "kill-server"]
                await trio.run_process(end, check=False, capture_stderr=True, env=environment)


@asynccontextmanager
async def _watching(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[trio.abc.ReceiveStream]:
    """What a client in control mode is told, for the body."""
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        # Shielded so that no process outlives its test; it was killed.
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdin.aclose()
            await process.stdout.aclose()
