"""Where a session's own entries are kept if no host keeps them: in memory, or in a file of JSON lines (store 6.3).

A host with a log of its own gives an object with the same two methods to ``open_session``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, final

import attrs

from ..store import MARKER_ENTRY, CallError, HostEntries, Json, RealDisk, compact, parse_strict, resolve_root


@final
@attrs.define(eq=False)
class MemoryEntries:
    """A session's entries for as long as this object lives. See ``HostEntries``."""

    entries: list[Mapping[str, Any]] = attrs.field(factory=list)

    def branch(self) -> Sequence[Mapping[str, Any]]:
        """All entries, oldest first."""
        return tuple(self.entries)

    def append(self, custom_type: str, data: Json) -> None:
        """Add an entry of memory."""
        self.entries.append({"type": "custom", "customType": custom_type, "data": data})

    def add_message(self, role: str) -> None:
        """Note that the conversation has a message more."""
        self.entries.append({"type": "message", "message": {"role": role}})


@final
@attrs.define(eq=False)
class JsonlEntries:
    """A session's entries in a file, one JSON object a line; created with the first entry (0600). See ``HostEntries``.

    A line that can not be read is passed over, such as one that a crash cut short. Both methods block for as long as a
    small file operation takes.

    Raises, in both methods, StoreError E_DISK, and E_CORRUPT for a link or folder where the file should be.
    """

    path: str
    _disk: RealDisk = attrs.field(init=False)
    _is_torn: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        folder, name = os.path.split(os.path.abspath(os.path.expanduser(self.path)))
        root = resolve_root(folder)
        self.path = os.path.join(root, name)
        self._disk = RealDisk(root)

    def branch(self) -> Sequence[Mapping[str, Any]]:
        """All entries that can be read, oldest first."""
        data = self._disk.read(self.path) or b""
        self._is_torn = bool(data) and not data.endswith(b"\n")
        found = []
        for line in data.split(b"\n"):
            try:
                entry = parse_strict(line) if line.strip() else None
            except CallError:
                continue
            if type(entry) is dict:
                found.append(entry)
        return found

    def append(self, custom_type: str, data: Json) -> None:
        """Add an entry of memory."""
        self._add({"type": "custom", "customType": custom_type, "data": data})

    def add_message(self, role: str) -> None:
        """Note that the conversation has a message more."""
        self._add({"type": "message", "message": {"role": role}})

    def _add(self, entry: Json) -> None:
        # Behind half a line the entry would be lost with it.
        start = b"\n" if self._is_torn else b""
        self._disk.append(self.path, start + compact(entry).encode() + b"\n")
        self._is_torn = False


def note_pending_fork(entries: HostEntries, child_id: str, parent_id: str, now_ms: int) -> None:
    """A child of a session that is off: its memory is copied when a mode is chosen for it (store 6.4.6)."""
    data = {"owner": child_id, "at": now_ms, "mode": "off", "forkPending": True, "parent": parent_id}
    entries.append(MARKER_ENTRY, data)
