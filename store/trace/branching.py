"""A path of a session as lines of another session (host 2.6.4 to 2.6.7). Pure: texts come in and lines go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .entries import entry
from .lines import BLANK, line_of, value_of
from .texts import Texts
from .tree import Tree


def branched_path(tree: Tree, texts: Texts, leaf_id: str, timestamp: str, new_id: Callable[[], str]) -> list[bytes]:
    """The path to a leaf without its label entries, then an entry for every label in force on it.

    What followed a label entry follows what stood before it; a compaction that kept from a label entry on keeps from
    the next entry on.

    Args:
      timestamp: for a label that does not know when it was set.
    """
    path = tree.path(leaf_id)
    kept = [place for place in path if tree.kinds[place] != "label"]
    lines = list(_chained(tree, texts, kept, _next_kept(tree, path)))
    parent = tree.ids[kept[-1]] if kept else None
    used: set[str] = set()
    for place in kept:
        target = tree.ids[place]
        if (label := tree.labels.get(target)) is not None:
            while (drawn := new_id()) in used:
                pass
            used.add(drawn)
            own = {"targetId": target, "label": label.text}
            lines.append(line_of(entry("label", drawn, parent, label.timestamp or timestamp, **own)))
            parent = drawn
    return lines


def linear_path(tree: Tree, texts: Texts, places: Sequence[int]) -> Iterator[bytes]:
    """The entries at these places as one chain."""
    return _chained(tree, texts, places, {})


def _next_kept(tree: Tree, path: Sequence[int]) -> dict[str, str]:
    """For each label entry of a path the entry that comes next and is none."""
    found: dict[str, str] = {}
    following: str | None = None
    for place in reversed(path):
        if tree.kinds[place] != "label":
            following = tree.ids[place]
        elif following is not None:
            found[tree.ids[place]] = following
    return found


def _chained(tree: Tree, texts: Texts, places: Sequence[int], moved: dict[str, str]) -> Iterator[bytes]:
    parent: str | None = None
    for place, line in zip(places, texts.lines(places), strict=True):
        changes: dict[str, Any] = {}
        if tree.parents[place] != parent:
            changes["parentId"] = parent
        if tree.kinds[place] == "compaction" and moved:
            first = value_of(line).get("firstKeptEntryId")
            if first in moved:
                changes["firstKeptEntryId"] = moved[first]
        # An entry that stays as it was keeps its very bytes.
        yield line_of({**value_of(line), **changes}) if changes else line.strip(BLANK)
        parent = tree.ids[place]
