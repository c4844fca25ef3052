"""Files under an open store are removed: nothing acknowledged is lost, nothing is told that does not hold, all heals.

Goal: J9. Method: real runtimes and files; the parts of ``.strataflow`` go while rows are in the journal alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.holds import holds
from kit.runtimes import opened, refused, value
from strataflow.store import RealDisk, StoreError

PI_LOCK = ".state-flow-publication.lock"


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@holds("J9", "design M1")
@pytest.mark.parametrize(
    "gone, share_with_pi",
    [(".strataflow/journal.db", False), (".strataflow", False), ("", False), (".strataflow/journal.db", True)],
)
async def test_what_was_acknowledged_is_kept_aside_when_its_journal_is_removed(
    tmp_path: Path, gone: str, share_with_pi: bool
) -> None:
    root = tmp_path / "state-flow"
    async with opened(root, share_with_pi=share_with_pi) as runtime:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(global_={"working": {"acknowledged": 1}})
        remove(root / gone)
        with refused("E_BROKEN"):
            await session.patch_state(global_={"working": {"unknown": 1}})
        if not share_with_pi:  # there, what was acknowledged is in the canonical files at once
            kept = "".join(path.read_text() for path in (root / ".strataflow/superseded").iterdir())
            assert '"acknowledged"' in kept
            assert '"unknown"' in kept
        assert (await session.patch_state(global_={"working": {"after": 1}})).changed
        report = await runtime.aclose()
    assert (report.was_last, report.pi_lock_removed, report.left_behind) == (True, True, ())
    assert not (root / PI_LOCK).exists()
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        assert (await value(session, "global.working"))["after"] == 1


@holds("J9")
async def test_a_call_that_changes_nothing_is_not_answered_on_removed_ground(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(global_={"working": {"acknowledged": 1}})
        remove(tmp_path / "state-flow/.strataflow/journal.db")
        with refused("E_BROKEN"):
            await session.patch_state(global_={"working": {"acknowledged": 1}})


@holds("J9")
async def test_another_process_is_let_in_after_the_journal_was_begun_anew(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        remove(root / ".strataflow")
        with refused("E_BROKEN"):
            await session.patch_state(global_={"working": {"unknown": 1}})
        async with opened(root) as second:
            other = await second.open_session("/project", "other", "active")
            assert (await other.patch_state(global_={"working": {"both": 1}})).changed
        assert (root / PI_LOCK).exists()
        seen = (await session.read_state("global.working", fresh=True)).value
        assert seen == {"both": 1}


@holds("J9", "design M1")
async def test_nobody_opens_a_journal_whose_index_was_removed_under_others(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(global_={"working": {"first": 1}})
        remove(root / ".strataflow/journal.db-shm")
        with refused("E_LOCK"):
            async with opened(root):
                pass
        assert (await session.patch_state(global_={"working": {"second": 1}})).changed
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        assert await value(session, "global.working") == {"first": 1, "second": 1}


@holds("J9", "design M4", "Ours-17")
async def test_an_append_whose_ground_can_not_be_looked_at_is_of_unknown_outcome_and_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", mode="active")

        look = RealDisk.identity

        def fail_once(disk: RealDisk, path: str) -> tuple[int, int] | None:
            monkeypatch.setattr(RealDisk, "identity", look)
            raise StoreError("E_DISK", f"{path}: input/output error", path=path)

        monkeypatch.setattr(RealDisk, "identity", fail_once)
        with refused("E_BROKEN"):
            await session.patch_state(global_={"working": {"appended": 1}})
        found = await session.read_state("global.working", fresh=True)
        assert found.value == {"appended": 1}
        assert (await session.patch_state(global_={"working": {"appended": 1}})).changed is False
