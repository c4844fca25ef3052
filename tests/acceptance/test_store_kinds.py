"""The kinds of transactions behind the API: what each may create, writes and refuses (store 6.6), mixed-up files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.hand_stores import CWD, PRIVATE_FILES, SHARED_FILES
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, value, values
from strataflow.runtime import Runtime, Session, Transaction
from strataflow.runtime.host_log import MemoryEntries


def kinds(runtime: Runtime) -> list[str]:
    """The kinds of the journal's rows, oldest first."""
    return [row.content.kind for row in runtime._world.journal.rows_since(0, 1_000)]


def contents(root: Path) -> dict[str, bytes]:
    """The canonical files by their path in the store."""
    found = [path for path in root.rglob("*.json*") if ".strataflow" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.is_file()}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def private(session_id: str, *names: str) -> set[str]:
    return {f"--project--/{session_id}/{name}" for name in names}


@holds("store 6.6.1")
async def test_a_patch_creates_store_origin_and_shared_pairs_and_writes_what_it_changes(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "passive")
        assert kinds(runtime) == []
        await session.patch_state(session={"working": {"a": 1}})
        assert kinds(runtime) == ["transition"]
        await runtime.checkpoint()
        made = contents(root)
        shared = {*SHARED_FILES, *(f"--project--/{name}" for name in SHARED_FILES)}
        assert made.keys() == shared | private("main", *PRIVATE_FILES)
        await session.patch_state(cwd={"working": {"a": 1}})
        await runtime.checkpoint()
        written = changed(made, contents(root))
        assert written == {"--project--/patches.jsonl", "--project--/meta.json", "--project--/main/runtime.json"}


