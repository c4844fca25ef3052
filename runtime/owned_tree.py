"""``session.tree``: the tree of an open session, for authors. Its calls go to the tree's actor, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, final

import attrs

from ..actors import ActorRef, MoveTree, TreeCell
from ..store.trace import ABSENT, Entry, SessionContext, TraceTree
from .call_arguments import copied
from .session_outline import OutlineRow, outline

T = TypeVar("T")


@attrs.frozen(eq=False, repr=False)
class OwnedTreeReading:
    """What can be asked of an open session's tree. Whatever comes out is the caller's own."""

    _tree: TreeCell
    _actor: ActorRef
    _check: Callable[[], None]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._tree.tree.get_session_file() or 'a session in memory'}>"

    # -- known without asking ------------------------------------------------------------------------------------

    def get_session_id(self) -> str:
        """The session's id."""
        return self._tree.tree.get_session_id()

    def get_session_file(self) -> str | None:
        """The path of its file; None for a session in memory."""
        return self._tree.tree.get_session_file()

    def get_session_dir(self) -> str:
        """The folder of that file; empty for a session in memory."""
        return self._tree.tree.get_session_dir()

    def get_cwd(self) -> str:
        """The session's working directory."""
        return self._tree.tree.get_cwd()

    def get_header(self) -> dict[str, Any]:
        """The first line of the file."""
        return self._tree.tree.get_header()

    def is_persisted(self) -> bool:
        """Whether the session has a file."""
        return self._tree.tree.is_persisted()

    def get_leaf_id(self) -> str | None:
        """Where the next entry goes, as of the last call that has ended; None for a new root."""
        return self._tree.leaf_id

    def get_session_name(self) -> str | None:
        """The last name given, as of the last call that has ended."""
        return self._tree.name

    # -- asked for, after all that was asked for before ------------------------------------------------------------
    # Each is a checkpoint and changes nothing, so Cancelled loses nothing.

    async def get_leaf_entry(self) -> Entry | None:
        """The entry where the next one goes."""
        return await self._ask(TraceTree.get_leaf_entry)

    async def get_entry(self, entry_id: str) -> Entry | None:
        """The entry with this id; None if there is none."""
        return await self._ask(lambda tree: tree.get_entry(entry_id))

    async def get_entries(self) -> list[Entry]:
        """All entries in the order of the file."""
        return await self._ask(TraceTree.get_entries)

    async def get_label(self, entry_id: str) -> str | None:
        """The label in force for an entry."""
        return await self._ask(lambda tree: tree.get_label(entry_id))

    async def get_children(self, parent_id: str | None) -> list[Entry]:
        """The entries that follow an entry, oldest first; for None the roots that name no parent."""
        return await self._ask(lambda tree: tree.get_children(parent_id))

    async def get_branch(self, from_id: str | None = None) -> list[Entry]:
        """The entries from the root to an entry (default: the leaf); empty for an unknown one."""
        return await self._ask(lambda tree: tree.get_branch(from_id))

    async def get_branch_ids(self, from_id: str | None = None) -> list[str]:
        """The ids of ``get_branch``, without reading an entry."""
        return await self._ask(lambda tree: tree.get_branch_ids(from_id))

    async def get_tree(self) -> list[dict[str, Any]]:
        """All roots as nodes: ``entry``, ``children``, ``label``, ``labelTimestamp``."""
        return await self._ask(TraceTree.get_tree)

    async def build_session_context(self, leaf_id: str | None = None) -> SessionContext:
        """What a model is to see at an entry (default: the leaf): messages, level, model.

        Raises:
          ReadError: E_MISSING for an unknown entry.
        """
        return await self._ask(lambda tree: tree.build_session_context(leaf_id))

    async def build_context_entries(self, leaf_id: str | None = None) -> list[Entry]:
        """The entries that count there: the latest compaction, what it kept, and all that came later."""
        return await self._ask(lambda tree: tree.build_context_entries(leaf_id))

    async def outline(self) -> list[OutlineRow]:
        """All entries as rows for a person, from the roots down; at a fork each way is one step deeper."""
        return await self._ask(lambda tree: list(outline(tree)))

    async def export_branch(self, path: str, from_id: str | None = None) -> int:
        """Write the path to an entry (default: the leaf) as a session file of one chain; how many entries."""
        return await self._ask(lambda tree: tree.export_branch(path, from_id))

    async def _ask(self, call: Callable[[TraceTree], T]) -> T:
        self._check()
        return await self._tree.ask(call)


