"""From the tree of a commit to the next one: what changes, which trees must be written, what the index is told.

Everything is bytes as Git prints and reads them with ``-z``, so that no name is a pattern and none needs quoting.
Object ids of trees are computed here, which lets one ``mktree`` write them all: a tree may name another one that stands
before it in the same list. What Git answers must be the ids that were computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final, final

import attrs

FILE_MODE: Final = "100644"
_TREE_MODE = "040000"
_FILE_MODES = frozenset({FILE_MODE, "100755"})


@final
@attrs.frozen
class Entry:
    """One line of a tree: a file, a folder, a link or a commit of another repository."""

    mode: str
    kind: str
    oid: str


# By path relative to the top, folders too.
Listing = Mapping[str, Entry]


def parse_listing(data: bytes) -> dict[str, Entry]:
    """What ``git ls-tree -r -t -z`` printed."""
    found = {}
    for line in data.split(b"\0"):
        if line:
            facts, _, path = line.partition(b"\t")
            mode, kind, oid = facts.decode("ascii").split()
            found[path.decode("utf-8", "surrogateescape")] = Entry(mode, kind, oid)
    return found


def changed_files(listing: Listing, files: Mapping[str, str | None]) -> dict[str, Entry | None]:
    """Of ``files``, object id by path or None for a file that is gone, those that the tree has otherwise."""
    found: dict[str, Entry | None] = {}
    for path, oid in files.items():
        old = listing.get(path)
        if oid is None:
            if old is not None and old.kind != "tree":
                found[path] = None
        elif old is None or old.oid != oid or old.mode not in _FILE_MODES:
            mode = old.mode if old is not None and old.mode in _FILE_MODES else FILE_MODE
            found[path] = Entry(mode, "blob", oid)
    return found


@final
@attrs.frozen
class NewTrees:
    """The trees of the next commit: ``text`` for ``mktree``, ``oids`` it must answer, the last one being the root."""

    text: bytes
    oids: tuple[str, ...]


def new_trees(listing: Listing, changes: Mapping[str, Entry | None], *, oid_chars: int) -> NewTrees:
    """The trees that differ once ``changes`` are made. A folder that becomes empty is left out."""
    folders: dict[str, dict[str, Entry]] = {}
    for path, entry in listing.items():
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, {})[name] = entry
    touched = {""}
    for path, new in changes.items():
        folder, _, name = path.rpartition("/")
        _put(folders, folder, name, new)
        while folder:
            touched.add(folder)
            folder = folder.rpartition("/")[0]
    texts: list[bytes] = []
    oids: list[str] = []
    # The deepest first: a folder is named by the id that its content gives it.
    for folder in sorted(touched, key=lambda folder: (-folder.count("/") - bool(folder), folder)):
        entries = folders.get(folder, {})
        parent, _, name = folder.rpartition("/")
        if folder and folders[parent][name].kind != "tree":
            continue  # a file stands there now
        if not entries and folder:
            _put(folders, parent, name, None)
            continue
        oid = _tree_oid(entries, oid_chars)
        if folder:
            _put(folders, parent, name, Entry(_TREE_MODE, "tree", oid))
        texts.append(b"".join(_lines(entries)) + b"\0")
        oids.append(oid)
    return NewTrees(b"".join(texts), tuple(oids))


def index_lines(changes: Mapping[str, Entry | None], *, oid_chars: int) -> bytes:
    """For ``git update-index -z --index-info``: these paths, and no others."""
    lines = []
    for path, entry in changes.items():
        mode, oid = ("0", "0" * oid_chars) if entry is None else (entry.mode, entry.oid)
        lines.append(f"{mode} {oid}\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0")
    return b"".join(lines)


def quoted_path(path: str) -> bytes:
    """A path as a line for a command that knows no ``-z``."""
    data = path.encode("utf-8", "surrogateescape")
    if all(byte > 31 and byte not in (0x22, 0x5C, 0x7F) for byte in data):
        return data
    plain = "".join(chr(byte) if 31 < byte < 127 and byte not in (0x22, 0x5C) else f"\\{byte:03o}" for byte in data)
    return f'"{plain}"'.encode()


def _put(folders: dict[str, dict[str, Entry]], folder: str, name: str, entry: Entry | None) -> None:
    if entry is None:
        folders.get(folder, {}).pop(name, None)
        return
    folders.setdefault(folder, {})[name] = entry
    parent, _, own = folder.rpartition("/")
    beside = folders.get(parent, {})
    if folder and (own not in beside or beside[own].kind != "tree"):
        _put(folders, parent, own, Entry(_TREE_MODE, "tree", ""))  # it is new, or a file stood in its place


def _lines(entries: Mapping[str, Entry]) -> Iterator[bytes]:
    for name, entry in entries.items():
        head = f"{entry.mode} {entry.kind} {entry.oid}\t".encode()
        yield head + name.encode("utf-8", "surrogateescape") + b"\0"


def _tree_oid(entries: Mapping[str, Entry], oid_chars: int) -> str:
    named = [(name.encode("utf-8", "surrogateescape"), entry) for name, entry in entries.items()]
    # Git sorts a folder as if its name ended with a slash.
    named.sort(key=lambda item: item[0] + b"/" if item[1].kind == "tree" else item[0])
    body = b"".join(
        entry.mode.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(entry.oid) for name, entry in named
    )
    digest = hashlib.sha1 if oid_chars == 40 else hashlib.sha256
    return digest(b"tree %d\0" % len(body) + body).hexdigest()