@holds("store 6.6.1", "store 6.1.3")
async def test_a_lifecycle_creates_nothing_and_writes_config_and_runtime_alone(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        fresh = await runtime.open_session(CWD, "fresh", "passive")
        await fresh.set_mode("off")
        await fresh.set_mode("passive")
        assert kinds(runtime) == []
        session = await runtime.open_session(CWD, "main", "active")
        await session.patch_state(global_={"working": {"a": 1}}, session={"working": {"a": 1}})
        await runtime.checkpoint()
        before = contents(root)
        await session.set_mode("passive")
        assert kinds(runtime)[-1] == "lifecycle"
        await runtime.checkpoint()
        assert changed(before, contents(root)) <= private("main", "config.json", "runtime.json")
        assert json.loads((root / "--project--/main/config.json").read_text()) == {"mode": "passive"}


@holds("store 6.6.1", "store 6.2.2")
async def test_a_start_creates_an_origin_only_where_no_private_file_is(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "first") as session:
        await session.patch_state(session={"working": {"a": 1}})
    async with opened(root) as runtime:
        await runtime.open_session(CWD, "main", "active")
        assert kinds(runtime)[-1] == "origin"
        await runtime.checkpoint()
        assert json.loads((root / "--project--/main/runtime.json").read_text())["step"] == 0
    for name in PRIVATE_FILES:
        partial = root / "--project--" / f"partial-{name.partition('.')[0]}"
        partial.mkdir()
        shutil.copy(root / "--project--/main" / name, partial)
        before = contents(root)
        async with opened(root) as runtime:
            session = await runtime.open_session(CWD, partial.name, "active")
            assert session.indicator == "state-flow active (blocked)"
            with refused("E_CORRUPT"):
                await session.patch_state(session={"working": {"a": 1}})
        assert contents(root) == before


@holds("store 6.6.1", "store 6.4.2")
async def test_a_fork_writes_the_child_alone_and_refuses_one_that_exists(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active")
        await parent.patch_state(session={"working": {"a": 1}})
        await runtime.checkpoint()
        before = contents(root)
        await parent.fork("child")
        assert kinds(runtime)[-1] == "fork"
        await runtime.checkpoint()
        after = contents(root)
        assert changed(before, after) == private("child", *PRIVATE_FILES)
        with refused("E_BRANCH"):
            await parent.fork("child")
        await runtime.checkpoint()
        assert contents(root) == after


@holds("store 6.6.1")
async def test_what_a_callback_publishes_is_published_once_and_never_after_its_end(tmp_path: Path) -> None:
    kept: list[Transaction] = []
    async with session_of(tmp_path / "s") as session, session_of(tmp_path / "s", "other") as other:
        await session.patch_state(global_={"working": {"count": 0}})

        async def count(tx: Transaction) -> int:
            kept.append(tx)
            found: int = tx.read("global.working.count").value
            if len(kept) == 1:  # somebody else is faster, so this attempt is in vain and nothing of it stays
                await other.patch_state(global_={"working": {"count": 10}})
            tx.patch(global_={"working": {"count": found + 1}}, session={"working": {f"saw{found}": True}})
            return found + 1

        assert await session.transact(count) == 11
        assert await values(session, "global.working.count", "session.working") == [11, {"saw10": True}]
        for ended in kept:
            with refused("E_ABORTED"):
                ended.patch(global_={"working": {"count": 100}})
            with refused("E_ABORTED"):
                ended.read("global.working.count")
        assert await value(session, "global.working.count") == 11


class FailingEntries(MemoryEntries):
    """A host's log that takes nothing."""

    def append(self, custom_type: str, data: Any) -> None:
        raise OSError(28, "No space left on device")


@holds("store 6.6.2", "L31")
async def test_what_fails_after_a_publication_does_not_undo_it(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        session: Session = await runtime.open_session(CWD, "main", "active", entries=FailingEntries())
        receipt = await session.patch_state(session={"working": {"a": 1}})
        assert (receipt.changed, receipt.step) == (True, 1)

        async def fail_late() -> None:
            async with session.run("go") as run:
                await run.project([])
                await run.finish("Done.")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_late()
        assert await value(session, "session.response") == "Done."
    async with session_of(root, "main", mode=None) as session:
        assert await values(session, "session.response", "session.working.a") == ["Done.", 1]


@holds("case store 93", "store 3.6.9")
@pytest.mark.parametrize("names", [PRIVATE_FILES, SHARED_FILES], ids=["all-files", "memory-alone"])
async def test_files_of_another_session_in_a_sessions_folder_are_refused(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    root = tmp_path / "s"
    async with session_of(root, "A") as session:
        await session.patch_state(session={"working": {"mine": "A"}})
    async with session_of(root, "B") as session:
        for step in range(3):
            await session.patch_state(session={"working": {"mine": f"B{step}"}})
    for name in names:
        shutil.copy(root / "--project--/B" / name, root / "--project--/A" / name)
    before = contents(root)
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "A", "active")
        assert session.indicator == "state-flow active (blocked)"
        status = await session.inspect()
        assert status.blocked is not None
        assert status.blocked.startswith("E_CORRUPT")
        assert ("lineage" in status.blocked) == (names is SHARED_FILES)
        for call in (session.read_state("session.working"), session.patch_state(session={"working": {"a": 1}})):
            with refused("E_CORRUPT"):
                await call
        other = await runtime.open_session(CWD, "B", "active")
        assert await value(other, "session.working.mine") == "B2"
    assert {name: text for name, text in contents(root).items() if "/A/" in name} == {
        name: text for name, text in before.items() if "/A/" in name
    }


@holds("case store 96", "store 4.1.3")
async def test_a_look_at_a_session_that_is_not_selected_gives_no_right_to_write(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        for step in range(3):
            await session.patch_state(session={"working": {"step": step}})
    async with opened(root, history_limit=0) as runtime:
        session = await runtime.open_session(CWD, "main", "off")
        before = contents(root)
        status = await session.inspect()
        assert (status.effective, status.depth, status.mode) == ({"working": {"step": 2}}, 0, "off")
        assert status.run is not None
        assert (status.run.step, status.run.specification) == (3, None)
        with refused("E_OFF"):
            await session.patch_state(session={"working": {"step": 3}})
        assert contents(root) == before
        nobody = await runtime.inspect(CWD, "nobody")
        assert nobody.run is None
