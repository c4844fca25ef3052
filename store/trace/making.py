"""How session trees come to be: begun, opened from a file, forked, continued (host 1.8, 1.9, 2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, final

import attrs

from ..algebra import StoreError
from ..disk_paths import named
from ..rows import Durability
from .entries import file_name, header, iso_time, session_uuid
from .files import SessionFile, make_folders, write_whole
from .growing_tree import FirstWrite
from .lines import Entry, line_of
from .migration import migrated, needs_migration
from .naming import check_id
from .reading import HEADER_BYTES_MAX, entry_lines, file_at, head_at, objects_of, read_head, short_ids
from .seams import Tell, TraceSeams, tell_nobody
from .session_tree import TraceTree
from .texts import Texts
from .tree import Tree

T = TypeVar("T", bound=TraceTree)
_MIGRATIONS_MAX = 5


@final
@attrs.frozen
class TreeOptions:
    """How a tree behaves.

    Attributes:
      durability: whether an append is synced before it returns ("power"), or only survives the process ("process").
      first_write: the role of the message that makes a new session a file; an assistant's always does.
      tell: called with the kind and the data of each event, such as ``foreign_entries``.
    """

    durability: Durability = "power"
    first_write: FirstWrite = "assistant"
    tell: Tell = tell_nobody


def begin_tree(
    kind: type[T],
    seams: TraceSeams,
    cwd: str,
    session_dir: str,
    options: TreeOptions,
    *,
    path: str | None = None,
    session_id: str | None = None,
    parent_session: str | None = None,
    timestamp_ms: int | None = None,
) -> T:
    """An empty session that gets a file in ``session_dir``, or at ``path``. Without either it stays in memory."""
    head, default = _new_head(seams, cwd, session_dir, session_id, parent_session, timestamp_ms)
    if not session_dir:
        return _tree(kind, seams, head, cwd, "", None, options)
    make_folders(seams, session_dir)
    file = SessionFile(default if path is None else path, seams, options.durability, options.tell)
    return _tree(kind, seams, head, cwd, session_dir, file, options)


def open_tree(
    kind: type[T],
    seams: TraceSeams,
    path: str,
    options: TreeOptions,
    *,
    default_cwd: str,
    session_dir: str | None = None,
    cwd: str | None = None,
    session_id: str | None = None,
    is_read_only: bool = False,
) -> T:
    """The session in a file. A path that does not exist, and an empty file, is a new session bound to that path, with
    ``session_id`` if one is given.

    A file of an older version is replaced by what it is in version 3, unless ``is_read_only``.

    Raises:
      StoreError: E_CORRUPT for a file with content and no header, which stays as it is; E_DISK.
    """
    folder = session_dir if session_dir is not None else path.rpartition("/")[0] or "/"
    file = SessionFile(path, seams, options.durability, options.tell)
    found = file.look()
    if not is_read_only and (found is None or not found.size_bytes):
        tree = begin_tree(kind, seams, cwd or default_cwd, folder, options, path=path, session_id=session_id)
        if found is not None:
            tree.write_header()
        return tree
    head = head_at(seams, path)
    for _ in range(_MIGRATIONS_MAX):
        if is_read_only or not needs_migration(head):
            break
        _migrate(seams, file)
        head = head_at(seams, path)
    told = head.get("cwd")
    tree = _tree(kind, seams, head, cwd or (told if type(told) is str and told else default_cwd), folder, file, options)
    tree.load(is_read_only)
    return tree


def fork_tree(
    kind: type[T],
    seams: TraceSeams,
    source: str,
    target_cwd: str,
    session_dir: str,
    options: TreeOptions,
    *,
    named_source: str | None = None,
    session_id: str | None = None,
    timestamp_ms: int | None = None,
) -> T:
    """A new session, written at once, with all entries of the source as they are there.

    Args:
      named_source: how the new header names the source; None: by its path.

    Raises:
      StoreError: E_CORRUPT, beginning with ``Cannot fork:``, if the source is missing or no session; E_DISK.
    """
    named_source = source if named_source is None else named_source
    try:
        head_at(seams, source)
    except StoreError as error:
        if error.code != "E_CORRUPT":
            raise
        text = f"Cannot fork: source session file is empty or invalid: {named_source}"
        raise StoreError("E_CORRUPT", text, path=source) from error
    head, path = _new_head(seams, target_cwd, session_dir, session_id, named_source, timestamp_ms)
    copy_session(seams, source, path, head, options.durability)
    return open_tree(kind, seams, path, options, default_cwd=target_cwd, session_dir=session_dir)


def copy_session(seams: TraceSeams, source: str, path: str, head: Entry, durability: Durability) -> None:
    """Write the entries of a session behind another header.

    Raises:
      StoreError: E_CHANGED if something has this name; E_CORRUPT; E_DISK.
    """

    def lines() -> Iterator[bytes]:
        yield line_of(head)
        yield from entry_lines(seams, source, short_ids(seams.new_id))

    write_whole(seams, path, lines(), is_synced=durability == "power")


def newest_file(seams: TraceSeams, folder: str) -> str | None:
    """The session file of a folder that was changed last; None if there is none (2.1.3)."""
    dated = []
    for name in seams.disk.list(folder) or ():
        stat = seams.disk.stat(f"{folder}/{name}") if name.endswith(".jsonl") else None
        if stat is not None and stat.kind == "file":
            dated.append((stat.mtime_ns, f"{folder}/{name}", stat.size_bytes))
    for _, path, size in sorted(dated, reverse=True):
        try:
            read_head(seams, path, min(size, HEADER_BYTES_MAX))
        except StoreError as error:
            if error.code != "E_CORRUPT":
                raise
        else:
            return path
    return None


def _new_head(
    seams: TraceSeams, cwd: str, folder: str, session_id: str | None, parent: str | None, timestamp_ms: int | None
) -> tuple[Entry, str]:
    """The header of a new session and the path of its file."""
    now = seams.now_ms() if timestamp_ms is None else timestamp_ms
    chosen = session_uuid(now, seams.new_id()) if session_id is None else check_id(session_id)
    return header(chosen, iso_time(now), cwd, parent), f"{folder.rstrip('/')}/{file_name(iso_time(now), chosen)}"


def _tree(
    kind: type[T],
    seams: TraceSeams,
    head: Entry,
    cwd: str,
    folder: str,
    file: SessionFile | None,
    options: TreeOptions,
) -> T:
    rest = options.durability, options.first_write, options.tell
    return kind(seams, head, cwd, folder, file, Tree(), Texts(file), *rest)


def _migrate(seams: TraceSeams, file: SessionFile) -> None:
    """Replace a file of an older version, at once or not at all. Somebody else may have done so meanwhile."""
    try:
        with file.locked():
            found = file_at(seams, file.path)
            lines = migrated(objects_of(seams, file.path, found.size_bytes), short_ids(seams.new_id))
            write_whole(seams, file.path, map(line_of, lines), is_synced=True, replaced=found)
    except StoreError as error:
        if error.code != "E_CHANGED":
            raise
    if file.look() is None:
        raise StoreError("E_CHANGED", f"{named(file.path)} is gone; open another session", path=file.path)
