"""Lines over real descriptors: pipes, files, devices, and what is too long."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from strataflow.runtime.surfaces.line_streams import ByteWriter, LineReader, LineTooLongError


async def all_lines(reader: LineReader) -> list[bytes | str]:
    lines: list[bytes | str] = []
    while True:
        try:
            line = await reader.next_line()
        except LineTooLongError:
            lines.append("too long")
            continue
        if line is None:
            return lines
        lines.append(line)


async def test_lines_arrive_however_a_pipe_cuts_them() -> None:
    readable, writable = os.pipe()
    reader = LineReader(readable)
    async with trio.open_nursery() as nursery:
        lines: list[bytes | str] = []

        async def collect() -> None:
            lines.extend(await all_lines(reader))

        nursery.start_soon(collect)
        for part in (b"on", b"e\ntwo\n\nth", b"ree\r\nlast without an end"):
            os.write(writable, part)
            await wait_all_tasks_blocked()
        os.close(writable)
    assert lines == [b"one", b"two", b"", b"three\r", b"last without an end"]
    reader.close()


async def test_regular_files_and_devices_are_read_too(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x" * 200_000 + b"\nsecond\n")
    reader = LineReader(os.open(file, os.O_RDONLY))
    assert await all_lines(reader) == [b"x" * 200_000, b"second"]
    reader.close()
    nothing = LineReader(os.open(os.devnull, os.O_RDONLY))
    assert await all_lines(nothing) == []
    nothing.close()


@pytest.mark.parametrize("ends", [b"\nafter\n", b""])
async def test_a_line_that_is_too_long_is_skipped_and_told_once(tmp_path: Path, ends: bytes) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"short\n" + b"x" * 300_000 + ends)
    reader = LineReader(os.open(file, os.O_RDONLY), 1_000)
    assert await all_lines(reader) == [b"short", "too long", *ends.split()]
    reader.close()


async def test_a_cancelled_read_loses_nothing_and_leaves_no_thread() -> None:
    readable, writable = os.pipe()
    reader = LineReader(readable)
    os.write(writable, b"half ")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.next_line)
            await wait_all_tasks_blocked()
            scope.cancel()
    os.write(writable, b"and half\n")
    assert await reader.next_line() == b"half and half"
    os.close(writable)
    reader.close()


async def test_a_slow_reader_does_not_stop_the_event_loop() -> None:
    readable, writable = os.pipe()
    writer = ByteWriter(writable)
    data = os.urandom(1 << 20)
    received = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.write, data)
        await wait_all_tasks_blocked()  # the pipe is full, and the loop still turns
        while len(received) < len(data):
            await trio.lowlevel.wait_readable(readable)
            received += os.read(readable, select.PIPE_BUF)
    assert received == data
    writer.close()
    os.close(readable)


async def test_a_writer_takes_regular_files_and_says_when_nobody_reads(tmp_path: Path) -> None:
    file = tmp_path / "out"
    writer = ByteWriter(os.open(file, os.O_WRONLY | os.O_CREAT))
    await writer.write(b"x" * 100_000)
    writer.close()
    assert file.read_bytes() == b"x" * 100_000
    readable, writable = os.pipe()
    os.close(readable)
    broken = ByteWriter(writable)
    with pytest.raises(BrokenPipeError):
        await broken.write(b"x")
    broken.close()
