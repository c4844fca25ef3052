"""The shape of a session: who follows whom, labels, the name, the leaf. Pure; it holds no entry's text.

Entries are known by their place in the file, 0 for the first. Of each only id, parent and kind are kept, so that a
file of any size can be opened; whoever needs an entry asks for its text by its place.

  S1  Of several entries with one id the last is meant by that id; all stay in the list (1.8.6).
  S2  Every walk to the root ends: at a root, at a parent that nobody has, or at an id that it has seen (1.8.9).
  S3  No walk recurses: a session may be a chain of a hundred thousand entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import attrs

from .entries import kind_of, parent_of
from .lines import Entry


@final
@attrs.frozen
class Label:
    """The label in force for an entry. ``timestamp``: when it was set."""

    text: str
    timestamp: str


@final
@attrs.define(eq=False)
class Tree:
    """Entries in the order of their file.

    Attributes:
      ids, parents, kinds: by place.
      leaf: where the next entry goes: the id of an entry, or None for a new root.
      labels: by the id of their target, all branches together (2.3.4).
      name: what the session is called; None if nothing (2.4.7).
    """

    ids: list[str] = attrs.field(factory=list)
    parents: list[str | None] = attrs.field(factory=list)
    kinds: list[str] = attrs.field(factory=list)
    leaf: str | None = None
    labels: dict[str, Label] = attrs.field(factory=dict)
    name: str | None = None
    _places: dict[str, int] = attrs.field(factory=dict)
    _kinds_known: dict[str, str] = attrs.field(factory=dict)
    _children: dict[str | None, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, found: Entry) -> None:
        """Take an entry in as the last of the list. The leaf stays where it is."""
        parent = parent_of(found)
        if parent is not None and (known := self._places.get(parent)) is not None:
            parent = self.ids[known]  # one string for both
        kind = kind_of(found)
        place, entry_id = len(self.ids), found["id"]
        self.ids.append(entry_id)
        self.parents.append(parent)
        self.kinds.append(self._kinds_known.setdefault(kind, kind))
        self._places[entry_id] = place
        if self._children is not None:
            self._children.setdefault(parent, []).append(place)
        if kind == "label":
            self._note_label(found)
        elif kind == "session_info":
            name = found.get("name")
            self.name = (name.strip() if type(name) is str else "") or None

    def _note_label(self, found: Entry) -> None:
        target, text, timestamp = found.get("targetId"), found.get("label"), found.get("timestamp")
        if type(target) is not str:
            return
        if type(text) is str and text:
            self.labels[target] = Label(text, timestamp if type(timestamp) is str else "")
        else:
            self.labels.pop(target, None)

    @property
    def last(self) -> str | None:
        """The id of the last entry; None without entries."""
        return self.ids[-1] if self.ids else None

    def place(self, entry_id: object) -> int | None:
        """Where the entry with this id is (S1); None for whatever is no id of one."""
        return self._places.get(entry_id) if type(entry_id) is str else None

    def meant(self, place: int) -> int:
        """The place of the entry that the id of this one means (S1)."""
        return self._places[self.ids[place]]

    def path(self, entry_id: str | None) -> list[int]:
        """The places from the root to the entry; empty for None and an unknown id (S2)."""
        found: list[int] = []
        seen: set[int] = set()
        current = entry_id
        while current is not None and (place := self._places.get(current)) is not None and place not in seen:
            seen.add(place)
            found.append(place)
            current = self.parents[place]
        found.reverse()
        return found

    def is_above(self, entry_id: str | None, below: str | None) -> bool:
        """Whether the way from the root to ``below`` leads by this entry; None, the place before all, is on each."""
        return entry_id is None or entry_id == below or self._places.get(entry_id) in self.path(below)

    def children(self, parent: str | None) -> list[int]:
        """The places of the entries that name this parent, in the order of the file."""
        if self._children is None:
            children: dict[str | None, list[int]] = {}
            for place, each in enumerate(self.parents):
                children.setdefault(each, []).append(place)
            self._children = children
        return [place for place in self._children.get(parent, ()) if self.meant(place) == place]

    def roots(self) -> Iterator[int]:
        """The places of all roots: no parent, itself as parent, or one that nobody has (2.4.6)."""
        for place, parent in enumerate(self.parents):
            if parent is None or parent == self.ids[place] or parent not in self._places:
                yield place
