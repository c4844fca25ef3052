"""What a chat shows: answers on standard output, everything beside them on standard error.

Writing waits on the event loop: a terminal that was stopped holds up the answer, but neither Ctrl-C nor a steering
line. What a model, a file or a stored text says reaches a terminal without control characters: they could move the
cursor, set the title, or answer in the user's place.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TextIO, final

import attrs

from .line_streams import ByteWriter
from .terminal import styled

PROMPT = "> "
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@final
@attrs.define(eq=False)
class Screen:
    """Both streams of a chat.

    Attributes:
      has_prompt: whether a person looks at standard output, and is shown when to type.
      when_lost: called once, when nobody reads what is written any more.
      is_lost: whether that has happened; then nothing is written.
    """

    _out: ByteWriter
    _err: ByteWriter
    has_prompt: bool = True
    when_lost: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    is_lost: bool = attrs.field(default=False, init=False)
    _is_in_line: bool = attrs.field(default=False, init=False)

    async def stream(self, text: str, style: str | None = None) -> None:
        """A part of a line, or of several."""
        if text:
            self._is_in_line = not text.endswith("\n")
            await self._write(self._out, _fit(text, style, sys.stdout))

    async def end_line(self) -> None:
        """What comes next begins a line."""
        if self._is_in_line:
            await self.stream("\n")

    async def show(self, text: str) -> None:
        """A result: whole lines on standard output."""
        await self.end_line()
        await self._write(self._out, _fit(text, None, sys.stdout) + "\n")

    async def say(self, text: str, style: str | None = None) -> None:
        """Something beside the answers: whole lines on standard error."""
        await self.end_line()
        await self._write(self._err, _fit(text, style, sys.stderr) + "\n")

    async def ask(self) -> None:
        """The prompt of a person who may type now."""
        if not self.has_prompt:
            return
        await self.end_line()
        await self._write(self._out, "\n")
        await self.stream(PROMPT)

    def note_typed(self) -> None:
        """A line was typed, and the terminal has shown it with its end."""
        self._is_in_line = False

    async def _write(self, writer: ByteWriter, text: str) -> None:
        if self.is_lost:
            return
        try:
            await writer.write(text.encode("utf-8", "replace"))
        except OSError:
            self.is_lost = True
            self.when_lost()

    def close(self) -> None:
        """Give the descriptors back."""
        self._out.close()
        self._err.close()


def _fit(text: str, style: str | None, stream: TextIO) -> str:
    if stream.isatty():
        text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    return styled(text, style, stream) if style else text


def open_screen() -> Screen:
    """The screen of this process."""
    return Screen(_writer(1), _writer(2), sys.stdout.isatty())


def _writer(descriptor: int) -> ByteWriter:
    try:
        return ByteWriter(os.dup(descriptor))
    except OSError:
        return ByteWriter(os.open(os.devnull, os.O_WRONLY))
