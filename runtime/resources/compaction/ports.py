"""What compaction needs of a session tree, and how it calls one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import trio

from .entries import Entry

T = TypeVar("T")


class BuiltContext(Protocol):
    """What a model would get now."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]: ...


class SummarisedTree(Protocol):
    """What of a session tree is used here; ``SessionTree`` has it."""

    def get_leaf_id(self) -> str | None: ...
    def get_entry(self, entry_id: str, /) -> Entry | None: ...
    def get_branch(self, from_id: str | None = None, /) -> Sequence[Entry]: ...
    def build_session_context(self) -> BuiltContext: ...
    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Any = ...,
        from_hook: bool = ...,
        usage: Any = ...,
    ) -> str: ...
    def append_label_change(self, target_id: str, label: str | None = ..., /) -> str: ...
    def branch(self, entry_id: str, /) -> None: ...
    def reset_leaf(self) -> None: ...
    def branch_with_summary(
        self, entry_id: str | None, summary: str, details: Any = ..., from_hook: bool = ..., usage: Any = ...
    ) -> str: ...


class OnTree(Protocol):
    """Runs a call that uses the tree, alone: nobody else may use the tree meanwhile.

    Once the call has begun it is finished and its outcome is returned or raised, whoever is cancelled; Cancelled means
    that it has not begun.
    """

    async def __call__(self, call: Callable[[], T], /) -> T: ...


async def in_thread(call: Callable[[], T], /) -> T:
    """In a worker thread, since a tree blocks for as long as its disk takes. For a tree that has no other users."""
    return await trio.to_thread.run_sync(call)
