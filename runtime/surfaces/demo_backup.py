"""The Git part of the demo: a remote receives backups while writers go on, and a clone of it is held against the store.

The remote is a bare repository beside the store. Nothing here is shared with the path that makes a backup, apart from
the calls that any program would make: the clone is compared file by file, and is looked at as a store of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal, final

import attrs
import trio

from .. import StrataflowError, init_backups, inspect_store, open_runtime

_EVERY_S = 0.3
_GIT_S = 60.0
_ASIDE = (".git", ".strataflow")
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "strataflow demo"), ("EMAIL", "demo@example.invalid"))
}


@attrs.frozen
class BackupVerdict:
    """What became of the backups.

    Attributes:
      is_tried: whether there is Git on this machine.
      commits: how many the remote has; ``pushes`` are those that arrived while writers were at work, together.
      files: how many the clone has.
      faults: one line for each broken promise.
    """

    is_tried: bool
    commits: int = 0
    pushes: int = 0
    files: int = 0
    faults: tuple[str, ...] = ()


@final
@attrs.define(eq=False)
class DemoBackups:
    """Backups of the demo's store."""

    agent_dir: Path
    store: Path
    durability: Literal["power", "process"]
    is_tried: bool = attrs.field(factory=lambda: shutil.which("git") is not None)
    _pushes: int = 0
    _faults: list[str] = attrs.field(factory=list)

    @property
    def _remote(self) -> Path:
        return self.agent_dir / "demo-remote.git"

    async def prepare(self) -> None:
        """Make the store a repository with a remote."""
        if self.is_tried:
            os.environ.update(_IDENTITY)  # a machine may know nobody
            await trio.to_thread.run_sync(_git, self.agent_dir, "init", "-q", "--bare", "-b", "main", self._remote.name)
            await init_backups(str(self.agent_dir), remote=str(self._remote))

    async def go_on(self) -> None:
        """Back up again and again until cancelled."""
        while self.is_tried:
            await self.once()
            await trio.sleep(_EVERY_S)

    async def once(self) -> None:
        """One backup and its push, by a runtime of its own."""
        if not self.is_tried:
            return
        try:
            async with open_runtime(str(self.agent_dir), durability=self.durability) as runtime:
                await runtime.backups.now()
                found = await runtime.backups.wait_pushed()
        except StrataflowError as error:
            self._faults.append(f"a backup failed: {error}")
            return
        if found is not None and found.outcome == "pushed":
            self._pushes += 1
        elif found is not None:
            self._faults.append(f"a push came to nothing: {found.outcome} {found.error}")

    async def judge(self) -> BackupVerdict:
        """Clone the remote, and compare the clone with the store, which nobody has open any more."""
        if not self.is_tried:
            return BackupVerdict(False)
        return await trio.to_thread.run_sync(self._judge)

    def _judge(self) -> BackupVerdict:
        clone = self.agent_dir / "demo-clone"
        _git(self.agent_dir, "clone", "-q", str(self._remote), clone.name)
        here, there = _canonical(self.store), _canonical(clone)
        faults = list(self._faults)
        faults += [f"{path} is not in the clone" for path in sorted(here.keys() - there.keys())]
        faults += [f"{path} is in the clone alone" for path in sorted(there.keys() - here.keys())]
        faults += [f"{path} differs in the clone" for path in sorted(here) if here[path] != there.get(path, here[path])]
        wrong = inspect_store(store=str(clone)).diagnose().findings
        faults += [finding.line() for finding in wrong if finding.severity in ("warning", "problem")]
        commits = int(_git(self._remote, "rev-list", "--count", "main"))
        return BackupVerdict(True, commits, self._pushes, len(there), tuple(faults))


def _canonical(folder: Path) -> dict[str, bytes]:
    """The canonical files below a folder."""
    files = (path for path in folder.rglob("*.json*") if path.is_file())
    named = {str(path.relative_to(folder)): path for path in files}
    return {name: path.read_bytes() for name, path in named.items() if name.split("/")[0] not in _ASIDE}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_S).stdout
