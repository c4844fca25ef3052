"""What sessions there are in a folder (host 2.2). Looks only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from ..algebra import StoreError
from .entries import is_header, text_of, time_ms
from .files import lines_of
from .lines import Entry, parse_line
from .reading import file_at
from .seams import TraceSeams

NO_MESSAGES = "(no messages)"
_NS_PER_MS = 1_000_000
Progress = Callable[[int, int], None]


@final
@attrs.frozen
class SessionInfo:
    """One session of a listing. Times are milliseconds since 1970.

    Attributes:
      cwd: empty if the header has none.
      created_ms: the header's time; None if that cannot be read.
      modified_ms: the time of the last message of a user or assistant, else the header's, else the file's.
      message_count: all messages on all branches, tool results too.
      first_message: the first text of a user, or ``(no messages)``.
      all_messages_text: all texts of users and assistants, joined by blanks.
      trouble: why the file could not be read; then all else but the path and ``modified_ms`` is empty.
    """

    path: str
    id: str = ""
    cwd: str = ""
    name: str | None = None
    parent_session_path: str | None = None
    created_ms: int | None = None
    modified_ms: int = 0
    message_count: int = 0
    first_message: str = NO_MESSAGES
    all_messages_text: str = ""
    trouble: str | None = None


@attrs.define
class _Seen:
    head: Entry
    last_ms: int | None = None
    count: int = 0
    first: str = ""
    name: str | None = None
    texts: list[str] = attrs.field(factory=list)

    def take(self, found: Entry) -> None:
        if found["type"] == "session_info":
            name = found.get("name")
            self.name = (name.strip() if type(name) is str else "") or None
        elif found["type"] == "message":
            self.count += 1
            message = found.get("message")
            role = message.get("role") if type(message) is dict else None
            if role in ("user", "assistant"):
                self._take_message(found, message, role)

    def _take_message(self, found: Entry, message: Any, role: str) -> None:
        told = message.get("timestamp")
        at = int(told) if type(told) in (int, float) else time_ms(found.get("timestamp"))
        if at is not None:
            self.last_ms = at if self.last_ms is None else max(self.last_ms, at)
        if text := text_of(message):
            self.texts.append(text)
            if role == "user" and not self.first:
                self.first = text


def list_folder(seams: TraceSeams, folder: str, progress: Progress | None = None) -> list[SessionInfo]:
    """The sessions of a folder, last used first; none if it does not exist. ``progress`` gets done and total."""
    return list_files(seams, session_files(seams, folder), progress)


def list_below(seams: TraceSeams, folder: str, progress: Progress | None = None) -> list[SessionInfo]:
    """The sessions of all folders in a folder."""
    paths = []
    for name in seams.disk.list(folder) or ():
        below = f"{folder}/{name}"
        if (stat := seams.disk.stat(below)) is not None and stat.kind == "folder":
            paths += session_files(seams, below)
    return list_files(seams, paths, progress)


def session_files(seams: TraceSeams, folder: str) -> list[str]:
    """The paths of what may be sessions in a folder, in the order of their names."""
    return [f"{folder.rstrip('/')}/{name}" for name in seams.disk.list(folder) or () if name.endswith(".jsonl")]


def list_files(seams: TraceSeams, paths: list[str], progress: Progress | None = None) -> list[SessionInfo]:
    """The sessions among these files. One that cannot be read is told by its ``trouble``, never left out."""
    found = []
    for done, path in enumerate(paths, 1):
        if (info := session_info(seams, path)) is not None:
            found.append(info)
        if progress is not None:
            progress(done, len(paths))
    return sorted(found, key=lambda info: -info.modified_ms)


def session_info(seams: TraceSeams, path: str) -> SessionInfo | None:
    """One session; None for a file whose first object is no header (2.2.6)."""
    try:
        stat = file_at(seams, path)
        seen: _Seen | None = None
        for _, line, _ in lines_of(seams, path, 0, stat.size_bytes):
            found = parse_line(line)
            if found is None:
                continue
            if seen is None:
                if not is_header(found):
                    return None
                seen = _Seen(found)
            else:
                seen.take(found)
    except StoreError as error:
        return SessionInfo(path, trouble=str(error))
    return None if seen is None else _info(path, seen, stat.mtime_ns // _NS_PER_MS)


def _info(path: str, seen: _Seen, file_ms: int) -> SessionInfo:
    head = seen.head
    created = time_ms(head.get("timestamp"))
    modified = next(at for at in (seen.last_ms, created, file_ms) if at is not None)
    cwd, parent = head.get("cwd"), head.get("parentSession")
    return SessionInfo(
        path,
        head["id"],
        cwd if type(cwd) is str else "",
        seen.name,
        parent if type(parent) is str else None,
        created,
        modified,
        seen.count,
        seen.first or NO_MESSAGES,
        " ".join(seen.texts),
    )
