"""A session tree as lines for a person: where it forks, what each entry says, where the leaf is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

import attrs

from ..store.trace import TraceTree, parent_of, text_of

OUTLINE_CHARS: Final = 80
_SAID_BY = {
    "thinking_level_change": ("thinkingLevel",),
    "model_change": ("provider", "modelId"),
    "compaction": ("summary",),
    "branch_summary": ("summary",),
    "custom": ("customType",),
    "label": ("targetId", "label"),
    "session_info": ("name",),
}


@final
@attrs.frozen
class OutlineRow:
    """An entry in the drawing of a tree.

    Attributes:
      depth: how many times its way has branched off.
      text: the beginning of what it says.
      is_on_branch: whether it is between the root and the leaf.
    """

    id: str
    kind: str
    depth: int
    text: str
    label: str | None
    is_on_branch: bool
    is_leaf: bool


def outline(tree: TraceTree) -> Iterator[OutlineRow]:
    """All entries from the roots down; at a fork each way is one step deeper, the oldest first."""
    rows: dict[str, tuple[str, str]] = {}
    parents: dict[str, str | None] = {}
    for entry in tree.iter_entries():
        rows[entry["id"]] = described(entry)
        parents[entry["id"]] = parent_of(entry)
    below: dict[str, list[str]] = {}
    roots = []
    for entry_id, parent in parents.items():
        if parent is None or parent == entry_id or parent not in parents:
            roots.append(entry_id)
        else:
            below.setdefault(parent, []).append(entry_id)
    on_branch, leaf = set(tree.get_branch_ids()), tree.get_leaf_id()
    # Entries that no root leads to are in a cycle or behind one: the first of each comes where it stands.
    waiting = [(each, 0) for each in [*reversed(parents), *reversed(roots)]]
    seen: set[str] = set()
    while waiting:
        entry_id, depth = waiting.pop()
        if entry_id in seen:
            continue
        seen.add(entry_id)
        kind, text = rows[entry_id]
        label = tree.get_label(entry_id)
        yield OutlineRow(entry_id, kind, depth, text, label, entry_id in on_branch, entry_id == leaf)
        following = below.get(entry_id, [])
        waiting += [(each, depth + (len(following) > 1)) for each in reversed(following)]


def described(entry: dict[str, Any]) -> tuple[str, str]:
    """What an entry is and the beginning of what it says, on one line."""
    kind: str = entry["type"]
    if kind == "message" or kind == "custom_message":
        message = entry.get("message") if kind == "message" else entry
        if type(message) is not dict:
            return kind, ""
        blocks = message.get("content")
        known = [block for block in blocks if type(block) is dict] if type(blocks) is list else []
        calls = [block for block in known if block.get("type") == "toolCall"]
        words = [text_of(message) or str(message.get("command", "")), *(f"[{call.get('name')}]" for call in calls)]
        return str(message.get("role", kind)), _cut(" ".join(words))
    return kind, _cut(" ".join(str(entry[name]) for name in _SAID_BY.get(kind, ()) if name in entry))


def _cut(text: str) -> str:
    line = " ".join(text[: OUTLINE_CHARS * 4].split())
    return line if len(line) <= OUTLINE_CHARS else line[: OUTLINE_CHARS - 1] + "…"
