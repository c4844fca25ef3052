"""The queues of an agent on disk, beside its session file: ``<session file>.queue.jsonl``, removed when empty.

A log, one JSON object a line::

    {"queued": id, "lane": "steering" | "follow_up", "message": {…}}
    {"taking": id, "after": leaf id or null}     the message is about to be recorded, behind that leaf
    {"gone": [id, …]}                            recorded in the session file, or cleared

Invariants (a crash may come between any two operations on the disk):
  K1  A message is in this file, synced, from the return of ``add`` until ``gone`` is written or the file is removed.
  K2  ``gone`` of a delivered message is written only after the entry that holds it is in the session file and synced:
      the message is never lost.
  K3  ``taking`` is synced before the entry is appended, and says behind which leaf. So after a crash an entry behind
      that leaf that holds this very message is its record, and the message is dropped: it is never there twice. Without
      such an entry it was not recorded, and waits again.
  K4  ``load`` settles every ``taking`` and writes the file anew, so that an old one can not match a later entry.
  K5  A line that a crash cut short was never acted upon; the next line does not continue it.

An id of the queue inside of the session entry would do for K3 as well; it would be a member that other readers of
session files do not know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final

import attrs

from ...store import Disk, StoreError
from .messages import AgentMessage, json_of
from .recording import is_record_of, recorded_as
from .step_types import Lane

QUEUE_SUFFIX = ".queue.jsonl"


class Recorder(Protocol):
    """Where a conversation is recorded: what an agent asks of a session tree. Blocking; called from worker threads."""

    def get_session_file(self) -> str | None:
        """Path of the session file; None if the session is kept in memory only."""

    def get_leaf_id(self) -> str | None:
        """The entry that the next one will follow."""

    def get_children(self, entry_id: str | None) -> Sequence[Mapping[str, Any]]:
        """The entries behind an entry; behind none (None): those that follow nothing. Unknown id: none."""

    def is_written(self, entry_id: str) -> bool:
        """Whether the entry is in the session file, and not only in memory until the file is begun."""

    def append_message(self, message: Mapping[str, Any]) -> str:
        """Append a ``message`` entry at the leaf. Returns its id."""

    def append_custom_message_entry(self, custom_type: str, content: Any, display: bool, details: Any = None) -> str:
        """Append a ``custom_message`` entry at the leaf. Returns its id."""


@attrs.frozen
class Waiting:
    """A message that waits."""

    queue_id: str
    lane: Lane
    message: AgentMessage


@final
@attrs.define(eq=False)
class QueueFile:
    """The log. Synchronous; one call at a time. Raises StoreError E_DISK, or E_CORRUPT for a link or folder."""

    _disk: Disk
    _recorder: Recorder
    _ids: set[str] = attrs.field(factory=set, init=False)
    # Recorded in a tree that has not begun its file yet: queue id and entry id.
    _unwritten: dict[str, str] = attrs.field(factory=dict, init=False)
    _is_torn: bool = attrs.field(default=False, init=False)

    @property
    def path(self) -> str | None:
        """Where it is; None if the session has no file."""
        session_file = self._recorder.get_session_file()
        return None if session_file is None else session_file + QUEUE_SUFFIX

    def load(self) -> list[Waiting]:
        """What waits, in the order in which it came."""
        if (path := self.path) is None or (data := self._disk.read(path)) is None:
            return []
        waiting = self._settled(data)
        lines = b"".join(_line(_queued(each.queue_id, each.lane, each.message)) for each in waiting)
        if not lines:
            self._disk.unlink(path)
        elif lines != data:
            self._rewrite(path, lines)
        self._ids = {each.queue_id for each in waiting}
        return waiting

    def _settled(self, data: bytes) -> list[Waiting]:
        waiting: dict[str, Waiting] = {}
        taking: dict[str, str | None] = {}
        for entry in _entries(data):
            if "queued" in entry:
                waiting[entry["queued"]] = Waiting(entry["queued"], entry["lane"], entry["message"])
            elif "taking" in entry:
                taking[entry["taking"]] = entry["after"]
            else:
                for queue_id in entry["gone"]:
                    waiting.pop(queue_id, None)
        for queue_id, leaf in taking.items():
            if queue_id in waiting:
                message = waiting[queue_id].message
                if any(is_record_of(child, message) for child in self._recorder.get_children(leaf)):  # K3
                    del waiting[queue_id]
        return list(waiting.values())

    def _rewrite(self, path: str, data: bytes) -> None:
        # A temporary file that a crash has left is ours and half-made.
        temporary = path + ".new"
        self._disk.unlink(temporary)
        self._disk.write_new(temporary, data)
        self._disk.sync_file(temporary)
        self._disk.rename(temporary, path)
        self._disk.sync_folder(os.path.dirname(path))

    def add(self, queue_id: str, lane: Lane, message: AgentMessage) -> None:
        """Keep a message (K1). If it raises, it is not kept."""
        if (path := self.path) is not None:
            is_new = not self._ids and self._disk.stat(path) is None
            self._append(path, _queued(queue_id, lane, message))
            self._disk.sync_file(path)
            if is_new:
                self._disk.sync_folder(os.path.dirname(path))
            self._ids.add(queue_id)

    def record(self, message: AgentMessage, queue_id: str | None) -> None:
        """Append the entry of a message to the session, and let the message go if it waited."""
        waits = queue_id in self._ids
        if queue_id is not None and waits and self.path is not None:
            self._append(self.path, {"taking": queue_id, "after": self._recorder.get_leaf_id()})
            self._disk.sync_file(self.path)  # K3
        entry_id = self._append_entry(message)
        if queue_id is not None and waits:
            if entry_id is None:
                self.remove([queue_id])
            else:
                self._unwritten[queue_id] = entry_id
        try:
            self._let_go()
        except StoreError:
            # The entry is appended, which is what counts. The queue learns of it with the next one, or from K3.
            return

    def remove(self, queue_ids: Sequence[str]) -> None:
        """These messages wait no longer."""
        left = self._ids.difference(queue_ids)
        path = self.path
        if path is None or left == self._ids:
            return
        if left:
            self._append(path, {"gone": list(queue_ids)})
            self._disk.sync_file(path)
        else:
            self._disk.unlink(path)
            self._is_torn = False
        self._ids = left

    def _let_go(self) -> None:
        if not self._unwritten:
            return
        written = [queue_id for queue_id, entry in self._unwritten.items() if self._recorder.is_written(entry)]
        session_file = self._recorder.get_session_file()
        if written and session_file is not None:
            self._disk.sync_file(session_file)  # K2
            self._disk.sync_folder(os.path.dirname(session_file))
            self.remove(written)
            for queue_id in written:
                del self._unwritten[queue_id]

    def _append_entry(self, message: AgentMessage) -> str | None:
        new = recorded_as(message)
        if new is None:
            return None
        if new.type == "message":
            return self._recorder.append_message(new.members["message"])
        members = new.members
        return self._recorder.append_custom_message_entry(
            members["customType"], members["content"], members["display"], members.get("details")
        )

    def _append(self, path: str, entry: Mapping[str, Any]) -> None:
        start = b"\n" if self._is_torn else b""  # K5
        self._is_torn = True
        self._disk.append(path, start + _line(entry))
        self._is_torn = False


def _queued(queue_id: str, lane: Lane, message: AgentMessage) -> Mapping[str, Any]:
    return {"queued": queue_id, "lane": lane, "message": json_of(message)}


def _line(entry: Mapping[str, Any]) -> bytes:
    # Not the store's codec: a conversation may hold lone surrogates, which have to be escaped.
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _entries(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # K5
        if isinstance(entry, dict) and not entry.keys().isdisjoint(("queued", "taking", "gone")):
            found.append(entry)
    return found
