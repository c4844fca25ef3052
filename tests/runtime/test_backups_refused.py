"""Backups that come to nothing: branch, index, memory and locks are as they were, and somebody is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from kit.git_repositories import CWD, FOLDER, StoreRepository, backed, events, git, store_repository
from kit.holds import holds
from kit.runtimes import opened, refused, value
from strataflow import BackupError, Runtime
from strataflow.store import FlockLocks


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path)


async def failing(runtime: Runtime, code: str = "E_REPOSITORY") -> BackupError:
    with pytest.raises(BackupError) as caught:
        await runtime.backups.now()
    assert caught.value.code == code, caught.value
    return caught.value


@holds("store 5.1.1")
async def test_a_store_that_is_no_repository_is_not_backed_up(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session(CWD, "s1", "active")
        await session.accept_response("done")
        assert await runtime.backups.wait_pushed() is None
        assert events(runtime, "backup-failed", "backup-deferred", "push-failed") == []
        assert "backup init" in (await failing(runtime)).message
        assert (await runtime.backups.status()).has_repository is False


@holds("store 5.2.1")
async def test_a_store_inside_of_a_work_tree_is_not_its_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    async with opened(tmp_path / "state-flow") as runtime:
        await failing(runtime)
    assert not (tmp_path / ".git/refs/heads/main").exists()


@holds("store 5.2.1")
@pytest.mark.parametrize("way", ["symlink", "worktree"])
async def test_a_linked_repository_or_another_top_level_is_refused(made: StoreRepository, way: str) -> None:
    if way == "symlink":
        (made.root / ".git").rename(made.folder / "kept")
        (made.root / ".git").symlink_to(made.folder / "kept")
    else:
        (made.folder / "elsewhere").mkdir()
        made.git("config", "core.worktree", str(made.folder / "elsewhere"))
    async with backed(made) as (runtime, session):
        await session.accept_response("done")
        await runtime.backups.wait_pushed()
        assert len(events(runtime, "backup-failed")) == 1
        await failing(runtime)
        assert await value(session, "session.response") == "done"


@holds("store 5.2.1")
async def test_a_linked_work_tree_is_backed_up_on_its_own_branch(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    git(home, "init", "-q", "-b", "main")
    git(home, "commit", "-q", "--allow-empty", "-m", "first")
    git(home, "worktree", "add", "-q", "-b", "memory", str(tmp_path / "state-flow"))
    made = StoreRepository(tmp_path)
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        report = await runtime.backups.now()
    assert report.branch == "memory"
    assert git(home, "rev-list", "--count", "main").strip() == "1"
    assert git(home, "rev-list", "--count", "memory").strip() == "2"
    assert made.status() == set()


@holds("store 5.2.4")
async def test_a_detached_head_refuses_and_stays(made: StoreRepository) -> None:
    made.git("commit", "-q", "--allow-empty", "-m", "first")
    made.git("checkout", "-q", "--detach")
    before = (made.root / ".git/HEAD").read_bytes()
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        assert "check one out" in (await failing(runtime)).message
    assert (made.root / ".git/HEAD").read_bytes() == before


@holds("case store 109", "store 5.2.4")
@pytest.mark.parametrize("what", ["switched", "moved"])
async def test_a_branch_that_changes_while_locks_are_waited_for_refuses(made: StoreRepository, what: str) -> None:
    made.git("commit", "-q", "--allow-empty", "-m", "first")
    first = made.head()
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        lock = FlockLocks().open(str(made.root / ".strataflow/checkpoint.lock"))
        assert lock.try_acquire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing, runtime)
            with trio.fail_after(30):
                # Held by the backup from before it waits for the files.
                while not (made.root / ".git/state-flow-backup.lock").exists():
                    await trio.lowlevel.checkpoint()
            if what == "switched":
                made.git("checkout", "-q", "-b", "other")
            else:
                made.git("commit", "-q", "--allow-empty", "-m", "second")
            now = made.head()
            lock.close()
        assert made.head() == now
        assert made.git("rev-parse", "main").strip() == (first if what == "switched" else now)
        assert made.files() == set()
        assert (await runtime.backups.now()).branch == ("other" if what == "switched" else "main")


@holds("case store 103", "store 5.3.2")
async def test_a_busy_store_defers_what_nobody_waits_for(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        lock = FlockLocks().open(str(made.root / ".strataflow/checkpoint.lock"))
        assert lock.try_acquire()
        await session.accept_response("one")
        await runtime.backups.wait_pushed()
        ((_, data),) = events(runtime, "backup-deferred", "backup-failed")
        assert "later answer" in data["reason"]
        assert made.head() is None
        assert await value(session, "session.response") == "one"
        lock.close()
        await session.accept_response("two")
        await runtime.backups.wait_pushed()
        assert made.count() == 1


@holds("case store 104", "store 5.3.1")
async def test_who_waits_for_a_busy_store_can_leave_and_nothing_has_happened(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        lock = FlockLocks().open(str(made.root / ".strataflow/checkpoint.lock"))
        assert lock.try_acquire()
        mutex = made.root / ".git/state-flow-backup.lock"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.backups.now)
            with trio.fail_after(30):
                while not mutex.exists():
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            while mutex.exists():
                await trio.lowlevel.checkpoint()
        assert made.head() is None
        assert not (made.root / ".git/index").exists()
        lock.close()
        await session.accept_response("done")
        await runtime.backups.wait_pushed()
        assert made.count() == 1


@holds("case store 105", "store 5.2.2", "store 5.1.2")
async def test_a_malformed_lock_is_a_failure_told_once_for_each_answer(made: StoreRepository) -> None:
    mutex = made.root / ".git/state-flow-backup.lock"
    mutex.write_text("not a process")
    async with backed(made) as (runtime, session):
        await session.accept_response("one")
        await runtime.backups.wait_pushed()
        await session.accept_response("one")  # nothing new is accepted, so nothing is due
        await runtime.backups.wait_pushed()
        assert len(events(runtime, "backup-failed")) == 1
        assert mutex.read_text() == "not a process"
        mutex.unlink()
        await session.accept_response("two")
        await runtime.backups.wait_pushed()
        assert len(events(runtime, "backup-failed")) == 1
        assert made.count() == 1


async def test_the_lock_of_a_living_stranger_is_waited_for_and_that_of_a_dead_one_named(made: StoreRepository) -> None:
    mutex = made.root / ".git/state-flow-backup.lock"
    mutex.write_text(f"{os.getppid()}\n")
    async with backed(made) as (runtime, session):
        await session.accept_response("one")
        await runtime.backups.wait_pushed()
        assert len(events(runtime, "backup-deferred")) == 1
        mutex.write_text("999999999\n")
        assert str(mutex) in (await failing(runtime)).message
        assert mutex.exists()


async def test_the_lock_that_a_killed_process_of_ours_has_left_is_taken_over(made: StoreRepository) -> None:
    mutex = made.root / ".git/state-flow-backup.lock"
    mutex.write_text("999999999\n")
    stat = mutex.stat()
    (made.root / ".git/strataflow-backup.json").write_text(json.dumps([stat.st_dev, stat.st_ino, 999999999]))
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        assert (await runtime.backups.now()).commit is not None
    assert not mutex.exists()


@holds("case store 106", "store 5.2.9", "store 5.2.11", "store 4.2.6")
async def test_no_identity_is_one_warning_and_memory_is_as_it_was(
    made: StoreRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    made.git("config", "user.useConfigOnly", "true")
    async with backed(made) as (runtime, session):
        await session.accept_response("done")
        await runtime.backups.wait_pushed()
        ((_, data),) = events(runtime, "backup-failed")
        assert len(data["error"]) <= 220
        assert "commit-tree" in data["error"]
        assert made.head() is None
        assert await value(session, "session.response") == "done"
        assert (await session.patch_state(session={"working": {"a": 1}})).changed  # nothing is fenced


@holds("case store 108", "store 5.2.8")
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_stale_lock_of_the_index_fails_and_the_branch_goes_back(made: StoreRepository, is_first: bool) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        if not is_first:
            await runtime.backups.now()
        head = made.head()
        stale = made.root / ".git/index.lock"
        stale.write_text("")
        await session.patch_state(session={"working": {"a": 2}})
        error = await failing(runtime)
        assert str(stale) in error.message
        assert made.head() == head
        assert stale.exists()
        status = await runtime.backups.status()
        assert status.is_due
        assert status.record.last_failure is not None
        stale.unlink()
        assert (await runtime.backups.now()).commit is not None
        assert made.status() == set()


@holds("store 5.2.11")
async def test_an_unreadable_scope_is_told_and_the_rest_is_backed_up(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(global_={"working": {"a": 1}}, session={"working": {"a": 1}})
        await runtime.backups.now()
        other = await runtime.open_session("/other", "s2", "active")
        await other.patch_state(session={"working": {"b": 1}})
        await runtime.checkpoint()
        (made.root / FOLDER / "s1" / "patches.jsonl").write_text("{torn")
        await session.aclose()
        report = await runtime.backups.now(complete=True)
        # What stands in the files is what is backed up; doctor says what is wrong with it.
        assert report.commit is not None
        assert made.at(f"{FOLDER}/s1/patches.jsonl") == "{torn"
        with refused("E_CORRUPT"):
            broken = await runtime.open_session(CWD, "s1", "active")
            await broken.patch_state(session={"working": {"a": 2}})
