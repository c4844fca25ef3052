"""A session's tree, for asyncio. See ``session``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, final

import attrs

from ...store.trace import ABSENT, Entry, SessionContext
from .. import owned_tree
from ..call_arguments import copied
from ..session_outline import OutlineRow
from .bridge import Bridge

T = TypeVar("T")


@attrs.frozen(eq=False, repr=False)
class OwnedTreeReading:
    """What can be asked of an open session's tree."""

    _bridge: Bridge
    _inner: owned_tree.OwnedTree

    def __repr__(self) -> str:
        return f"<asyncio {self._inner!r}>"

    def get_session_id(self) -> str:
        """See there."""
        return self._inner.get_session_id()

    def get_session_file(self) -> str | None:
        """See there."""
        return self._inner.get_session_file()

    def get_session_dir(self) -> str:
        """See there."""
        return self._inner.get_session_dir()

    def get_cwd(self) -> str:
        """See there."""
        return self._inner.get_cwd()

    def get_header(self) -> dict[str, Any]:
        """See there."""
        return self._inner.get_header()

    def is_persisted(self) -> bool:
        """See there."""
        return self._inner.is_persisted()

    def get_leaf_id(self) -> str | None:
        """See there."""
        return self._inner.get_leaf_id()

    def get_session_name(self) -> str | None:
        """See there."""
        return self._inner.get_session_name()

    async def get_leaf_entry(self) -> Entry | None:
        """See there."""
        return await self._call(lambda: self._inner.get_leaf_entry())

    async def get_entry(self, entry_id: str) -> Entry | None:
        """See there."""
        return await self._call(lambda: self._inner.get_entry(entry_id))

    async def get_entries(self) -> list[Entry]:
        """See there."""
        return await self._call(lambda: self._inner.get_entries())

    async def get_label(self, entry_id: str) -> str | None:
        """See there."""
        return await self._call(lambda: self._inner.get_label(entry_id))

    async def get_children(self, parent_id: str | None) -> list[Entry]:
        """See there."""
        return await self._call(lambda: self._inner.get_children(parent_id))

    async def get_branch(self, from_id: str | None = None) -> list[Entry]:
        """See there."""
        return await self._call(lambda: self._inner.get_branch(from_id))

    async def get_branch_ids(self, from_id: str | None = None) -> list[str]:
        """See there."""
        return await self._call(lambda: self._inner.get_branch_ids(from_id))

    async def get_tree(self) -> list[dict[str, Any]]:
        """See there."""
        return await self._call(lambda: self._inner.get_tree())

    async def build_session_context(self, leaf_id: str | None = None) -> SessionContext:
        """See there."""
        return await self._call(lambda: self._inner.build_session_context(leaf_id))

    async def build_context_entries(self, leaf_id: str | None = None) -> list[Entry]:
        """See there."""
        return await self._call(lambda: self._inner.build_context_entries(leaf_id))

    async def outline(self) -> list[OutlineRow]:
        """See there."""
        return await self._call(lambda: self._inner.outline())

    async def export_branch(self, path: str, from_id: str | None = None) -> int:
        """See there."""
        return await self._call(lambda: self._inner.export_branch(path, from_id))

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._bridge.call(call)


@final
@attrs.frozen(eq=False, repr=False)
class OwnedTree(OwnedTreeReading):
    """The tree of an open session, for asyncio. See ``strataflow.OwnedTree``."""

    async def append_message(
        self, message: dict[str, Any], *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """See there."""
        own_message = copied(message)
        return await self._call(
            lambda: self._inner.append_message(own_message, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def append_thinking_level_change(
        self, level: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """See there."""
        return await self._call(
            lambda: self._inner.append_thinking_level_change(level, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def append_model_change(
        self, provider: str, model_id: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """See there."""
        return await self._call(
            lambda: self._inner.append_model_change(provider, model_id, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Any = None,
        from_hook: bool | None = None,
        usage: Any = None,
        *,
        entry_id: str | None = None,
        timestamp_ms: int | None = None,
    ) -> str:
        """See there."""
        own_details = copied(details)
        own_usage = copied(usage)
        return await self._call(
            lambda: self._inner.append_compaction(
                summary,
                first_kept_entry_id,
                tokens_before,
                own_details,
                from_hook,
                own_usage,
                entry_id=entry_id,
                timestamp_ms=timestamp_ms,
            )
        )

    async def append_custom_entry(
        self, custom_type: str, data: Any = ABSENT, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """See there."""
        own_data = copied(data)
        return await self._call(
            lambda: self._inner.append_custom_entry(custom_type, own_data, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def append_custom_message_entry(
        self,
        custom_type: str,
        content: str | list[dict[str, Any]],
        display: bool,
        details: Any = None,
        *,
        entry_id: str | None = None,
        timestamp_ms: int | None = None,
    ) -> str:
        """See there."""
        own_details = copied(details)
        own_content = copied(content)
        return await self._call(
            lambda: self._inner.append_custom_message_entry(
                custom_type, own_content, display, own_details, entry_id=entry_id, timestamp_ms=timestamp_ms
            )
        )

    async def append_session_info(
        self, name: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """See there."""
        return await self._call(
            lambda: self._inner.append_session_info(name, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def append_label_change(
        self, target_id: str, label: str | None = None, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """See there."""
        return await self._call(
            lambda: self._inner.append_label_change(target_id, label, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def refresh(self) -> int:
        """See there."""
        return await self._call(lambda: self._inner.refresh())

    async def branch(self, entry_id: str) -> None:
        """See there."""
        await self._call(lambda: self._inner.branch(entry_id))

    async def reset_leaf(self) -> None:
        """See there."""
        await self._call(lambda: self._inner.reset_leaf())

    async def branch_with_summary(
        self,
        entry_id: str | None,
        summary: str,
        details: Any = None,
        from_hook: bool | None = None,
        usage: Any = None,
        *,
        summary_id: str | None = None,
        timestamp_ms: int | None = None,
    ) -> str:
        """See there."""
        own_details = copied(details)
        own_usage = copied(usage)
        return await self._call(
            lambda: self._inner.branch_with_summary(
                entry_id, summary, own_details, from_hook, own_usage, summary_id=summary_id, timestamp_ms=timestamp_ms
            )
        )
