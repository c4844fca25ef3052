"""Backups of one moment beside a writer, and what becomes of a store into which somebody brings one back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.git_repositories import CWD, FOLDER, StoreRepository, backed, git, store_repository
from kit.holds import holds
from kit.runtimes import opened, value
from strataflow.actors import Command, Ended
from strataflow.runtime import inspect_store
from strataflow.runtime.processes import SystemProcesses


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path)


@holds("case store 115", "store 5.2.3", "store 2.3.4")
async def test_what_is_written_while_git_works_is_in_the_next_backup(
    made: StoreRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SystemProcesses.run
    async with backed(made) as (runtime, session):
        await session.patch_state(global_={"working": {"g": 1}}, session={"working": {"g": 1}})

        async def run(self: SystemProcesses, command: Command) -> Ended:
            # No lock of the store is held while Git works: neither a commit nor a checkpoint waits for it.
            if "hash-object" in command.arguments:
                await session.patch_state(global_={"working": {"g": 2}}, session={"working": {"g": 2}})
                await runtime.checkpoint()
            return await real(self, command)

        monkeypatch.setattr(SystemProcesses, "run", run)
        await runtime.backups.now()
        monkeypatch.setattr(SystemProcesses, "run", real)
        await runtime.backups.now()
    for back, generation in ((1, 1), (0, 2)):
        for folder in ("", f"{FOLDER}/s1/"):
            lines = made.at(f"{folder}patches.jsonl", f"HEAD~{back}").splitlines()
            assert json.loads(lines[-1])["working"] == {"g": generation}


@holds("store 5.4.9", "store 4.1.1", "Ours-1")
async def test_a_damaged_store_is_not_repaired_from_its_repository(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.backups.now()
    file = made.root / FOLDER / "s1" / "patches.jsonl"
    file.write_text("{torn")
    async with opened(made.root) as runtime:
        await runtime.open_session(CWD, "s1", "active")
    assert file.read_text() == "{torn"
    assert inspect_store(store=str(made.root)).diagnose().is_clean is False


async def test_a_restored_backup_wins_and_the_doctor_confirms_it(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": "old"}})
        await runtime.backups.now()
        old = made.head()
        await session.patch_state(session={"working": {"a": "new"}})
        await runtime.backups.now()
    made.git("checkout", "-q", str(old), "--", ".")
    async with opened(made.root) as runtime:
        session = await runtime.open_session(CWD, "s1", "active")
        assert await value(session, "session.working.a") == "old"
        report = await runtime.backups.now(complete=True)
        assert report.commit is not None
    findings = inspect_store(store=str(made.root)).diagnose().findings
    assert [finding.line() for finding in findings if finding.severity == "problem"] == []


async def test_a_clone_is_a_store_of_its_own_with_the_same_memory(made: StoreRepository, tmp_path: Path) -> None:
    made.with_remote()
    async with backed(made) as (runtime, session):
        await session.patch_state(global_={"working": {"g": 1}}, session={"working": {"a": 1}})
        await session.accept_response("done")
        await runtime.backups.wait_pushed()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(made.remote), str(clone))
    assert inspect_store(store=str(clone)).diagnose().is_clean
    async with opened(clone) as runtime:
        session = await runtime.open_session(CWD, "s1", "active")
        assert await value(session, "effective.working") == {"g": 1, "a": 1}
        assert (await runtime.backups.now()).head is not None
