"""The Git repository around a store, as far as its own small files tell (store 5.2.1, 5.2.4)."""

from __future__ import annotations

import posixpath

import attrs

from ..algebra import BackupError
from ..backup import Head, branch_of, is_plain, oid_of, packed_oid_of
from ..layout import Layout
from ..ports import Disk


@attrs.frozen
class Repository:
    """Where Git keeps what belongs to a store.

    Attributes:
      git_dir: the folder of this work tree.
      common_dir: the folder that all work trees of the repository share; the repository's one true name.
      is_asked: Git must be asked where head and branch are: they are kept in a way that is not read here.
    """

    git_dir: str
    common_dir: str
    is_asked: bool = False


def has_repository(disk: Disk, layout: Layout) -> bool:
    """Whether the store's own folder has a ``.git``.

    Raises:
      BackupError: E_REPOSITORY if it is a symlink.
    """
    path = layout.file("", ".git")
    stat = disk.stat(path)
    if stat is None:
        return False
    if stat.kind not in ("folder", "file"):
        text = f"{path}: is a {stat.kind}; a store is backed up only into a repository of its own folder"
        raise BackupError("E_REPOSITORY", text, path=path)
    return True


def plain_repository(disk: Disk, layout: Layout) -> Repository | None:
    """The repository, if everything about it is as ``git init`` makes it; None: ask Git."""
    path = layout.file("", ".git")
    stat = disk.stat(path)
    if stat is None or stat.kind != "folder":
        return None
    if disk.stat(posixpath.join(path, "commondir")) is not None:
        return None
    config = disk.read(posixpath.join(path, "config"))
    return Repository(path, path) if config is not None and is_plain(config) else None


def read_head(disk: Disk, repository: Repository) -> Head | None:
    """Which branch is checked out, and its commit, at this moment. Blocking, and quick. None: only Git can tell, since
    the branch is another name of another one, or its file is damaged.

    Raises:
      BackupError: E_REPOSITORY for a detached head.
      StoreError: a file of the repository can not be read.
    """
    data = disk.read(posixpath.join(repository.git_dir, "HEAD"))
    branch = None if data is None else branch_of(data)
    if branch is None:
        raise detached(repository.git_dir)
    path = posixpath.join(repository.common_dir, branch)
    stat = disk.stat(path)
    # Branches that went have left empty folders, one of which may have this name.
    found = None if stat is not None and stat.kind == "folder" else disk.read(path)
    if found is not None:
        oid = oid_of(found)
        return None if oid is None else Head(branch, oid)
    packed = disk.read(posixpath.join(repository.common_dir, "packed-refs"))
    return Head(branch, None if packed is None else packed_oid_of(packed, branch))


def detached(path: str) -> BackupError:
    """Why nothing can be committed while no branch is checked out."""
    text = f"{path}: no branch is checked out, so that a backup would have no place: check one out"
    return BackupError("E_REPOSITORY", text, path=path)
