"""The queues of an agent on disk, beside its session file: ``<session file>.queue.jsonl``, removed when empty.

A log, one JSON object a line::

    {"queued": id, "lane": "steering" | "follow_up", "message": {…}}
    {"taking": id, "entry": id of an entry}      the message is about to be recorded as this entry
    {"gone": [id, …]}                            recorded in the session file, or cleared

Invariants (a crash may come between any two operations on the disk):
  K1  A message is in this file, synced, from the return of ``add`` until ``gone`` is written or the file is removed.
  K2  ``gone`` of a delivered message is written only after the entry that holds it is in the session file and synced:
      the message is never lost.
  K3  ``taking`` is synced before the entry is appended, and names the entry that it will be. So after a crash the
      message is recorded if the session has that entry, and is dropped: it is never there twice. Else it waits again.
  K4  A line that a crash cut short was never acted upon; the next line does not continue it.

What lost: comparing messages, since two may be the same to the last byte; and the queue's id inside of the entry, a
member that other readers of session files do not know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, final

import attrs

from ...store import Disk, StoreError
from ...store.trace import line_of
from .messages import AgentMessage, json_of
from .queues import LANES
from .recording import NewEntry, recorded_as
from .step_types import Lane

QUEUE_SUFFIX = ".queue.jsonl"
_ENTRY_ID_CHARS = 8


class Recorder(Protocol):
    """Where a conversation is recorded: what an agent asks of a session tree. Blocking; called from worker threads."""

    def get_session_file(self) -> str | None:
        """Path of the session file, which exists once its entries are written; None if the session has none."""

    def get_entry(self, entry_id: str) -> Mapping[str, Any] | None:
        """An entry of the session, or None."""

    def append_message(self, message: dict[str, Any], *, entry_id: str | None = None) -> str:
        """Append a ``message`` entry at the leaf, with this id or a new one. Returns the id."""

    def append_custom_message_entry(
        self, custom_type: str, content: Any, display: bool, details: Any = None, *, entry_id: str | None = None
    ) -> str:
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
    """The log. Synchronous; one call at a time. Raises StoreError E_DISK, or E_CORRUPT for a link or folder;
    CallError E_JSON for a message that no session can keep."""

    _disk: Disk
    _recorder: Recorder
    _new_id: Callable[[], str]
    _ids: set[str] = attrs.field(factory=set, init=False)
    # Which entry a message was or will be, and which have been recorded but not let go: the session's file may not have
    # been begun.
    _taken: dict[str, str] = attrs.field(factory=dict, init=False)
    _recorded: list[str] = attrs.field(factory=list, init=False)
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
        taking: dict[str, str] = {}
        for entry in _entries(data):
            if "queued" in entry:
                waiting[entry["queued"]] = Waiting(entry["queued"], entry["lane"], entry["message"])
            elif "taking" in entry:
                taking[entry["taking"]] = entry["entry"]
            else:
                for queue_id in entry["gone"]:
                    waiting.pop(queue_id, None)
        for queue_id, entry_id in taking.items():
            if self._recorder.get_entry(entry_id) is not None:  # K3
                waiting.pop(queue_id, None)
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
        """Keep a message (K1). If it raises, it is not kept, unless the disk refuses to take that down too."""
        if (path := self.path) is None:
            return
        is_new = not self._ids and self._disk.stat(path) is None
        try:
            self._append(path, _queued(queue_id, lane, message))
            self._disk.sync_file(path)
            if is_new:
                self._disk.sync_folder(os.path.dirname(path))
        except StoreError:
            with suppress(StoreError):
                self._append(path, {"gone": [queue_id]})
            raise
        self._ids.add(queue_id)

    def record(self, message: AgentMessage, queue_id: str | None) -> None:
        """Append the entry of a message to the session, and let the message go if it waited."""
        new = recorded_as(message)
        waits = queue_id is not None and queue_id in self._ids
        if queue_id is None or not waits:
            append_new(self._recorder, new)
        elif new is None:
            self.remove([queue_id])
        else:
            self._move(new, queue_id)
        with suppress(StoreError):
            # What fails here is done with the next message, or by ``load`` (K3). The entry is what counts.
            self._let_go()

    def _move(self, new: NewEntry, queue_id: str) -> None:
        entry_id = self._taken.get(queue_id)
        if entry_id is None:
            entry_id = self._new_entry_id()
            self._append(str(self.path), {"taking": queue_id, "entry": entry_id})
            self._disk.sync_file(str(self.path))  # K3
            self._taken[queue_id] = entry_id
        # It may be there already, if an append failed in a way that left its outcome unknown.
        if self._recorder.get_entry(entry_id) is None:
            append_new(self._recorder, new, entry_id)
        self._recorded.append(queue_id)

    def _let_go(self) -> None:
        """Let go what is recorded, once the session has a file."""
        session_file = self._recorder.get_session_file()
        if self._recorded and session_file is not None and self._disk.stat(session_file) is not None:
            self._disk.sync_file(session_file)  # K2
            self._disk.sync_folder(os.path.dirname(session_file))
            self.remove(self._recorded)
            self._recorded = []

    def _new_entry_id(self) -> str:
        while self._recorder.get_entry(entry_id := self._new_id()[:_ENTRY_ID_CHARS]) is not None:
            pass
        return entry_id

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

    def _append(self, path: str, entry: Mapping[str, Any]) -> None:
        line = (b"\n" if self._is_torn else b"") + _line(entry)  # K4
        self._is_torn = True
        self._disk.append(path, line)
        self._is_torn = False


def append_new(recorder: Recorder, new: NewEntry | None, entry_id: str | None = None) -> str | None:
    """Append an entry; its id. None: there is nothing to append."""
    if new is None:
        return None
    members = new.members
    if new.type == "message":
        return recorder.append_message(dict(members["message"]), entry_id=entry_id)
    return recorder.append_custom_message_entry(
        members["customType"], members["content"], members["display"], members.get("details"), entry_id=entry_id
    )


def _queued(queue_id: str, lane: Lane, message: AgentMessage) -> Mapping[str, Any]:
    return {"queued": queue_id, "lane": lane, "message": dict(json_of(message))}


def _line(entry: Mapping[str, Any]) -> bytes:
    # As the session will write it, so that what it would refuse is refused before it waits.
    return line_of(dict(entry)) + b"\n"


def _entries(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # K4
        if isinstance(entry, dict) and _is_ours(entry):
            found.append(entry)
    return found


def _is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether a line is one that this module writes. What others have put into the file is passed over."""
    match entry:
        case {"queued": str(), "lane": lane, "message": {"role": str()}}:
            return lane in LANES
        case {"taking": str(), "entry": str()}:
            return True
        case {"gone": list(ids)}:
            return all(isinstance(queue_id, str) for queue_id in ids)
        case _:
            return False