@final
@attrs.frozen(eq=False, repr=False)
class OwnedTree(OwnedTreeReading):
    """The tree of an open session: a ``SessionTree`` whose calls wait for the disk without holding up anybody else.

    Entries are written in the order in which they were asked for; arguments are copied at once. During a run of the
    session an entry follows the run's own last one: what other processes add meanwhile becomes a branch beside it, told
    by the runtime event ``foreign_entries``. While the session is idle an entry goes behind what they have added.

    Appending is always a checkpoint. If it raises Cancelled, nothing was written, or the entry is written whole; every
    later call knows which: choose the ``entry_id`` yourself, and ask ``get_entry`` for it.

    Raises, in whatever is awaited, StoreError: E_DISK, and nothing was added; E_CHANGED if another program has replaced
    or cut the file; E_BROKEN if the outcome of a write is not known; E_CLOSED once the session is closed.
    """

    async def append_message(
        self, message: dict[str, Any], *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add a message: an object with a ``role``. Like every append: returns the id of the entry, the new leaf."""
        own, at = copied(message), _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_message(own, **at))

    async def append_thinking_level_change(
        self, level: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add a change of the thinking level."""
        at = _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_thinking_level_change(level, **at))

    async def append_model_change(
        self, provider: str, model_id: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add a change of the model."""
        at = _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_model_change(provider, model_id, **at))

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
        """Add a compaction: ``summary`` takes the place of all before the first kept entry."""
        own = (summary, first_kept_entry_id, tokens_before, copied(details), from_hook, copied(usage))
        at = _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_compaction(*own, **at))

    async def append_custom_entry(
        self, custom_type: str, data: Any = ABSENT, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add an entry that no model sees. Without ``data`` it has none; None is stored as null."""
        own, at = copied(data), _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_custom_entry(custom_type, own, **at))

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
        """Add a text for the model that no user wrote; ``display``: whether it is shown on the screen."""
        own = (custom_type, copied(content), display, copied(details))
        at = _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_custom_message_entry(*own, **at))

    async def append_session_info(
        self, name: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Name the session; an empty name takes it away."""
        return await self._ask(
            lambda tree: tree.append_session_info(name, entry_id=entry_id, timestamp_ms=timestamp_ms)
        )

    async def append_label_change(
        self, target_id: str, label: str | None = None, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Set the label of an entry; None or an empty one takes it away.

        Raises:
          ReadError: E_MISSING for an unknown target; nothing is added.
        """
        at = _at(entry_id, timestamp_ms)
        return await self._ask(lambda tree: tree.append_label_change(target_id, label, **at))

    async def refresh(self) -> int:
        """Read what other processes have added; how many entries. While the session is idle its leaf follows them."""
        return await self._ask(TraceTree.refresh)

    # -- going elsewhere ---------------------------------------------------------------------------------------------
    # The run under way is over, and what its memory waits for is withdrawn. Memory stays as it is now; the mode, a
    # pause of writing and the boundary of the conversation are those of the branch. Memory that can not follow blocks
    # the session, as ``status`` tells, until a mode is selected. Cancelled: it has not begun, or both move.

    async def branch(self, entry_id: str) -> None:
        """Let the next entry follow this one. Nothing is written.

        Raises:
          ReadError: E_MISSING for an unknown entry; nothing changes.
        """
        await self._move(lambda tree: tree.branch(entry_id))

    async def reset_leaf(self) -> None:
        """Let the next entry be a new root. Nothing is written."""
        await self._move(TraceTree.reset_leaf)

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
        """Go to an entry (None: to before all of them) and add there what was tried on the branch that is left.

        Raises:
          ReadError: E_MISSING for an unknown entry; nothing changes.
        """
        own = (entry_id, summary, copied(details), from_hook, copied(usage))
        at: Any = {"summary_id": summary_id, "timestamp_ms": timestamp_ms}
        made: str = await self._move(lambda tree: tree.branch_with_summary(*own, **at))
        return made

    async def _move(self, call: Callable[[TraceTree], Any]) -> Any:
        self._check()
        return (await self._actor.ask(MoveTree(call))).told()


def _at(entry_id: str | None, timestamp_ms: int | None) -> Any:
    return {"entry_id": entry_id, "timestamp_ms": timestamp_ms}
