"""Backups while writers commit.

Goal: every commit of a backup is the store at one moment: files that agree with each other, and patches over several
scopes whole or not at all.

Method: writers in this process and in another one patch a session and the shared scope in one call, without a pause;
backups are made one after another meanwhile. Each commit is then laid out as a store of its own, of which the doctor
must find nothing wrong, and in which both places must hold the same number. ``STRATAFLOW_BACKUPS=200`` makes it the
long test.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import trio

from kit.git_repositories import StoreRepository, store_repository
from kit.runtimes import opened
from kit.source_tree import ROOT
from strataflow import Session
from strataflow.runtime import inspect_store

_WRITERS = 8
_BACKUPS = int(os.environ.get("STRATAFLOW_BACKUPS", "6"))
_ALONE = """
import sys, trio
sys.path[:0] = sys.argv[2:]
from faults.test_backups_under_load import write, WRITERS
from kit.runtimes import opened
async def main():
    async with opened(sys.argv[1]) as runtime:
        await write([await runtime.open_session("/project", f"other{n}", "active") for n in range(WRITERS // 2)])
trio.run(main)
"""
WRITERS = _WRITERS


async def write(sessions: list[Session]) -> None:
    """Patch without a pause until cancelled, each session its own memory and the shared one in one call."""

    async def one(session: Session, name: str) -> None:
        number = 0
        while True:
            number += 1
            await session.patch_state(global_={"working": {name: number}}, session={"working": {"n": number}})

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(one, session, session.session_id)


def laid_out(made: StoreRepository, commit: str, folder: Path) -> Path:
    folder.mkdir()
    data = subprocess.run(
        ["git", "-C", str(made.root), "archive", commit], capture_output=True, check=True, timeout=60
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def start_other(made: StoreRepository) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _ALONE, str(made.root), str(ROOT / "src"), str(ROOT / "tests")]
    return subprocess.Popen(command)


@pytest.mark.slow
async def test_every_backup_beside_busy_writers_is_the_store_at_one_moment(tmp_path: Path) -> None:
    made = store_repository(tmp_path).with_remote()
    commits = []
    other = start_other(made)
    try:
        async with opened(made.root) as runtime, trio.open_nursery() as nursery:
            names = [f"s{number}" for number in range(_WRITERS // 2)]
            nursery.start_soon(write, [await runtime.open_session("/project", name, "active") for name in names])
            for _ in range(_BACKUPS):
                report = await runtime.backups.now()
                commits.append(report.commit)
            nursery.cancel_scope.cancel()
    finally:
        other.kill()
        other.wait()
    assert None not in commits
    assert made.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""
    numbers: list[int] = []
    for count, commit in enumerate(commits):
        assert commit is not None
        store = laid_out(made, commit, tmp_path / f"at-{count}")
        look = inspect_store(store=str(store))
        wrong = [finding.line() for finding in look.diagnose().findings if finding.severity == "problem"]
        assert wrong == []
        shared = look.read("/project", "s0", {"path": "global.working"}).value
        for name, number in shared.items():
            assert look.read("/project", name, {"path": "session.working.n"}).value == number, (commit, name)
        numbers.append(sum(shared.values()))
    assert numbers == sorted(numbers)
    assert numbers[-1] > numbers[0]
    assert made.git("merge-base", "--is-ancestor", str(made.remote_head()), str(commits[-1])) == ""
