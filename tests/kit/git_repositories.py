"""Real repositories around real stores, and what the tests of backups ask of them."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from kit.runtimes import opened
from strataflow.runtime import Runtime, Session

CWD = "/project"
FOLDER = "--project--"
# How long something may take that must end by itself; only reached when a test fails.
PATIENCE_S = 30.0


def git(folder: Path, *arguments: str, **environment: str) -> str:
    """What Git answers in a folder; it must succeed."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@attrs.frozen
class StoreRepository:
    """A store in a repository of its own, below a folder of the test."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "state-flow"

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def head(self) -> str | None:
        """The commit that is checked out; None while there is none."""
        return (
            self.git("for-each-ref", "--format=%(objectname)", self.git("symbolic-ref", "HEAD").strip()).strip() or None
        )

    def files(self, commit: str = "HEAD") -> set[str]:
        return set(self.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")) - {""}

    def at(self, path: str, commit: str = "HEAD") -> str:
        return self.git("show", f"{commit}:{path}")

    def count(self) -> int:
        return int(self.git("rev-list", "--count", "HEAD")) if self.head() else 0

    def status(self) -> set[str]:
        """What ``git status`` says of files of the store, without what is simply untracked."""
        lines = self.git("status", "--porcelain", "-z", "--untracked-files=no").split("\0")
        return {line for line in lines if line}

    def with_remote(self, url: str | None = None) -> StoreRepository:
        """Add the remote ``origin``, a bare repository unless a URL is given, and have the branch pushed there."""
        if url is None:
            git(self.folder, "init", "-q", "--bare", "-b", "main", str(self.remote))
        self.git("remote", "add", "origin", url or str(self.remote))
        self.git("config", "branch.main.remote", "origin")
        self.git("config", "branch.main.merge", "refs/heads/main")
        return self

    def remote_head(self) -> str | None:
        return git(self.remote, "for-each-ref", "--format=%(objectname)", "refs/heads/main").strip() or None

    def hook(self, name: str, text: str, *, at: Path | None = None) -> None:
        """A hook of the bare remote, or of another repository."""
        path = (at or self.remote) / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


def store_repository(folder: Path) -> StoreRepository:
    """An empty store that is a repository on the branch ``main``."""
    made = StoreRepository(folder)
    made.root.mkdir()
    git(made.root, "init", "-q", "-b", "main")
    return made


@asynccontextmanager
async def backed(made: StoreRepository, **options: Any) -> AsyncIterator[tuple[Runtime, Session]]:
    """The store open, with an active session ``s1``."""
    async with opened(made.root, **options) as runtime:
        yield runtime, await runtime.open_session(CWD, "s1", "active")


def processes_about(*words: str) -> dict[int, str]:
    """The living processes whose command line, folder or environment holds one of the words, without this one."""
    found = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
            parts = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
            parts.append(os.readlink(f"/proc/{pid}/cwd").encode())
        except OSError:
            continue
        if (
            int(pid) != os.getpid()
            and stat not in (b"Z", b"X")
            and any(w.encode() in part for w in words for part in parts)
        ):
            found[int(pid)] = parts[0].replace(b"\0", b" ").decode("utf-8", "replace")
    return found


def wait_gone(pids: list[int], seconds: float) -> list[int]:
    """Wait until these processes have ended; gives those that have not."""
    left = []
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(descriptor, "rb", closefd=True):
            if not select.select([descriptor], [], [], seconds)[0]:
                left.append(pid)
    return left


def events(runtime: Runtime, *names: str) -> list[tuple[str, Any]]:
    """The events of these names."""
    return [(event.name, event.data) for event in runtime.events if event.name in names]
