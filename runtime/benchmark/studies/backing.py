"""A store's repository and the bare remote that it is pushed to, as somebody outside of the program sees them.

What backups have done is asked of Git itself, not of the program that has made them.
"""

from __future__ import annotations

import os
import select
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import final

import attrs
import trio

from ...backup_setup import init_backups

_BRANCH = "refs/heads/main"
# What is no part of a backup: Git's own, the private folder, a lock of Pi, and rules that nobody has committed.
_APART = {".git", ".strataflow", ".state-flow-publication.lock", ".gitignore"}
# How long a push may take to arrive, and to go on: only reached if something is wrong.
_PATIENCE_S = 30.0


@final
@attrs.frozen
class Hold:
    """Two named pipes: a push tells that it is here, waits until it is let go, and tells that it goes on."""

    told: int
    let_go: int

    def wait(self) -> None:
        """Wait until a push is held.

        Raises:
          TimeoutError: none has come.
        """
        if not self._is_told():
            raise TimeoutError("no push has reached the remote")

    def release(self) -> bool:
        """Let the push go on. False: it does not, so it has been ended before."""
        os.write(self.let_go, b"go\n")
        return self._is_told()

    def _is_told(self) -> bool:
        return bool(readable([self.told], _PATIENCE_S) and os.read(self.told, 1))


@final
@attrs.frozen
class Backing:
    """The repository in ``store``, its remote and a clone of that, below ``folder``."""

    folder: str
    store: str

    @classmethod
    def made(cls, folder: str, store: str) -> Backing:
        """Make the store a repository whose branch is pushed to a new bare one."""
        found = cls(folder, store)
        _git(folder, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", found.remote)
        os.mkdir(found._hooks)
        _git(found.remote, "config", "core.hooksPath", found._hooks)
        _git(found.remote, "config", "core.logAllRefUpdates", "true")
        trio.run(partial(init_backups, store=store, remote=found.remote))
        _git(store, "config", "user.name", "bench")
        _git(store, "config", "user.email", "bench@example.invalid")
        return found

    @property
    def remote(self) -> str:
        """The bare repository."""
        return os.path.join(self.folder, "remote.git")

    @property
    def _hooks(self) -> str:
        return os.path.join(self.remote, "hooks")

    def commits(self) -> int:
        """How many backups the branch holds."""
        return int(_git(self.store, "rev-list", "--count", _BRANCH))

    def pushes(self) -> int:
        """How often the branch of the remote has moved."""
        return len(_git(self.remote, "reflog", "show", "--format=%H", _BRANCH).splitlines())

    def is_pushed(self) -> bool:
        """Whether the remote has the newest backup."""
        heads = [_git(place, "rev-parse", "--verify", _BRANCH) for place in (self.store, self.remote)]
        return heads[0] == heads[1]

    @contextmanager
    def held(self) -> Iterator[Hold]:
        """Have the remote hold the first push that brings it something, until it is released."""
        pipes = [os.path.join(self.remote, name) for name in ("told", "let-go")]
        for pipe in pipes:
            os.mkfifo(pipe)
        hook = os.path.join(self._hooks, "pre-receive")
        with open(hook, "w", encoding="utf-8") as file:
            told, let_go = map(shlex.quote, pipes)
            file.write(f"#!/bin/sh\nprintf h > {told}\nread -r word < {let_go} && printf g > {told}\n")
        os.chmod(hook, 0o755)
        # For reading and writing: so that neither end waits for the other to be opened.
        descriptors = [os.open(pipe, os.O_RDWR) for pipe in pipes]
        try:
            yield Hold(*descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            for path in (hook, *pipes):
                os.remove(path)

    def cloned(self) -> str:
        """A new clone of the remote: what somebody would have who has lost the store."""
        clone = os.path.join(self.folder, "clone")
        _git(self.folder, "clone", "--quiet", self.remote, clone)
        return clone

    def is_equal(self, clone: str) -> bool:
        """Whether the clone holds the files of the store, all of them, byte for byte, and no others."""
        return _files(self.store) == _files(clone)


def readable(descriptors: Sequence[int], patience_s: float) -> list[int]:
    """Those that there is something to read from, as soon as there is any; none if nothing comes."""
    return select.select(descriptors, [], [], patience_s)[0]


def _files(root: str) -> dict[str, bytes]:
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _APART]
        for name in names:
            if name not in _APART:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, root)] = file.read()
    return found


def _git(folder: str, *arguments: str) -> str:
    # Variables that speak of another repository are not for us.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", folder, *arguments]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60
    ).stdout
