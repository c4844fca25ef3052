"""Backups into real repositories: what is committed, what is not, and what stays as the user left it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit.git_repositories import FOLDER, StoreRepository, backed, events, store_repository
from kit.holds import holds
from kit.runtimes import opened, session_of
from strataflow import BackupError
from strataflow.store.backup import MESSAGE

SESSION_FILES = {"checkpoint.json", "config.json", "meta.json", "patches.jsonl", "runtime.json"}
SHARED_FILES = {"checkpoint.json", "meta.json", "patches.jsonl"}


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path)


@holds("store 5.2.3", "store 5.2.7", "store 1.1.3")
async def test_a_backup_holds_exactly_the_owned_files_of_what_was_accepted(made: StoreRepository) -> None:
    (made.root / "config.json").write_text('{"historyLimit": 3}')
    (made.root / "notes.md").write_text("mine")
    async with backed(made) as (runtime, session):
        await session.patch_state(global_={"working": {"a": 1}}, session={"working": {"b": 2}})
        report = await runtime.backups.now()
        assert made.files() == {
            *SHARED_FILES,
            *(f"{FOLDER}/{name}" for name in SHARED_FILES),
            *(f"{FOLDER}/s1/{name}" for name in SESSION_FILES),
        }
        assert (report.commit, report.head, report.branch, report.files) == (made.head(), made.head(), "main", 11)
    assert made.git("log", "--format=%B%an", "-1") == f"{MESSAGE}Tester\n"
    assert made.git("fsck", "--strict", "--no-dangling") == ""
    assert json.loads(made.at("patches.jsonl"))["working"] == {"a": 1}


@holds("store 5.2.6")
async def test_nothing_new_makes_no_commit_and_is_no_failure(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        first = await runtime.backups.now()
        again = await runtime.backups.now()
        complete = await runtime.backups.now(complete=True)
        assert [again.commit, complete.commit, made.count()] == [None, None, 1]
        assert again.head == complete.head == first.commit
        assert events(runtime, "backup-failed", "backup-deferred") == []


async def test_each_change_is_one_commit_with_only_its_files(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        other = await runtime.open_session("/elsewhere", "s2", "active")
        await other.patch_state(session={"working": {"x": 1}})
        report = await runtime.backups.now()
        changed = set(made.git("diff", "--name-only", "HEAD~1").split())
        assert changed == {f"--elsewhere--/{name}" for name in SHARED_FILES} | {
            f"--elsewhere--/s2/{name}" for name in SESSION_FILES
        }
        assert report.files == len(changed)
        assert made.status() == set()


@holds("case store 107", "store 5.2.5", "store 5.2.8")
async def test_what_the_user_has_staged_stays_staged_and_out_of_the_commit(made: StoreRepository) -> None:
    (made.root / "notes.txt").write_text("one")
    made.git("add", "notes.txt")
    made.git("commit", "-q", "-m", "mine")
    (made.root / "notes.txt").write_text("two")
    made.git("add", "notes.txt")
    (made.root / "notes.txt").write_text("three")
    (made.root / "only-in-index").write_text("x")
    made.git("add", "only-in-index")
    (made.root / "only-in-index").unlink()
    before = made.status()
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        assert made.status() == before == {"MM notes.txt", "AD only-in-index"}
        assert made.at("notes.txt") == "one"
        assert "only-in-index" not in made.files()
        assert (made.root / "notes.txt").read_text() == "three"
        assert made.git("show", ":notes.txt") == "two"


@holds("store 5.2.7")
async def test_the_hooks_of_the_user_do_not_run(made: StoreRepository, tmp_path: Path) -> None:
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change", "pre-push"):
        made.hook(name, f"touch {tmp_path}/ran-{name}; exit 1", at=made.root / ".git")
    made.with_remote()
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        pushed = await runtime.backups.wait_pushed()
    assert pushed is not None
    assert pushed.outcome == "pushed"
    assert list(tmp_path.glob("ran-*")) == []


@holds("case store 110", "store 5.2.5")
async def test_ignored_files_are_left_out_unless_they_are_tracked(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        (made.root / ".gitignore").write_text("meta.json\n")
        await session.patch_state(global_={"working": {"a": 1}})
        child = await runtime.open_session("/child", "s1", "active")
        await child.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
    assert "meta.json" in made.git("diff", "--name-only", "HEAD~1").split()
    assert {name for name in made.files() if name.startswith("--child--")} == {
        *(f"--child--/{name}" for name in SHARED_FILES - {"meta.json"}),
        *(f"--child--/s1/{name}" for name in SESSION_FILES - {"meta.json"}),
    }


@holds("case store 111", "store 5.2.5")
async def test_a_directory_with_a_pattern_in_its_name_is_committed_literally(made: StoreRepository) -> None:
    async with opened(made.root) as runtime:
        for cwd in ("/project[1]", "/project1", "/a*b", "/with space", "/grüße", '/quo"te', "/line\nbreak"):
            session = await runtime.open_session(cwd, "s1", "active")
            await session.patch_state(session={"working": {"cwd": cwd}})
        await runtime.backups.now()
        session = await runtime.open_session("/project[1]", "s1")
        await session.patch_state(session={"working": {"n": 2}})
        await runtime.backups.now()
    assert made.git("diff", "--name-only", "HEAD~1").split()[0].startswith("--project[1]--/s1/")
    for folder in ("--project[1]--", "--project1--", "--a*b--", "--with space--", '--quo"te--', "--line\nbreak--"):
        assert f"{folder}/s1/checkpoint.json" in made.files()
    assert made.status() == set()
    assert made.git("fsck", "--strict", "--no-dangling") == ""


@holds("case store 112", "store 5.2.5")
async def test_files_of_a_removed_session_are_deleted_in_the_next_commit(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        other = await runtime.open_session("/other", "gone", "active")
        await other.patch_state(session={"working": {"a": 1}})
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        await other.aclose()
        shutil.rmtree(made.root / "--other--" / "gone")
        report = await runtime.backups.now()
    assert report.files == len(SESSION_FILES)
    assert not any(name.startswith("--other--/gone/") for name in made.files())
    assert f"{FOLDER}/s1/runtime.json" in made.files()
    assert made.status() == set()


@holds("case store 113", "store 5.2.3")
@pytest.mark.parametrize("kind", ["symlink", "folder"])
async def test_an_owned_name_that_is_no_file_refuses_the_backup(made: StoreRepository, kind: str) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        head = made.head()
        stranger = made.root / "--stranger--"
        stranger.mkdir()
        if kind == "symlink":
            (stranger / "meta.json").symlink_to(made.root / "meta.json")
        else:
            (stranger / "meta.json").mkdir()
        with pytest.raises(BackupError) as caught:
            await runtime.backups.now()
        assert caught.value.code == "E_REPOSITORY"
        assert str(stranger / "meta.json") in caught.value.message
        assert made.head() == head
        assert not (made.root / ".git/state-flow-backup.lock").exists()
        (stranger / "meta.json").unlink() if kind == "symlink" else (stranger / "meta.json").rmdir()
        await session.patch_state(session={"working": {"a": 2}})
        assert (await runtime.backups.now()).commit is not None


@holds("case store 114", "store 5.2.6")
async def test_a_repository_with_only_a_strangers_staged_file_gets_no_commit(tmp_path: Path) -> None:
    made = store_repository(tmp_path)
    (made.root / "notes.txt").write_text("mine")
    made.git("add", "notes.txt")
    async with opened(made.root) as runtime:
        report = await runtime.backups.now()
    assert (report.commit, report.head, made.head()) == (None, None, None)
    assert made.status() == {"A  notes.txt"}


async def test_a_complete_look_finds_what_somebody_else_wrote_where_nobody_looks(made: StoreRepository) -> None:
    async with session_of(made.root, "old", cwd="/far"):
        pass
    file = made.root / "--far--" / "old" / "meta.json"
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
        document = json.loads(file.read_bytes())
        file.write_text(json.dumps({**document, "stranger": 1}))
        assert (await runtime.backups.now()).commit is None
        report = await runtime.backups.now(complete=True)
        assert report.files == 1
        assert json.loads(made.at("--far--/old/meta.json"))["stranger"] == 1


@pytest.mark.parametrize("rule", ["*.json filter=upper", "*.json ident"])
async def test_attributes_of_the_store_apply_to_what_is_committed(made: StoreRepository, rule: str) -> None:
    made.git("config", "filter.upper.clean", "tr a-z A-Z")
    (made.root / ".gitattributes").write_text(f"{rule}\n")
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"abc": 1}})
        await runtime.backups.now()
        await runtime.checkpoint()
    is_filtered = "upper" in rule
    config = (made.root / FOLDER / "s1" / "config.json").read_text()
    assert made.at(f"{FOLDER}/s1/config.json") == (config.upper() if is_filtered else config)
    assert ".gitattributes" not in made.files()
    assert made.status() == set()


async def test_a_repository_of_another_hash_is_backed_up_too(tmp_path: Path) -> None:
    made = store_repository(tmp_path)
    shutil.rmtree(made.root / ".git")
    made.git("init", "-q", "-b", "main", "--object-format=sha256")
    async with backed(made) as (runtime, session):
        for number in range(2):
            await session.patch_state(session={"working": {"n": number}})
            report = await runtime.backups.now()
    assert len(report.commit or "") == 64
    assert made.count() == 2
    assert made.git("fsck", "--strict", "--no-dangling") == ""
