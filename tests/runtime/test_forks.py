"""Forks: a child begins with its parent's private memory as it is now, and then both are independent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.agent_loops import AgentLoop, head_of
from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, refused, value, values
from strataflow.runtime.host_log import MemoryEntries


def private_files(root: Path, session_id: str) -> dict[str, bytes]:
    (folder,) = root.glob(f"*/{session_id}")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@holds("L7", "store 6.4.1", "store 6.4.2", "store 6.4.7", "case store 97", "case agent 143")
async def test_a_child_has_its_parents_latest_memory_and_a_life_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active")
        for step in range(9):
            await parent.patch_state(session={"working": {"step": step}}, cwd={"working": {"shared": step}})
        async with parent.run("unfinished") as run:
            await run.project([])
        child = await parent.fork("child")
        status = await child.status()
        assert (child.mode, status["step"], status["history_depth"], status["revision"]) == ("active", 0, 0, "g0c9s9")
        assert await values(child, "session.working.step", "cwd.working.shared") == [8, 8]
        assert child._cell.record is not None
        assert child._cell.record.specification is None
        async with child.run("go") as run:
            head = head_of(await run.project([]))
        assert "recent_transitions" not in head
        await child.patch_state(session={"working": {"step": "child"}})
        await parent.patch_state(session={"working": {"step": "parent"}})
        assert await values(child, "session.working.step", "session[1].working.step") == ["child", 8]
        with refused("E_BRANCH"):
            await parent.fork("child")
    async with opened(root) as runtime:
        child = await runtime.open_session(CWD, "child")
        assert await values(child, "session.working.step", "session[1].working.step") == ["child", 8]
        assert (await child.status())["step"] == 1


@holds("store 6.4.3", "case store 101")
async def test_a_fork_and_its_patches_leave_the_parents_files_alone(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "passive")
        await parent.patch_state(session={"working": {"a": 1}, "artifacts": {"/x": {"description": "d"}}})
        await runtime.checkpoint()
        before = private_files(root, "parent")
        child = await parent.fork("child")
        assert child.mode == "passive"
        await child.patch_state(session={"working": {"a": 2}})
        await runtime.checkpoint()
        assert private_files(root, "parent") == before
        assert json.loads(private_files(root, "child")["runtime.json"])["step"] == 1


@holds("store 6.4.4", "case store 98", "case store 99")
@pytest.mark.parametrize("name", ["config.json", "state.json", "checkpoint.json"])
async def test_a_fork_to_a_folder_with_a_file_in_it_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active")
        await parent.patch_state(session={"working": {"a": 1}})
        await runtime.checkpoint()
        (folder,) = root.glob("*/parent")
        child = folder.parent / "child"
        child.mkdir()
        (child / name).write_text("{}")
        with refused("E_CORRUPT", "E_UNSUPPORTED", "E_BRANCH"):
            await parent.fork("child")
        assert [path.name for path in child.iterdir()] == [name]


@holds("store 6.4.4", "case store 99")
async def test_a_fork_needs_another_id_and_a_parent_with_memory(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "passive")
        with refused("E_BRANCH"):
            await parent.fork("parent")
        with refused("E_BRANCH"):
            await parent.fork("child")
        with refused("E_UNSUPPORTED"):
            await parent.fork("no/name")
        await parent.patch_state(session={"working": {"a": 1}})
        await runtime.checkpoint()
        await parent.aclose()
        (path,) = root.glob("*/parent/runtime.json")
        path.unlink()
        parent = await runtime.open_session(CWD, "parent", "passive")
        with refused("E_CORRUPT"):
            await parent.fork("child")
        assert list(root.glob("*/child")) == []


@holds("store 6.4.6", "case store 102", "L7")
async def test_a_fork_in_off_mode_copies_when_a_mode_is_chosen_also_after_a_restart(tmp_path: Path) -> None:
    root = tmp_path / "s"
    entries = MemoryEntries()
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active")
        await parent.patch_state(session={"working": {"a": 1}})
        await parent.set_mode("off")
        child = await parent.fork("child", entries=entries)
        at_once = await parent.fork("other")
        assert (child.mode, at_once.mode) == ("off", "off")
        await at_once.set_mode("active")
        assert await value(at_once, "session.working.a") == 1
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active")
        await parent.patch_state(session={"working": {"a": 2}})
        child = await runtime.open_session(CWD, "child", entries=MemoryEntries([*entries.entries]))
        assert child.mode == "off"
        await child.set_mode("passive")
        assert await value(child, "session.working.a") == 2
        await child.set_mode("active")
        await parent.patch_state(session={"working": {"a": 3}})
        assert await value(child, "session.working.a") == 2
        assert (await child.status())["step"] == 0


@holds("store 6.4.5", "L7")
async def test_of_two_forks_to_one_id_by_two_processes_one_wins(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as first, opened(root) as second:
        parent = await first.open_session(CWD, "parent", "active")
        await parent.patch_state(session={"working": {"a": 1}})
        same = await second.open_session(CWD, "parent", "active")
        await parent.fork("child")
        with refused("E_BRANCH"):
            await same.fork("child")


@holds("case store 100", "store 6.4.5")
@pytest.mark.parametrize("name", ["checkpoint.json", "patches.jsonl", "runtime.json"])
async def test_a_parent_whose_file_was_altered_by_others_is_not_copied(tmp_path: Path, name: str) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active")
        await parent.patch_state(session={"working": {"a": 1}})
        await runtime.checkpoint()
        (path,) = root.glob(f"*/parent/{name}")
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"1", b"2") + b" ")
        with refused("E_CHANGED", "E_CORRUPT"):
            await parent.fork("child")
        assert list(root.glob("*/child")) == []
        path.write_bytes(kept)
        child = await parent.fork("child")
        assert await value(child, "session.working.a") == 1


@holds("L39")
async def test_an_inspection_looks_at_a_session_in_any_mode_and_opens_nothing(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "active")
        await session.patch_state(session={"working": {"a": 1}})
        await AgentLoop(session).turn("go")
        await session.set_mode("off")
        status = await runtime.inspect(CWD, "main")
        assert status.effective == {"working": {"a": 1}, "response": "Done."}
        assert session.mode == "off"
        nobody = await runtime.inspect(CWD, "nobody")
        assert (nobody.run, nobody.scopes.keys()) == (None, {"global", "cwd"})
        assert list(root.glob("*/nobody")) == []
