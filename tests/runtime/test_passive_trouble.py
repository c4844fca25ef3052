"""Passive beside a store that can not be written: one fence, reads go on, a later choice clears it (L27, case 139)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.hand_stores import CWD, SHARED_FILES
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, value
from strataflow.runtime import Mode
from strataflow.runtime.host_log import MemoryEntries

LOCK = ".state-flow-publication.lock"


def lock_is_a_folder(root: Path) -> Callable[[], None]:
    (root / LOCK).mkdir()
    return (root / LOCK).rmdir


def private_file_is_malformed(root: Path) -> Callable[[], None]:
    (path,) = root.glob("*/main/runtime.json")
    text = path.read_text()
    path.write_text("{broken")

    def repair() -> None:
        path.write_text(text)

    return repair


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*.json*") if ".strataflow" not in path.parts}


def fences(entries: MemoryEntries) -> list[Any]:
    found = [entry["data"] for entry in entries.entries if entry["type"] == "custom"]
    return [data for data in found if "persistenceError" in data]


@holds("L27", "case agent 139", "case store 87", "case store 88", "case store 89", "store 4.2.3", "store 4.2.4")
@pytest.mark.parametrize("cleared_by", ["passive", "active"])
@pytest.mark.parametrize("trouble", [lock_is_a_folder, private_file_is_malformed])
async def test_passive_over_a_store_in_trouble_fences_once_and_a_choice_after_repair_clears_it(
    tmp_path: Path, trouble: Callable[[Path], Callable[[], None]], cleared_by: Mode
) -> None:
    root = tmp_path / "s"
    entries = MemoryEntries()
    async with opened(root, share_with_pi=True) as runtime:
        session = await runtime.open_session(CWD, "main", "active", entries=entries)
        await session.patch_state(session={"working": {"a": 1}}, global_={"working": {"g": 1}})
        repair = trouble(root)
        before = files(root)
        for _ in range(2):
            assert await session.set_mode("passive") == "passive"
            status = await session.inspect()
            assert (status.mode, session.indicator) == ("passive", "state-flow passive")
            assert status.paused is not None
            assert len(fences(entries)) == 1
        assert await value(session, "global.working.g") == 1
        for call in (session.patch_state(session={"working": {"a": 2}}), session.patch_state(cwd={"working": {}})):
            with refused("E_FENCED"):
                await call
        assert files(root) == before
        repair()
        assert await session.set_mode(cleared_by) == cleared_by
        assert (await session.inspect()).paused is None
        assert await value(session, "session.working.a") == 1
        await session.patch_state(session={"working": {"a": 3}})
        assert await value(session, "session.working.a") == 3


@holds("case store 69", "store 3.5.1", "store 3.5.2")
async def test_a_prompt_prepared_beside_absent_shared_pairs_creates_them_empty_without_a_step(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        await session.patch_state(session={"working": {"a": 1}})
    shared = [folder / name for folder in (root, root / "--project--") for name in SHARED_FILES]
    for path in shared:
        path.unlink(missing_ok=True)
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main")
        step = (await session.status())["step"]
        async with session.run("go") as run:
            await run.project([])
            await runtime.checkpoint()
            assert all(path.exists() for path in shared)
            assert (root / "--project--/checkpoint.json").read_text() == "{}\n"
            assert (root / "--project--/patches.jsonl").read_bytes() == b""
            assert (await session.status())["step"] == step
            revision = (await session.status())["revision"]
            await run.project([])
            assert (await session.status())["revision"] == revision
            assert await value(session, "session.working.a") == 1
