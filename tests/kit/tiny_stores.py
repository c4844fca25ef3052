"""A store of nothing but memory: drafts, rows and roots as in a real one, without journal, files or actors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from strataflow.store import (
    Attempt,
    ConflictError,
    Draft,
    Json,
    MemoryStore,
    Receipt,
    SessionAddress,
    check_patch_arguments,
    moment_of,
    read,
    stage_transaction,
)
from strataflow.store.image import ScopeImage

T = TypeVar("T")

CWD = "/project"


@attrs.define(eq=False)
class TinyStore:
    """Sessions of one directory. Each call is staged and published at once; ``rows`` counts what was appended."""

    memory: MemoryStore = attrs.field(factory=lambda: MemoryStore("tiny"))
    rows: int = 0
    _ids: Any = attrs.field(factory=itertools.count)

    def open(self, key: str = "main") -> SessionAddress:
        """A session, found empty if it is new."""
        address = SessionAddress(CWD, key, key)
        for name, scope in address.scopes():
            cwd = None if name == "global" else CWD
            found = ScopeImage(scope, cwd, key if name == "session" else None)
            self.memory.images.setdefault(scope, found)
        self.memory.accept(address, {})
        return address

    def draft(self) -> Draft:
        """A draft on the present root."""
        return Draft(self.memory, "process", 1_000 + self.memory.head, lambda: f"id-{next(self._ids)}")

    def commit(self, stage: Callable[[Draft], T]) -> T:
        """Stage one call and publish it."""
        draft = self.draft()
        answer = stage(draft)
        self.rows += len(draft.rows)
        self.memory.publish(draft.rows, draft.images)
        return answer

    def patch(self, address: SessionAddress, request_id: str | None = None, /, **patches: Any) -> Receipt:
        """One call of ``patch_state``."""
        checked = check_patch_arguments(patches_of(patches))
        return self.commit(lambda draft: draft.stage_patch(address, checked, request_id))

    def begin(self, address: SessionAddress) -> Attempt:
        """A transaction's attempt on the present root."""
        return Attempt(moment_of(self.memory, address))

    def finish(self, address: SessionAddress, attempt: Attempt, request_id: str | None = None, **more: Any) -> Receipt:
        """Commit it, or raise its conflict."""
        return self.commit(lambda draft: stage_transaction(draft, address, attempt, request_id, **more))

    def read(self, address: SessionAddress, path: str, projection: str = "value") -> Any:
        """What a session reads: the value, or the keys."""
        found = read(self.memory.view(address), {"path": path, "projection": projection})
        return found.keys if projection == "keys" else found.value

    def values(self, address: SessionAddress) -> list[Json]:
        """The three scopes."""
        return [image.state.value if image.state else {} for image in self.memory.trio(address)]


def conflicts_of(store: TinyStore, address: SessionAddress, attempt: Attempt) -> list[tuple[str, str, Any, Any]]:
    """The conflicts with which an attempt ends: path, projection, read, now. Empty if it commits."""
    try:
        store.finish(address, attempt)
    except ConflictError as error:
        return [(found.path, found.projection, found.read, found.now) for found in error.conflicts]
    return []


def patches_of(given: Json) -> Json:
    """Patches by scope, of keyword arguments."""
    return {name.rstrip("_"): patch for name, patch in given.items()}
