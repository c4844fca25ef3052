"""Files of versions 1 and 2 as version 3 (host 1.9). Pure: lines go in and come out, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .entries import VERSION, as_current, is_header, kind_of, needs_ids, version_of
from .lines import Entry


def needs_migration(head: Entry) -> bool:
    """Whether a file with this header is of an older version."""
    return version_of(head) < VERSION


def migrated(lines: Iterable[Entry], new_id: Callable[[], str]) -> Iterator[Entry]:
    """The lines of a file, its header first, as version 3. Current ones come back as they are.

    Args:
      lines: whatever is an object with a type; further headers are left out.
      new_id: gives ids that no line has.
    """
    source = iter(lines)
    head = next(source)
    version = version_of(head)
    yield as_current(head)
    ids: list[str | None] = [None]  # by the number of the line; the header has none
    parent: str | None = None
    for found in source:
        if is_header(found):
            ids.append(None)
            continue
        if needs_ids(head):
            found = {**found, "id": new_id(), "parentId": parent}
            parent = found["id"]
            _replace_index(found, ids)
        if version < VERSION and kind_of(found) == "message:hookMessage":
            found = {**found, "message": {**found["message"], "role": "custom"}}
        ids.append(found.get("id"))
        yield found


def _replace_index(found: Entry, ids: list[str | None]) -> None:
    """A compaction names what it kept by an id (1.9.2). What names the header or nothing keeps nothing."""
    if found["type"] == "compaction" and "firstKeptEntryIndex" in found:
        index = found.pop("firstKeptEntryIndex")
        kept = ids[index] if type(index) is int and 0 < index < len(ids) else None
        if kept is not None:
            found["firstKeptEntryId"] = kept
