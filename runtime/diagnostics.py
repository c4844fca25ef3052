"""The diagnostics log: what was refused, and why, for whoever looks into a session's troubles (store 4.3, Ours-10).

Off unless the operator turns it on. One JSON object a line, appended to a file of the agent directory; if that file can
not be written nothing else changes, and one event says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, final

import attrs

from ..actors import SessionCell
from ..store import CallError, Json, RealDisk, StoreError, StrataflowError, compact, detach, resolve_root
from ..store.projection import Verdict

Category = Literal["invalid-patch", "publication-conflict", "finalization", "barrier-block", "session-tree"]
DIAGNOSTICS_FILE: Final = "logs/strataflow.jsonl"

# Adds a line to the log; raises StoreError or OSError.
Append = Callable[[bytes], None]
_WITHDRAWN = ("E_ABORTED", "E_CLOSED", "E_OFF")


@final
@attrs.frozen
class LogFile:
    """The file of the log, below an agent directory. Its folders are made when they are missing; none may be a link.

    Attributes:
      store: the store's folder. Nothing is written if the file would lie in it.
    """

    agent_dir: str
    store: str

    def append(self, line: bytes) -> None:
        """Add a line. Blocks for as long as a small file operation takes.

        Raises:
          StoreError: E_DISK; E_CORRUPT for a link or a folder where the file should be.
        """
        root = resolve_root(self.agent_dir)
        path = f"{root}/{DIAGNOSTICS_FILE}"
        if path.startswith(self.store.rstrip("/") + "/"):
            return
        disk = RealDisk(root)
        if disk.stat(path) is None:
            os.makedirs(root, 0o700, exist_ok=True)
            disk.make_folder(path.rpartition("/")[0])
        disk.append(path, line)


@final
@attrs.define(eq=False)
class Diagnostics:
    """Of one runtime. ``append`` None: nothing is logged."""

    append: Append | None = None
    now_ms: Callable[[], int] = lambda: 0
    report: Callable[..., None] = lambda name, **data: None
    _has_failed: bool = attrs.field(default=False, init=False)

    @property
    def is_on(self) -> bool:
        """Whether anything is logged."""
        return self.append is not None

    def note(self, cell: SessionCell, category: Category, error: str, **more: Any) -> None:
        """Log one record. ``more``: content, input, tool, toolCallId, batchToolNames, as far as they apply."""
        if self.append is None:
            return
        at = datetime.fromtimestamp(self.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        record: Json = {
            "at": at.replace("+00:00", "Z"),
            "sessionId": cell.session_id,
            "cwd": cell.cwd,
            "category": category,
            "error": error,
            **more,
        }
        try:
            self.append(_line(record))
        except (StoreError, OSError) as failure:
            if not self._has_failed:
                self.report("diagnostics-failed", error=failure)
            self._has_failed = True

    @contextmanager
    def of_patch(self, cell: SessionCell, arguments: Any, call_id: str | None) -> Iterator[None]:
        """Log what a patch in the body is refused for, with its exact arguments (store 4.3.3). Only when it is on."""
        given = _kept(arguments)  # T11: as they were, whatever their owner does meanwhile
        try:
            yield
        except StrataflowError as error:
            if error.code not in _WITHDRAWN:
                category: Category = "invalid-patch" if isinstance(error, CallError) else "publication-conflict"
                about = {"toolCallId": call_id} if call_id is not None else {}
                self.note(cell, category, str(error), input=given, tool="patch_state", **about)
            raise

    @contextmanager
    def of_answer(self, cell: SessionCell, content: Any) -> Iterator[None]:
        """Log why an answer in the body was not accepted."""
        try:
            yield
        except StrataflowError as error:
            if error.code not in _WITHDRAWN:
                self.note(cell, "finalization", str(error), content=reduced_content(content))
            raise

    def blocked(self, cell: SessionCell, verdicts: tuple[Verdict, ...]) -> None:
        """Log the calls that the barrier held back: names and ids, no arguments (L16)."""
        for verdict in verdicts:
            if verdict.block:
                assert verdict.reason is not None
                about = {"tool": verdict.name, "toolCallId": verdict.id, "batchToolNames": list(verdict.batch)}
                self.note(cell, "barrier-block", verdict.reason, **about)


def reduced_content(content: Any) -> Any:
    """The text blocks of a message's content as they are, of every other block its type alone (store 4.3.4)."""
    if type(content) is dict and type(content.get("text")) is str and "type" not in content:
        content = content["text"]
    if type(content) is not list:
        return content if type(content) is str else None
    found = []
    for block in content:
        if isinstance(block, Mapping) and block.get("type") == "text":
            found.append({"type": "text", "text": block.get("text")})
        elif isinstance(block, Mapping):
            found.append({"type": block.get("type")})
    return found


def _kept(value: Any) -> Any:
    try:
        return detach(value)
    except Exception:  # of whatever kind: it is about to be refused for what it is
        return f"<{type(value).__name__}>"


def _line(record: Json) -> bytes:
    try:
        return compact(record).encode() + b"\n"
    except (TypeError, ValueError):
        # What was given can not be written as JSON; that is why it was refused.
        texts = {name: value if type(value) is str else f"<{type(value).__name__}>" for name, value in record.items()}
        return compact({name: text.encode(errors="replace").decode() for name, text in texts.items()}).encode() + b"\n"
