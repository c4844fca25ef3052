"""Lines in and out over plain descriptors, without a thread that would hang at the end of the program.

A pipe, socket or terminal is waited for on the event loop and then read once; whatever cannot be waited for (a
regular file, ``/dev/null``) never blocks for long and is read in a worker thread. The descriptors' flags stay as they
are: ``O_NONBLOCK`` would be set for everybody who shares the terminal. So that a write never blocks the loop it is at
most ``PIPE_BUF`` bytes, which is what the kernel promises to take from a descriptor that it calls writable.
"""

from __future__ import annotations

import os
import select
from typing import final

import attrs
import trio

LINE_BYTES_MAX = 64 << 20
_CHUNK_BYTES = 1 << 16


class LineTooLongError(Exception):
    """A line of more than ``LINE_BYTES_MAX`` bytes was skipped; the next one can be read."""


@final
@attrs.define(eq=False)
class LineReader:
    """Lines of a descriptor, which it closes in the end."""

    _descriptor: int
    _line_bytes_max: int = LINE_BYTES_MAX
    _buffer: bytearray = attrs.field(factory=bytearray, init=False)
    _searched: int = attrs.field(default=0, init=False)
    _is_skipping: bool = attrs.field(default=False, init=False)
    _is_ended: bool = attrs.field(default=False, init=False)
    _can_wait: bool = attrs.field(default=True, init=False)

    async def next_line(self) -> bytes | None:
        """The next line without its LF; a last one may lack it. None at the end.

        Cancelled loses nothing: the next call goes on where this one was.

        Raises:
          LineTooLongError: once for a line that is too long.
        """
        await trio.lowlevel.checkpoint()
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0 or (self._is_ended and (self._buffer or self._is_skipping)):
                return self._cut(end)
            if self._is_ended:
                return None
            self._searched = len(self._buffer)
            if self._searched > self._line_bytes_max:
                self._is_skipping = True
            if self._is_skipping:
                self._buffer.clear()
                self._searched = 0
            chunk = await self._read()
            self._is_ended = not chunk
            self._buffer += chunk

    def _cut(self, end: int) -> bytes:
        line = bytes(self._buffer if end < 0 else self._buffer[:end])
        del self._buffer[: len(self._buffer) if end < 0 else end + 1]
        self._searched = 0
        is_skipped, self._is_skipping = self._is_skipping, False
        if is_skipped or len(line) > self._line_bytes_max:
            raise LineTooLongError
        return line

    async def _read(self) -> bytes:
        while self._can_wait:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
                return os.read(self._descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                continue  # somebody else made it non-blocking, and took what was there
            except PermissionError:
                self._can_wait = False
            except OSError:
                return b""  # a terminal that was hung up
        return await trio.to_thread.run_sync(os.read, self._descriptor, _CHUNK_BYTES, abandon_on_cancel=True)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


@final
@attrs.define(eq=False)
class ByteWriter:
    """Writes everything to a descriptor, which it closes in the end."""

    _descriptor: int
    _can_wait: bool = attrs.field(default=True, init=False)

    async def write(self, data: bytes) -> None:
        """Write all of ``data``. If it raises Cancelled, a part of it may be written.

        Raises:
          OSError: nobody reads any more, or the disk is full.
        """
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            if self._can_wait and not self._is_writable():
                try:
                    await trio.lowlevel.wait_writable(self._descriptor)
                except PermissionError:
                    self._can_wait = False
            if self._can_wait:
                try:
                    left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
                except BlockingIOError:
                    await trio.lowlevel.checkpoint()
            else:
                left = left[await trio.to_thread.run_sync(os.write, self._descriptor, left) :]

    def _is_writable(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


def take_standard_input() -> LineReader:
    """Standard input as lines, through a descriptor of its own. A closed one reads as empty."""
    try:
        return LineReader(os.dup(0))
    except OSError:
        return LineReader(os.open(os.devnull, os.O_RDONLY))


def take_standard_output() -> ByteWriter:
    """Standard output for our answers alone: whatever else is printed from now on goes to standard error. (H1)

    Raises:
      OSError: standard output is closed.
    """
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return ByteWriter(kept)
