"""What can be asked of a session tree (host 2.4, 2.5). Nothing here changes anything.

Whatever comes out is the caller's own: it is read from the entry's text each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ..algebra import ReadError, shown
from .context import Path, SessionContext, build_context, select_entries
from .entries import time_ms
from .files import SessionFile
from .lines import Entry, line_of, value_of
from .seams import TraceSeams
from .texts import Texts
from .tree import Tree

Node = dict[str, Any]


@attrs.define(eq=False, slots=False)
class ReadableTree:
    """A session: its header, its entries, and where the next one goes."""

    _seams: TraceSeams
    _header: Entry
    _cwd: str
    _session_dir: str
    _file: SessionFile | None
    _tree: Tree
    _texts: Texts

    def get_header(self) -> dict[str, Any]:
        """The first line of the session's file."""
        header: dict[str, Any] = value_of(line_of(self._header))
        return header

    def get_session_id(self) -> str:
        """The session's id."""
        session_id: str = self._header["id"]
        return session_id

    def get_session_file(self) -> str | None:
        """The path of the file, also before it is written; None for a session in memory."""
        return None if self._file is None else self._file.path

    def get_session_dir(self) -> str:
        """The folder for new sessions; empty for a session in memory."""
        return self._session_dir

    def get_cwd(self) -> str:
        """The working directory in force: that given at opening, else the header's."""
        return self._cwd

    def get_session_name(self) -> str | None:
        """The last name given, on whatever branch; None if there is none."""
        return self._tree.name

    def is_persisted(self) -> bool:
        """Whether the session has a file, or will have one."""
        return self._file is not None

    def get_leaf_id(self) -> str | None:
        """Where the next entry goes; None for a new root."""
        return self._tree.leaf

    def get_leaf_entry(self) -> Entry | None:
        """The entry where the next one goes."""
        return None if self._tree.leaf is None else self.get_entry(self._tree.leaf)

    def get_entry(self, entry_id: str) -> Entry | None:
        """The entry with this id, the last of several; None if there is none."""
        place = self._tree.place(entry_id)
        return None if place is None else self._entries([place])[0]

    def get_entries(self) -> list[Entry]:
        """All entries in the order of the file, as they are."""
        return list(self.iter_entries())

    def iter_entries(self) -> Iterator[Entry]:
        """All entries in the order of the file, one at a time: for sessions that are larger than memory."""
        return self._texts.entries(range(len(self._tree)), self._tree.ids)

    def get_label(self, entry_id: str) -> str | None:
        """The label in force for an entry, whoever set it on whatever branch."""
        label = self._tree.labels.get(entry_id)
        return None if label is None else label.text

    def get_children(self, parent_id: str | None) -> list[Entry]:
        """The entries that follow an entry, oldest first; for None the roots that name no parent."""
        return self._entries(self._tree.children(parent_id))

    def get_branch(self, from_id: str | None = None) -> list[Entry]:
        """The entries from the root to an entry (default: the leaf); empty for an unknown one."""
        return self._entries(self._tree.path(self._tree.leaf if from_id is None else from_id))

    def get_branch_ids(self, from_id: str | None = None) -> list[str]:
        """The ids of ``get_branch``, without reading an entry."""
        return [self._tree.ids[place] for place in self._tree.path(self._tree.leaf if from_id is None else from_id)]

    def get_branch_kinds(self, from_id: str | None = None) -> list[tuple[str, str]]:
        """Id and kind of each entry of ``get_branch``, without reading one; of messages as ``message:user``."""
        places = self._tree.path(self._tree.leaf if from_id is None else from_id)
        return [(self._tree.ids[place], self._tree.kinds[place]) for place in places]

    def get_tree(self) -> list[Node]:
        """All roots as nodes: ``entry``, ``children`` (oldest first), ``label``, ``labelTimestamp``.

        Roots stand in the order of the file. Every entry that a root leads to is in it, so all but those in a cycle
        and behind one: for a large session that takes much memory.
        """
        nodes: dict[int, Node] = {}
        times: dict[int, int] = {}
        for place, found in enumerate(self.iter_entries()):
            node = nodes[place] = {"entry": found, "children": []}
            times[place] = time_ms(found.get("timestamp")) or 0
            label = self._tree.labels.get(found["id"])
            if label is not None:
                node |= {"label": label.text, "labelTimestamp": label.timestamp}
        roots = list(self._tree.roots())
        of_root = set(roots)
        below: dict[int, list[int]] = {}
        for place, parent in enumerate(self._tree.parents):
            above = None if place in of_root or parent is None else self._tree.place(parent)
            if above is not None:
                below.setdefault(above, []).append(self._tree.meant(place))
        for above, places in below.items():
            nodes[above]["children"] = [nodes[place] for place in sorted(places, key=times.__getitem__)]
        return [nodes[self._tree.meant(place)] for place in roots]

    def build_session_context(self, leaf_id: str | None = None) -> SessionContext:
        """What a model is to see at an entry (default: the leaf): messages, level, model.

        Raises:
          ReadError: E_MISSING for an unknown entry.
        """
        return build_context(self._path(leaf_id))

    def build_context_entries(self, leaf_id: str | None = None) -> list[Entry]:
        """The entries that count there: the latest compaction, what it kept, and all that came later."""
        return select_entries(self._path(leaf_id))

    def _path(self, leaf_id: str | None) -> Path:
        if leaf_id is not None:
            self._require(leaf_id)
        tree = self._tree
        places = tree.path(tree.leaf if leaf_id is None else leaf_id)
        ids, kinds = [tree.ids[place] for place in places], [tree.kinds[place] for place in places]
        return Path(ids, kinds, lambda wanted: self._texts.entries([places[each] for each in wanted], tree.ids))

    def _entries(self, places: Sequence[int]) -> list[Entry]:
        return list(self._texts.entries(places, self._tree.ids))

    def _require(self, entry_id: str) -> int:
        """The place of an entry that must be there."""
        place = self._tree.place(entry_id)
        if place is None:
            said = entry_id if type(entry_id) is str and len(entry_id) <= 96 else shown(entry_id)
            raise ReadError("E_MISSING", f"Entry {said} not found", id=said)
        return place
