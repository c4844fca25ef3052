"""The session tree: appending and branching (host 2.3, 2.6). ``growing_tree`` keeps it in step with its file."""

from __future__ import annotations

from copy import copy
from typing import Any

import attrs

from ..algebra import CallError, shown
from .branching import branched_path, linear_path
from .entries import ABSENT, as_current, iso_time
from .files import write_whole
from .growing_tree import GrowingTree, with_head
from .lines import line_of


@attrs.define(eq=False, slots=False)
class TraceTree(GrowingTree):
    """A session tree over given seams. Not for several threads at once. Its calls block for as long as a disk takes."""

    # -- appending: each returns the id of the new entry, which becomes the leaf -------------------------------------

    def append_message(
        self, message: dict[str, Any], *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add a message: an object with a ``role``."""
        if type(message) is not dict or type(message.get("role")) is not str:
            raise CallError("E_SHAPE", f"a message is an object with a role, not {shown(message)}")
        return self._append("message", {"message": message}, entry_id, timestamp_ms)

    def append_thinking_level_change(
        self, level: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add a change of the thinking level. Its name is not checked."""
        return self._append("thinking_level_change", {"thinkingLevel": level}, entry_id, timestamp_ms)

    def append_model_change(
        self, provider: str, model_id: str, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add a change of the model."""
        return self._append("model_change", {"provider": provider, "modelId": model_id}, entry_id, timestamp_ms)

    def append_compaction(
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
        """Add a compaction: ``summary`` takes the place of all before the first kept entry; None is left out."""
        own = {"summary": summary, "firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        return self._append("compaction", own | _given(details, from_hook, usage), entry_id, timestamp_ms)

    def append_custom_entry(
        self, custom_type: str, data: Any = ABSENT, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Add an entry that no model sees. Without ``data`` it has none; None is stored as null."""
        return self._append("custom", {"customType": custom_type, "data": data}, entry_id, timestamp_ms)

    def append_custom_message_entry(
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
        own = {"customType": custom_type, "content": content, "display": display}
        return self._append("custom_message", own | _given(details), entry_id, timestamp_ms)

    def append_session_info(self, name: str, *, entry_id: str | None = None, timestamp_ms: int | None = None) -> str:
        """Name the session; line breaks become blanks, an empty name takes it away."""
        words = " ".join(name.replace("\r\n", "\n").replace("\r", "\n").split("\n")).strip()
        return self._append("session_info", {"name": words}, entry_id, timestamp_ms)

    def append_label_change(
        self, target_id: str, label: str | None = None, *, entry_id: str | None = None, timestamp_ms: int | None = None
    ) -> str:
        """Set the label of an entry; None or an empty one takes it away.

        Raises:
          ReadError: E_MISSING for an unknown target; nothing is added.
        """
        self._require(target_id)
        own = {"targetId": target_id, "label": ABSENT if label is None else label}
        return self._append("label", own, entry_id, timestamp_ms)

    # -- branching ---------------------------------------------------------------------------------------------------

    def branch(self, entry_id: str) -> None:
        """Let the next entry follow this one. Nothing is written: it counts once something was appended.

        Raises:
          ReadError: E_MISSING for an unknown entry; the leaf stays.
        """
        self._require(entry_id)
        self._tree.leaf = entry_id

    def reset_leaf(self) -> None:
        """Let the next entry be a new root."""
        self._tree.leaf = None

    def branch_with_summary(
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
        if entry_id is not None:
            self._require(entry_id)
        left = self._tree.leaf
        own = {"fromId": "root" if left is None else left, "summary": summary} | _given(details, from_hook, usage)
        self._tree.leaf = entry_id
        try:
            return self._append("branch_summary", own, summary_id, timestamp_ms, stays=True)
        except BaseException:
            self._tree.leaf = left
            raise

    def create_branched_session(
        self,
        leaf_id: str,
        *,
        session_id: str | None = None,
        timestamp_ms: int | None = None,
        is_deferred: bool = False,
    ) -> str | None:
        """Become a new session that holds only the path to an entry, with the labels in force there.

        The old file stays as it is. The new one is written now if the path holds a message that would have had it
        written, else later. ``is_deferred``: never now.

        Returns:
          The path of the new file; None in memory.

        Raises:
          ReadError: E_MISSING for an unknown entry; as in every other failure, this stays the session that it was.
        """
        self._require(leaf_id)
        old, now = self.get_session_file(), self._seams.now_ms() if timestamp_ms is None else timestamp_ms
        copied = branched_path(self._tree, self._texts, leaf_id, iso_time(now), self._fresh_id)
        other = copy(self)  # this one must stay whole if the disk refuses the new file
        other._begin(session_id, old, now)
        other._fill(copied, is_deferred=is_deferred)
        self.become(other)
        return self.get_session_file()

    def new_session(
        self, session_id: str | None = None, parent_session: str | None = None, *, timestamp_ms: int | None = None
    ) -> str | None:
        """Drop what is held and begin a session in the same folder; returns its path."""
        self._begin(session_id, parent_session, self._seams.now_ms() if timestamp_ms is None else timestamp_ms)
        return self.get_session_file()

    def export_branch(self, path: str, from_id: str | None = None, *, timestamp_ms: int | None = None) -> int:
        """Write the path to an entry (default: the leaf) as a session of one chain; how many entries.

        Raises:
          ReadError: E_MISSING for an unknown entry.
          StoreError: E_CHANGED if something has this name.
        """
        if from_id is not None:
            self._require(from_id)
        places = self._tree.path(self._tree.leaf if from_id is None else from_id)
        now = self._seams.now_ms() if timestamp_ms is None else timestamp_ms
        head = line_of({**as_current(self._header), "timestamp": iso_time(now)})
        lines = linear_path(self._tree, self._texts, places)
        write_whole(self._seams, path, with_head(head, lines), is_synced=self._durability == "power")
        return len(places)


def _given(details: Any, from_hook: bool | None = None, usage: Any = None) -> dict[str, Any]:
    """Optional members, in the order in which they are written."""
    members = {"details": details, "fromHook": from_hook, "usage": usage}
    return {name: value for name, value in members.items() if value is not None}
