"""Backups of stores whose repositories, branches or settings are odd: taken as they are, or refused in words."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import attrs
import pytest
import trio

from kit.git_repositories import StoreRepository, backed, git, store_repository
from kit.holds import holds
from kit.simulated_git import SimulatedGit
from kit.simulated_runtimes import run_seeded
from strataflow import BackupError, ConfigError, Runtime, StoreError
from strataflow.runtime import init_backups, list_backups, processes
from strataflow.runtime.opening import open_runtime_in
from strataflow.runtime.simulation.seams import SimulatedMachine


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path)


async def refused(runtime: Runtime, *words: str) -> BackupError:
    with pytest.raises(BackupError) as caught:
        await runtime.backups.now()
    assert all(word in caught.value.message for word in words), caught.value
    return caught.value


@holds("store 5.2.1")
@pytest.mark.parametrize("lost", ["objects", "refs"])
async def test_a_damaged_repository_never_makes_git_take_the_one_around_it(tmp_path: Path, lost: str) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    before = (tmp_path / ".git/config").read_bytes()
    made = store_repository(tmp_path)
    shutil.rmtree(made.root / ".git" / lost)
    with pytest.raises(BackupError) as caught:
        await init_backups(store=str(made.root), remote=str(made.remote))
    assert caught.value.code == "E_GIT"
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        assert (await refused(runtime, "not a git repository")).code == "E_GIT"
    assert (tmp_path / ".git/config").read_bytes() == before
    assert [path for path in (tmp_path / ".git/objects").rglob("*") if path.is_file()] == []


@holds("store 5.2.5")
async def test_line_ends_that_git_would_warn_of_do_not_refuse_a_backup(made: StoreRepository) -> None:
    made.git("config", "core.autocrlf", "true")
    made.git("config", "core.safecrlf", "true")
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        assert (await runtime.backups.now()).commit == made.head() is not None
    assert made.at("meta.json") == (made.root / "meta.json").read_text()


async def test_backups_are_listed_whatever_the_settings_of_logs_and_patterns_are(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        commit = (await runtime.backups.now()).commit
    for pattern in ("fixed", "perl", "extended"):
        for name, value in (("grep.patternType", pattern), ("log.showSignature", "true"), ("color.ui", "always")):
            made.git("config", name, value)
        assert [each.commit for each in await list_backups(5, store=str(made.root))] == [commit]


@holds("store 5.2.4")
async def test_a_branch_that_is_another_name_is_backed_up_as_the_one_it_names(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        first = (await runtime.backups.now()).commit
        made.git("symbolic-ref", "refs/heads/other", "refs/heads/main")
        made.git("symbolic-ref", "HEAD", "refs/heads/other")
        await session.patch_state(session={"working": {"a": 2}})
        report = await runtime.backups.now()
        assert report.branch == "main"
        assert made.git("rev-parse", "main~1", "other").split() == [first, report.commit]


@holds("store 5.2.4")
async def test_an_empty_folder_with_the_name_of_a_packed_branch_hides_nothing(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        first = (await runtime.backups.now()).commit
        made.git("pack-refs", "--all")
        (made.root / ".git/refs/heads/main").mkdir()
        await session.patch_state(session={"working": {"a": 2}})
        assert (await runtime.backups.now()).commit == made.head()
        assert made.git("rev-parse", "HEAD~1").strip() == first


async def test_a_branch_whose_name_is_no_text_is_refused_in_words_and_stays(made: StoreRepository) -> None:
    name = os.fsdecode(b"refs/heads/caf\xe9")
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        made.git("symbolic-ref", "HEAD", name)
        assert (await refused(runtime, "no UTF-8")).code == "E_REPOSITORY"
        failure = (await runtime.backups.status()).record.last_failure
        assert failure is not None
        assert "UTF-8" in failure.detail
        assert made.git("for-each-ref") == ""
        made.git("symbolic-ref", "HEAD", "refs/heads/main")
        assert (await runtime.backups.now()).commit is not None


async def test_a_remote_whose_name_is_no_text_is_told_of_and_noted(made: StoreRepository) -> None:
    made.git("config", "branch.main.remote", os.fsdecode(str(made.folder).encode() + b"/caf\xe9"))
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        pushed = await runtime.backups.wait_pushed()
        assert pushed is not None
        assert pushed.outcome == "failed"
        pushed.remote.encode()
        assert (await runtime.backups.status()).record.last_failure is not None


async def test_half_an_answer_of_git_is_an_error_and_never_a_smaller_tree(
    made: StoreRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        first = (await runtime.backups.now()).commit
        await session.patch_state(session={"working": {"a": 2}})
        monkeypatch.setattr(processes, "OUTPUT_BYTES_MAX", 300)
        assert (await refused(runtime, "ls-tree", "more than")).code == "E_GIT"
        assert made.head() == first
        monkeypatch.undo()
        assert (await runtime.backups.now()).commit == made.head() != first


@holds("store 5.2.8")
async def test_the_index_of_a_maker_that_was_killed_is_aligned_and_nothing_else_of_it(made: StoreRepository) -> None:
    (made.root / "user.txt").write_text("mine")
    async with backed(made) as (runtime, session):
        for n in range(2):  # the first commit of a branch, then another one
            await session.patch_state(session={"working": {"n": n}})
            commit = (await runtime.backups.now()).commit
            # As the kill leaves it: the branch has moved, the index knows nothing of that.
            made.git("read-tree", f"{commit}~1") if n else made.git("read-tree", "--empty")
            made.git("add", "user.txt")
            note = made.root / ".strataflow/backup.json"
            note.write_text(json.dumps({**json.loads(note.read_text()), "commit": None, "moving": commit}))
            assert len(made.status()) > 1
            assert (await runtime.backups.now()).commit is None
            assert made.status() == {"A  user.txt"}
            assert json.loads(note.read_text())["moving"] is None


@pytest.mark.parametrize("remote", ["", "  "])
async def test_a_remote_without_a_name_is_refused_before_anything_is_made(tmp_path: Path, remote: str) -> None:
    with pytest.raises(ConfigError):
        await init_backups(store=str(tmp_path / "state-flow"), remote=remote)
    assert not (tmp_path / "state-flow").exists()


async def test_a_file_in_the_place_of_the_store_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "state-flow").write_text("mine")
    with pytest.raises(StoreError) as caught:
        await init_backups(store=str(tmp_path / "state-flow"))
    assert caught.value.code == "E_CORRUPT"
    made = await init_backups(store=str(tmp_path / "new/deeper/state-flow"))
    assert made.is_new
    assert (tmp_path / "new/deeper/state-flow/.git").is_dir()


def test_a_push_that_ends_while_the_next_backup_is_made_is_noted_beside_it() -> None:
    async def main() -> None:
        git = SimulatedGit(SimulatedMachine(4))
        seams = attrs.evolve(git.machine.seams("first"), processes=git.processes)
        async with open_runtime_in(seams, "power", None, False) as runtime:
            session = await runtime.open_session("/project", "main", "active")
            git.takes |= {"push": (2.0, False), "commit-tree": (5.0, False)}
            for n in range(2):
                await session.patch_state(session={"working": {"n": n}})
                with trio.fail_after(20):
                    report = await runtime.backups.now(push=n == 0)
            record = (await runtime.backups.status()).record
            assert record.last_push is not None
            assert record.last_commit is not None
            assert record.last_commit.what == report.commit

    run_seeded(4, main)
