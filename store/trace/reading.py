"""Session files as lines and objects, without a tree: for opening, copying and looking (host 1.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ..algebra import StoreError
from ..disk_paths import named
from ..ports import FileStat
from .entries import is_header
from .files import lines_of
from .lines import BLANK, Entry, line_of, parse_line
from .migration import migrated, needs_migration
from .seams import TraceSeams

HEADER_BYTES_MAX: Final = 64 << 10


def read_head(seams: TraceSeams, path: str, size: int) -> Entry:
    """The header of a file: the first line of its first ``size`` bytes that is an object (1.8.2).

    Raises:
      StoreError: E_CORRUPT if that is something else, or there is none.
    """
    for _, line, _ in lines_of(seams, path, 0, size):
        found = parse_line(line)
        if found is not None:
            if is_header(found):
                return found
            break
    what = "its first line is no header" if size else "it is empty"
    text = f"{named(path)} is no session: {what}; it stays as it is, choose another file"
    raise StoreError("E_CORRUPT", text, path=path)


def file_at(seams: TraceSeams, path: str) -> FileStat:
    """What lies at the path of a session that must be there.

    Raises:
      StoreError: E_CORRUPT if nothing does, or no file.
    """
    found = seams.disk.stat(path)
    if found is None:
        raise StoreError("E_CORRUPT", f"{named(path)} is no session: no such file", path=path)
    if found.kind != "file":
        seams.parts.read_part(path, 0, 0)  # it has the words for what is there instead
    return found


def head_at(seams: TraceSeams, path: str) -> Entry:
    """The header of a session that must be there.

    Raises:
      StoreError: E_CORRUPT if there is no file, or no session in it; E_DISK.
    """
    return read_head(seams, path, file_at(seams, path).size_bytes)


def entry_lines(seams: TraceSeams, path: str, new_id: Callable[[], str]) -> Iterator[bytes]:
    """The lines of a session without its header: current ones byte by byte, older ones as version 3.

    Args:
      new_id: gives short ids, each of them once.

    Raises:
      StoreError: E_CHANGED, after the last line, if the file was replaced meanwhile: lines of two files were read.
    """
    found = file_at(seams, path)
    if needs_migration(read_head(seams, path, found.size_bytes)):
        lines = migrated(objects_of(seams, path, found.size_bytes), new_id)
        next(lines)
        yield from map(line_of, lines)
    else:
        for _, line, _ in lines_of(seams, path, 0, found.size_bytes):
            entry = parse_line(line)
            if entry is not None and entry["type"] != "session":
                yield line.strip(BLANK)
    now = file_at(seams, path)
    if (now.device, now.inode) != (found.device, found.inode) or now.size_bytes < found.size_bytes:
        text = f"{named(path)} was replaced or cut short by another program while it was read; try again"
        raise StoreError("E_CHANGED", text, path=path)


def objects_of(seams: TraceSeams, path: str, size: int) -> Iterator[Entry]:
    """The objects of all lines that are ones."""
    for _, line, _ in lines_of(seams, path, 0, size):
        if (found := parse_line(line)) is not None:
            yield found


def short_ids(new_id: Callable[[], str]) -> Callable[[], str]:
    """Ids of entries from UUIDs, each of them once."""
    used: set[str] = set()

    def draw() -> str:
        while (drawn := new_id()[:8]) in used:
            pass
        used.add(drawn)
        return drawn

    return draw
