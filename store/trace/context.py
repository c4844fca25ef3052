"""What a model is to see of a session: the entries that count, their messages, level and model (host 2.5). Pure.

A ``Path`` is the way from a root to a leaf: kinds and ids of all its entries are at hand, the entries themselves are
fetched, so that what a compaction has put away is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import attrs

from .entries import ABSENT, kind_of, time_ms
from .lines import Entry
from .tree import Tree

LEVEL_DEFAULT = "off"
_UNSET: Any = ABSENT


@final
@attrs.frozen
class Path:
    """The entries from a root to a leaf. ``fetch`` gives those at some positions, in that order."""

    ids: Sequence[str]
    kinds: Sequence[str]
    fetch: Callable[[Sequence[int]], Iterable[Entry]]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Path:
        """A path whose entries are all at hand."""
        ids = [str(found.get("id")) for found in entries]
        return cls(ids, [kind_of(found) for found in entries], lambda wanted: [entries[each] for each in wanted])


@final
@attrs.frozen
class SessionContext:
    """What a model is to see: ``messages``, the ``thinking_level`` and the ``model`` as provider and modelId."""

    messages: list[dict[str, Any]]
    thinking_level: str = LEVEL_DEFAULT
    model: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The same in the spelling of the data formats."""
        return {"messages": self.messages, "thinkingLevel": self.thinking_level, "model": self.model}


def build_context(path: Path) -> SessionContext:
    """Messages, level and model for the end of a path. Nothing is replayed (2.5.10)."""
    wanted, own_summary = _selected(path)
    messages = []
    for position, found in zip(wanted, path.fetch(wanted), strict=True):
        # An older compaction in the kept part says nothing: the latest has summed it up (2.5.7).
        message = message_of(found) if found["type"] != "compaction" or position == own_summary else None
        if message is not None:
            messages.append(message)
    return SessionContext(messages, _level(path), _model(path))


def select_entries(path: Path) -> list[Entry]:
    """The entries that count: the latest compaction, what it kept, all that came later (2.5.9)."""
    return list(path.fetch(_selected(path)[0]))


def build_session_context(entries: Sequence[Entry], leaf_id: str | Any | None = _UNSET) -> SessionContext:
    """The context of a leaf among plain entries. None is the empty context; not given or unknown: the last entry."""
    return build_context(path_in(entries, leaf_id))


def build_context_entries(entries: Sequence[Entry], leaf_id: str | Any | None = _UNSET) -> list[Entry]:
    """The entries of that context. See ``build_session_context``."""
    return select_entries(path_in(entries, leaf_id))


def path_in(entries: Sequence[Entry], leaf_id: str | Any | None) -> Path:
    """The way to a leaf among plain entries, as the two functions above take it."""
    if leaf_id is None or not entries:
        return Path.of(())
    tree = Tree()
    for found in entries:
        tree.add(found)
    known = type(leaf_id) is str and tree.place(leaf_id) is not None
    return Path.of([entries[place] for place in tree.path(leaf_id if known else tree.last)])


def message_of(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message an entry stands for in a context; None for one that says nothing (2.5.4)."""
    match found["type"]:
        case "message":
            message = found.get("message")
            return message if type(message) is dict else None
        case "custom_message":
            own = ("customType", "content", "display", "details")
            return _made("custom", found, own)
        case "branch_summary" if found.get("summary"):
            return _made("branchSummary", found, ("summary", "fromId"))
        case "compaction":
            return _made("compactionSummary", found, ("summary", "tokensBefore"))
    return None


def _made(role: str, found: Mapping[str, Any], own: tuple[str, ...]) -> dict[str, Any]:
    members = {name: found[name] for name in own if name in found}
    return {"role": role, **members, "timestamp": time_ms(found.get("timestamp"))}


def _selected(path: Path) -> tuple[list[int], int | None]:
    """The positions that count, and that of the compaction whose summary is told."""
    latest = next(_last_of(path, lambda kind: kind == "compaction"), None)
    if latest is None:
        return list(range(len(path.ids))), None
    (compaction,) = path.fetch((latest,))
    first = compaction.get("firstKeptEntryId")
    kept = next((position for position in range(latest) if path.ids[position] == first), latest)
    return [latest, *range(kept, latest), *range(latest + 1, len(path.ids))], latest


def _last_of(path: Path, fits: Callable[[str], bool]) -> Iterator[int]:
    return (position for position in range(len(path.kinds) - 1, -1, -1) if fits(path.kinds[position]))


def _level(path: Path) -> str:
    for position in _last_of(path, lambda kind: kind == "thinking_level_change"):
        (found,) = path.fetch((position,))
        if type(level := found.get("thinkingLevel")) is str:
            return level
    return LEVEL_DEFAULT


def _model(path: Path) -> dict[str, Any] | None:
    for position in _last_of(path, lambda kind: kind in ("model_change", "message:assistant")):
        (found,) = path.fetch((position,))
        of_change = found["type"] == "model_change"
        source = found if of_change else found["message"]
        provider, model_id = source.get("provider"), source.get("modelId" if of_change else "model")
        if type(provider) is str and type(model_id) is str:
            return {"provider": provider, "modelId": model_id}
    return None
