"""The tree of a store as ``doctor`` walks it: what lies where, whose it is, who may touch it (store 1.1, Ours-14)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from .algebra import StoreError
from .findings import Finding, refusal
from .layout import (
    CONFIG,
    OLD_STATE,
    PI_LOCK,
    PRIVATE_FOLDER,
    SHARED_FILES,
    Layout,
    is_session_key,
    scope_files,
)
from .ports import Disk, FileStat
from .settings import read_settings

# A program that replaces files through a sibling leaves one like this if it dies in between (store 2.2).
_TEMPORARY = re.compile(r"\..+\.[0-9]+\.[0-9a-fA-F-]+\.tmp")
_NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda davfs glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs prl_fs pvfs2 smb3 smbfs "
    "vboxsf virtiofs".split()
)
_OTHERS = frozenset({CONFIG, PI_LOCK, PRIVATE_FOLDER, ".git", ".gitignore", ".gitattributes"})


@attrs.define(eq=False)
class Tree:
    """The scope folders of a store, and what is odd about the tree."""

    scopes: list[str] = attrs.field(factory=list)
    findings: list[Finding] = attrs.field(factory=list)


def walk(disk: Disk, layout: Layout) -> Tree:
    """Look at every folder that could be of ours; what lies deeper is nobody's business here."""
    tree = Tree()
    root = disk.stat(layout.root)
    assert root is not None
    _Walker(disk, layout, tree, root.owner_uid).folder("")
    return tree


@attrs.frozen
class _Walker:
    _disk: Disk
    _layout: Layout
    _tree: Tree
    _owner_uid: int

    def folder(self, scope: str) -> None:
        """One scope's folder and the ones below it."""
        path = self._layout.folder(scope)
        try:
            names = self._disk.list(path) or []
            if any(name in scope_files(scope) for name in names):
                self._tree.scopes.append(scope)
            self._tree.findings += self._permissions(path, self._disk.stat(path))
            for name in names:
                self._tree.findings += self._entry(scope, name)
        except StoreError as error:
            self._tree.findings.append(refusal(error, path))

    def _entry(self, scope: str, name: str) -> Iterator[Finding]:
        path = self._layout.file(scope, name)
        stat = self._disk.stat(path)
        if stat is None:
            return
        if name in scope_files(scope) or (not scope and name == CONFIG):
            if stat.kind == "file":
                yield from self._permissions(path, stat)
            else:
                yield Finding("problem", "wrong-kind", path, f"is a {stat.kind} where a file should be; move it away")
        elif name == OLD_STATE:
            yield Finding("warning", "old-format", path, "an old format that blocks writing here; move it away")
        elif _TEMPORARY.fullmatch(name):
            yield Finding("warning", "temporary-left", path, "left by a program that died while writing; remove it")
        elif _is_scope_folder(scope, name) and stat.kind == "folder":
            self.folder(f"{scope}/{name}" if scope else name)
        elif _is_scope_folder(scope, name) and (not scope or stat.kind == "symlink"):
            yield Finding("problem", "wrong-kind", path, f"is a {stat.kind} where a folder should be; move it away")
        elif scope or name not in _OTHERS:
            yield Finding("note", "unknown-name", path, "is not part of a store; it is left alone")

    def _permissions(self, path: str, stat: FileStat | None) -> Iterator[Finding]:
        if stat is None:
            return
        if stat.owner_uid != self._owner_uid:
            words = f"belongs to user {stat.owner_uid}, the store to user {self._owner_uid}"
            yield Finding("warning", "other-owner", path, words)
        if stat.mode & 0o022:
            yield Finding("warning", "writable-by-others", path, f"mode {stat.mode:04o}: other users may change it")
        elif stat.mode & 0o044 and stat.kind == "file":
            yield Finding("note", "readable-by-others", path, f"mode {stat.mode:04o}: other users may read it")


def _is_scope_folder(scope: str, name: str) -> bool:
    if not scope:
        return len(name) >= 4 and name.startswith("--") and name.endswith("--")
    return "/" not in scope and name not in SHARED_FILES and is_session_key(name)


def check_ground(disk: Disk, layout: Layout) -> Iterator[Finding]:
    """The file system that holds the store: locks and shared memory must work there (Ours-1)."""
    kind = disk.file_system_type(layout.root)
    if kind in _NETWORK or kind.startswith("fuse"):
        words = f"lies on {kind}: locks may not hold there and acknowledged data can be lost; use a local disk"
        yield Finding("warning", "file-system", layout.root, words)
    else:
        yield Finding("ok", "file-system", layout.root, f"lies on {kind or 'a file system of unknown type'}")


def check_settings(disk: Disk, layout: Layout) -> Iterator[Finding]:
    """The operator's ``config.json``."""
    read_settings(disk, layout.config)
    yield Finding("ok", "settings", layout.config, "can be used, or is missing and the defaults hold")
