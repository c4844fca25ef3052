"""Session files on a disk: read in blocks, appended to under a lock, made and replaced as a whole.

One append::

    lock the file -> read what others added -> set a torn tail aside -> one write -> (sync) -> unlock

  F1  A file is never in memory as a whole: lines come one at a time, from blocks of a mebibyte.
  F2  Whoever appends holds the kernel lock of the file and has read all of it, so nothing is ever glued to half a
      line, and what follows follows something that is there.
  F3  Half a line at the end is moved to ``<file>.torn`` before anything is written behind it. Without the lock it is
      only left alone: somebody may be writing it.
  F4  A file begins its life complete, under a second name, and is then linked or renamed; nobody sees half of one.
  F5  A line that could not be written or synced is cut off again. Where even that fails its fate is not known, and
      nothing is written until the file was opened anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final, final

import attrs

from ..algebra import StoreError
from ..disk_paths import named
from ..ports import FileStat
from ..rows import Durability
from .lines import Entry, parse_line
from .seams import Tell, TraceSeams

READ_BYTES: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
TORN_SUFFIX: Final = ".torn"

Line = tuple[int, bytes, bool]


def lines_of(seams: TraceSeams, path: str, start: int, end: int) -> Iterator[Line]:
    """Where each line starts, its bytes without the LF, and whether an LF ends it (F1). Only LF ends a line.

    The mark that some editors put in front of a file's text is no part of its first line (host 1.8.1).
    """
    held: list[bytes] = []
    at = position = start
    while position < end:
        block = seams.parts.read_part(path, position, min(READ_BYTES, end - position))
        if not block:
            break
        if position == 0 and block.startswith(_BOM):
            at, block = len(_BOM), block[len(_BOM) :]
            position = at
        position += len(block)
        first, *rest = block.split(b"\n")
        held.append(first)
        for following in rest:
            line = held[0] if len(held) == 1 else b"".join(held)
            yield at, line, True
            at += len(line) + 1
            held = [following]
    if tail := b"".join(held):
        yield at, tail, False


def write_whole(
    seams: TraceSeams, path: str, lines: Iterable[bytes], *, is_synced: bool, replaced: FileStat | None = None
) -> None:
    """Make a session file of these lines, at once or not at all (F4).

    Args:
      is_synced: whether it must survive a loss of power. Whatever takes the place of an older file must.
      replaced: the file whose place it takes; None if nothing may be there.

    Raises:
      StoreError: E_CHANGED if something has this name already; E_DISK.
    """
    folder = path.rpartition("/")[0] or "/"
    make_folders(seams, folder)
    staged = f"{path}.{seams.new_id()[:8]}.new"
    disk = seams.disk
    disk.write_new(staged, b"", mode=replaced.mode if replaced else 0o600)
    try:
        for block in _blocks(lines):
            disk.append(staged, block)
        if is_synced or replaced:
            disk.sync_file(staged)
        if replaced:
            disk.rename(staged, path)
        elif not disk.link(staged, path):
            text = f"{named(path)} exists already; open it, or choose another name"
            raise StoreError("E_CHANGED", text, path=path)
    finally:
        with contextlib.suppress(StoreError):
            disk.unlink(staged)
    if is_synced or replaced:
        try:
            disk.sync_folder(folder)
        except StoreError:
            if not replaced:  # it is not acknowledged: another try must find the name free
                with contextlib.suppress(StoreError):
                    disk.unlink(path)
            raise


def _blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held += (line, b"\n")
        size += len(line) + 1
        if size >= READ_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def make_folders(seams: TraceSeams, folder: str) -> None:
    """Create a folder with those above it (1.6.4)."""
    if seams.disk.stat(folder) is None and folder != "/":
        make_folders(seams, folder.rpartition("/")[0] or "/")
        seams.disk.make_folder(folder)
        seams.disk.sync_folder(folder.rpartition("/")[0] or "/")


@final
@attrs.define(eq=False)
class SessionFile:
    """One session's file, as far as it was read.

    Attributes:
      end: all bytes before it have been read.
    """

    path: str
    seams: TraceSeams
    durability: Durability
    tell: Tell
    end: int = 0
    _identity: tuple[int, int] | None = None
    _lacks_newline: bool = False
    _is_unknown: bool = False

    @property
    def is_written(self) -> bool:
        """Whether the file is there; a new session has none at first (1.7.1)."""
        return self._identity is not None

    def look(self) -> FileStat | None:
        """What lies at the path now, to be known again. Refuses all but a regular file; None if nothing is there."""
        found = self.seams.disk.stat(self.path)
        if found is not None and found.kind != "file":
            self.seams.parts.read_part(self.path, 0, 0)  # it has the words for what is there instead
        self._identity = None if found is None else (found.device, found.inode)
        return found

    def read_on(self) -> Iterator[tuple[int, int, Entry]]:
        """Start, size and object of each line that was added since. Half a line at the end is left (F3)."""
        size = self._size()
        for start, line, is_ended in lines_of(self.seams, self.path, self.end, size):
            found = parse_line(line)
            if found is None and not is_ended:
                return
            self.end, self._lacks_newline = start + len(line) + is_ended, not is_ended
            if found is not None:
                yield start, len(line), found
        self._size()  # what was read may be the lines of two files, if it was replaced meanwhile

    def _size(self) -> int:
        found = self.seams.disk.stat(self.path)
        if found is None or (found.device, found.inode) != self._identity or found.size_bytes < self.end:
            what = "is gone" if found is None else "was replaced or cut short by another program"
            text = f"the session file {named(self.path)} {what}; nothing was written, open the session again"
            raise StoreError("E_CHANGED", text, path=self.path)
        return found.size_bytes

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the kernel lock on the file (F2). Blocks while another process appends.

        Raises:
          StoreError: E_CHANGED if it is not the file that was opened; E_LOCK; E_ABORTED if whoever gave the locks has
            abandoned the wait; E_BROKEN (F5).
        """
        if self._is_unknown:
            text = f"it is not known what the last write has left in {named(self.path)}; open the session again"
            raise StoreError("E_BROKEN", text, path=self.path)
        self._size()  # before the lock, which would create a file that is gone
        lock = self.seams.locks.open(self.path)
        try:
            if not lock.try_acquire() and not lock.acquire_blocking(self.seams.locks.attempt()):
                text = f"the wait for {named(self.path)} was abandoned; nothing was written"
                raise StoreError("E_ABORTED", text, path=self.path)
            self._size()  # while we waited another file may have taken its place: that lock protects nothing
            yield
        finally:
            lock.close()

    def append(self, line: bytes) -> int:
        """Add a line and return where it starts. Call it locked, after ``read_on``.

        Raises:
          StoreError: E_DISK; nothing was added then, or, if the text says so, that is not known (F5).
        """
        self._set_torn_aside()
        start, lead = self.end, b"\n" if self._lacks_newline else b""  # (1.7.7)
        disk = self.seams.disk
        try:
            disk.append(self.path, lead + line + b"\n")
            if self.durability == "power":
                disk.sync_file(self.path)
        except StoreError:
            self._take_back(start)
            raise
        self.end, self._lacks_newline = start + len(lead) + len(line) + 1, False
        return start + len(lead)

    def _set_torn_aside(self) -> None:
        size = self._size()
        if size == self.end:
            return
        aside = self.path + TORN_SUFFIX
        tail = self.seams.parts.read_part(self.path, self.end, size - self.end) or b""
        self.seams.disk.append(aside, tail + b"\n")
        self.seams.disk.sync_file(aside)
        self.seams.parts.cut(self.path, self.end)
        self.seams.disk.sync_file(self.path)
        self.tell("torn_tail", {"path": self.path, "bytes": len(tail), "aside": aside})

    def _take_back(self, size: int) -> None:
        """A refused write may have left a part, and a line whose sync failed may be gone after a power cut, together
        with the line break that a later entry needs: neither may stay where others go on behind it.
        """
        try:
            self.seams.parts.cut(self.path, size)
        except StoreError:
            self._is_unknown = True
