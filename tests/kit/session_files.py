"""A session file as an agent's recorder, for tests: entries in a list and a file, all through a disk that may fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import trio

from strataflow.store import Disk, RealDisk, StoreError

T = TypeVar("T")


async def inline(call: Callable[[], T]) -> T:
    """A worker thread whose call takes no time; a cancellation is delivered afterwards, as by the real ones."""
    found = call()
    await trio.lowlevel.cancel_shielded_checkpoint()
    return found


class PlainSession:
    """Opens or begins the file. ``begins_late``: nothing is written before the first answer, as sessions of Pi do."""

    def __init__(self, path: str, disk: Disk | None = None, *, begins_late: bool = False) -> None:
        self._path, self._disk = path, disk or RealDisk()
        data = self._disk.read(path) or b""
        self.entries: list[dict[str, Any]] = []
        for line in data.split(b"\n"):
            try:
                self.entries.append(json.loads(line))
            except ValueError:
                continue
        self._written = {entry["id"] for entry in self.entries}
        self._is_torn = bool(data) and not data.endswith(b"\n")
        self._is_late = begins_late and not data

    def get_session_file(self) -> str:
        return self._path

    def get_entry(self, entry_id: str) -> Mapping[str, Any] | None:
        return next((entry for entry in self.entries if entry["id"] == entry_id), None)

    def append_message(self, message: dict[str, Any], *, entry_id: str | None = None) -> str:
        return self._append({"type": "message", "message": json.loads(json.dumps(message))}, entry_id)

    def append_custom_message_entry(
        self, custom_type: str, content: Any, display: bool, details: Any = None, *, entry_id: str | None = None
    ) -> str:
        more = {} if details is None else {"details": details}
        members = {"customType": custom_type, "content": content, "display": display, **more}
        return self._append({"type": "custom_message", **members}, entry_id)

    def messages(self) -> list[Any]:
        return [entry["message"] for entry in self.entries if entry["type"] == "message"]

    def _append(self, members: Mapping[str, Any], entry_id: str | None) -> str:
        assert entry_id is None or self.get_entry(entry_id) is None, "an id that is taken"
        leaf = self.entries[-1]["id"] if self.entries else None
        entry = {**members, "id": entry_id or f"e{len(self.entries) + 1}", "parentId": leaf}
        if self._is_late and members.get("message", {}).get("role") == "assistant":
            self._is_late = False
        if not self._is_late:
            waiting = [each for each in (*self.entries, entry) if each["id"] not in self._written]
            lines = b"".join(json.dumps(each).encode() + b"\n" for each in waiting)
            self._disk.append(self._path, (b"\n" if self._is_torn else b"") + lines)
            self._is_torn = False
            self._written.update(each["id"] for each in waiting)
        self.entries.append(entry)
        return str(entry["id"])


class DyingDisk:
    """The real disk, until its program dies in the midst of a change: before it, half-way, or right after."""

    def __init__(self, at: int, how: str) -> None:
        self._real, self._left, self._how = RealDisk(), at, how
        self.is_dead = False

    def __getattr__(self, operation: str) -> Any:
        real = getattr(self._real, operation)

        def call(*arguments: Any, **more: Any) -> Any:
            if self.is_dead:
                raise StoreError("E_DISK", "this program is dead")
            if operation in ("read", "stat", "list", "identity"):
                return real(*arguments, **more)
            self._left -= 1
            if self._left:
                return real(*arguments, **more)
            self.is_dead = True
            if self._how == "half" and operation in ("append", "write_new"):
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            elif self._how == "after":
                real(*arguments, **more)
            raise StoreError("E_DISK", "this program dies here")

        return call
