"""Pushes that hang, in every way in which one can: cancelled, late, off, closing, killed, nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kit.git_repositories import CWD, StoreRepository, backed, events, processes_about, store_repository, wait_gone
from kit.hanging_remotes import WAYS, HangingRemote, hanging_remote
from kit.holds import holds
from kit.runtimes import opened
from kit.source_tree import ROOT
from strataflow import Runtime, Session
from strataflow.actors import ENDING_S
from strataflow.store import FlockLocks

pytestmark = pytest.mark.slow
# What a machine that has much else to do may take on top.
_SLACK_S = 3.0


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path)


@asynccontextmanager
async def hanging(made: StoreRepository, way: str) -> AsyncIterator[tuple[Runtime, Session, HangingRemote]]:
    """A push that an answer has brought about, and that hangs."""
    with hanging_remote(made, way) as remote:
        async with backed(made) as (runtime, session):
            await session.accept_response("done")
            await remote.wait_hanging()
            yield runtime, session, remote


def nothing_is_left(remote: HangingRemote) -> None:
    assert processes_about(remote.word) == {}
    # The slot for pushes of this repository is free, for other processes too.
    lock = FlockLocks().open(str(remote.made.root / ".git/strataflow-push.lock"))
    assert lock.try_acquire()
    lock.close()


@holds("case store 119", "store 5.4.5", "store 5.4.8", "store 5.3.3")
@pytest.mark.parametrize("way", WAYS)
async def test_closing_ends_a_push_that_hangs_within_five_seconds(made: StoreRepository, way: str) -> None:
    async with hanging(made, way) as (runtime, _, remote):
        with trio.fail_after(ENDING_S + _SLACK_S):
            report = await runtime.aclose()
        assert report.left_behind == ()
        nothing_is_left(remote)
        assert events(runtime, "push-failed", "backup-failed") == []
        assert made.count() == 1
    if made.remote.exists():
        assert made.remote_head() is None


@holds("case store 119", "store 5.4.8", "store 5.3.3")
@pytest.mark.parametrize("way", [WAYS[1], WAYS[3], "a silent HTTP server"])
async def test_off_ends_the_push_that_its_session_has_brought_about(made: StoreRepository, way: str) -> None:
    async with hanging(made, way) as (runtime, session, remote):
        with trio.fail_after(ENDING_S + _SLACK_S):
            await session.set_mode("off")
            found = await runtime.backups.wait_pushed()
        assert found is not None
        assert found.outcome == "cancelled"
        nothing_is_left(remote)
        assert events(runtime, "push-failed") == []


@holds("store 5.4.8")
async def test_off_of_another_session_leaves_the_push_alone(made: StoreRepository) -> None:
    async with hanging(made, WAYS[0]) as (runtime, _, _remote):
        other = await runtime.open_session(CWD, "other", "active")
        await other.set_mode("off")
        assert (await runtime.backups.status()).is_pushing


@holds("store 5.2.10", "store 5.4.5")
@pytest.mark.parametrize("way", [WAYS[1], WAYS[3], WAYS[4], "a silent HTTP server"])
async def test_a_push_that_takes_too_long_is_ended_and_told(
    made: StoreRepository, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strataflow.actors.git.GIT_LIMIT_S", 1.0)
    async with hanging(made, way) as (runtime, _, remote):
        with trio.fail_after(1.0 + ENDING_S + _SLACK_S):
            found = await runtime.backups.wait_pushed()
        assert found is not None
        assert found.outcome == "failed"
        # The last way fails by itself and leaves a child that holds its pipes.
        assert "did not end" in found.error or "remote rejected" in found.error
        nothing_is_left(remote)
        assert len(events(runtime, "push-failed")) == 1


@holds("case store 118", "store 5.4.4")
async def test_a_second_push_is_dropped_and_can_not_stop_the_first(made: StoreRepository) -> None:
    async with hanging(made, WAYS[0]) as (runtime, session, remote):
        await session.patch_state(session={"working": {"a": 1}})
        with trio.CancelScope() as scope:
            await runtime.backups.now()
            scope.cancel()
            await trio.lowlevel.checkpoint()
        assert made.count() == 2
        assert (await runtime.backups.status()).is_pushing
        (made.remote / "hooks/pre-receive").unlink()
        for pid, text in processes_about(remote.word).items():
            if "sleep-for-ever" in text:
                os.kill(pid, signal.SIGKILL)
        first = await runtime.backups.wait_pushed()
        assert first is not None
        assert first.outcome == "failed"
        # Dropped, not tried: it has neither an outcome nor an event.
        assert events(runtime, "push-skipped") == []
        await session.accept_response("later")
        await runtime.backups.wait_pushed()
        assert made.remote_head() == made.head()
        assert made.count() == 3


async def test_another_process_that_pushes_is_skipped_and_said_so(made: StoreRepository) -> None:
    async with hanging(made, WAYS[0]) as (_, _, _remote):
        command = [sys.executable, "-m", "strataflow", "backup", "now", "--json", "--store", str(made.root)]
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        assert b'"outcome":"skipped"' in done.stdout
        assert b"another process is pushing" in done.stderr


_PARENT = """
import sys, trio
from strataflow import open_runtime
async def main():
    async with open_runtime(store=sys.argv[1], durability="process") as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.accept_response("done")
        await trio.sleep_forever()
trio.run(main)
"""


def started(made: StoreRepository) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen([sys.executable, "-c", _PARENT, str(made.root)], env=environment)


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_of_a_push_survives_its_parent_for_five_seconds(made: StoreRepository, way: str) -> None:
    with hanging_remote(made, way) as remote:
        parent = started(made)
        try:
            await remote.wait_hanging()
            family = [pid for pid in processes_about(remote.word) if pid != parent.pid]
            assert family
        finally:
            parent.kill()
            parent.wait()
        assert await trio.to_thread.run_sync(wait_gone, family, 5.0) == []
        nothing_is_left(remote)
    async with opened(made.root) as runtime:
        assert not made.root.joinpath(".git/state-flow-backup.lock").exists()
        assert (await runtime.backups.now(push=False)).head == made.head()
