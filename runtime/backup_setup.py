"""Making a store a repository that is safe, and listing its backups: what needs no runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import final

import attrs

from ..actors import Git
from ..store import BackupError, ConfigError, FlockLocks, Ground, Layout, RealDisk, RealProcessTable
from ..store.backup import (
    TRAILER,
    Config,
    parse_config,
    redactor,
    secrets_of,
    secrets_of_url,
    with_ignore_rules,
)
from ..store.repository import has_repository
from .places import agent_folder, store_folder
from .processes import SystemProcesses
from .threads import open_threads
from .world import RandomIds

_BRANCH = "main"
_REMOTE = "origin"


@final
@attrs.frozen
class BackupSetup:
    """What ``init_backups`` found or made.

    Attributes:
      store: the store's folder, which is a repository now.
      is_new: whether it was made one.
      branch: the branch that is checked out.
      remote: the name of the remote that the branch is pushed to; None: backups stay here.
    """

    store: str
    is_new: bool
    branch: str
    remote: str | None


@final
@attrs.frozen
class BackupCommit:
    """One backup in the history of the branch: its commit, and when it was made, in Unix seconds."""

    commit: str
    time_s: int


@asynccontextmanager
async def _git(agent_dir: str | None, store: str | None) -> AsyncIterator[Git]:
    root = store_folder(store) if store is not None else store_folder(agent_folder(agent_dir) + "/state-flow")
    above = root.rpartition("/")[0] or "/"
    locks = FlockLocks(above)
    async with open_threads(locks) as threads:
        yield Git(SystemProcesses(), threads, Ground(RealDisk(above), locks, RealProcessTable(), Layout(root)))


async def init_backups(
    agent_dir: str | None = None, *, store: str | None = None, remote: str | None = None
) -> BackupSetup:
    """Make the store a repository, with rules that keep private files out, and have its branch pushed to ``remote``.

    What is there already stays: nothing is committed, moved or overwritten. May be called again, also to add a remote.
    If it raises Cancelled, a part of this may have been done; call it again.

    Raises:
      BackupError: E_REPOSITORY if the store is no top of a work tree, no branch is checked out, or the branch or the
        name ``origin`` goes elsewhere; E_GIT.
      ConfigError: E_CONFIG for an empty remote.
      StoreError: E_DISK, E_CORRUPT.
    """
    if remote is not None and not remote.strip():
        raise ConfigError("E_CONFIG", "remote is empty: name a URL or a folder, or leave it out", argument="remote")
    async with _git(agent_dir, store) as git:
        git.redact = redactor(secrets_of_url(remote or ""))
        disk, layout = git.ground.disk, git.ground.layout
        _make_folders(layout.root)
        is_new = not has_repository(disk, layout)
        if is_new:
            await git.ask("init", "--quiet", f"--initial-branch={_BRANCH}", "--template=")
        head = await git.head(await git.find())
        assert head.branch is not None
        _write_rules(git.ground)
        branch = head.branch.removeprefix("refs/heads/")
        config = parse_config(await git.ask("config", "--list", "-z"))
        if remote is not None:
            git.redact = redactor(secrets_of(config) | secrets_of_url(remote))
            await _set_remote(git, config, branch, remote)
            return BackupSetup(layout.root, is_new, branch, _REMOTE)
        known = config.get(f"branch.{branch}.remote")
        return BackupSetup(layout.root, is_new, branch, git.redact(known[-1]) if known else None)


async def list_backups(limit: int, agent_dir: str | None = None, *, store: str | None = None) -> Sequence[BackupCommit]:
    """The newest backups of the branch that is checked out, the newest first. Empty while there is none.

    Cancelled changes nothing.

    Raises:
      BackupError: E_REPOSITORY if the store is no repository of its own; E_GIT.
    """
    async with _git(agent_dir, store) as git:
        if not has_repository(git.ground.disk, git.ground.layout):
            text = f"{git.top}: is no Git repository; `strataflow backup init` makes it one"
            raise BackupError("E_REPOSITORY", text, path=git.top)
        head = await git.head(await git.find())
        if head.commit is None:
            return []
        # Settings of the user would read the pattern in another way, or put signatures between the lines.
        plain = ("--basic-regexp", "--no-show-signature", "-z", "--format=%H %ct")
        said = await git.ask("log", *plain, f"--max-count={limit}", f"--grep=^{TRAILER}$", head.commit)
        lines = [line.split(" ") for line in said.decode("ascii").split("\0") if line]
        return [BackupCommit(commit, int(time)) for commit, time in lines]


def _make_folders(path: str) -> None:
    disk, folder = RealDisk(), ""
    for part in path.strip("/").split("/"):
        folder = f"{folder}/{part}"
        if folder == path or disk.stat(folder) is None:
            disk.make_folder(folder)


def _write_rules(ground: Ground) -> None:
    path = ground.layout.file("", ".gitignore")
    found = ground.disk.read(path)
    text = (found or b"").decode("utf-8", "surrogateescape")
    fresh = with_ignore_rules(text)
    if fresh == text:
        return
    stat = ground.disk.stat(path)
    new = f"{path}.{RandomIds().new_id()}"
    ground.disk.write_new(new, fresh.encode("utf-8", "surrogateescape"), mode=0o644 if stat is None else stat.mode)
    ground.disk.rename(new, path)


async def _set_remote(git: Git, config: Config, branch: str, url: str) -> None:
    there = config.get(f"remote.{_REMOTE}.url")
    if there and there[-1] != url:
        text = f"{git.top}: has a remote {_REMOTE} that leads elsewhere; change it with `git remote set-url`"
        raise BackupError("E_REPOSITORY", text, path=git.top)
    if not there:
        await git.ask("remote", "add", "--", _REMOTE, url)
    known = config.get(f"branch.{branch}.remote")
    if known and known[-1] != _REMOTE:
        text = f"{git.top}: branch {branch} is pushed to another remote; change branch.{branch}.remote"
        raise BackupError("E_REPOSITORY", text, path=git.top)
    await git.ask("config", f"branch.{branch}.remote", _REMOTE)
    if f"branch.{branch}.merge" not in config:
        await git.ask("config", f"branch.{branch}.merge", f"refs/heads/{branch}")
