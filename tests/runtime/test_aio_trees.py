"""A session's tree on an asyncio loop: the same calls, and a cancelled one is there whole or not at all."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from kit.hand_stores import CWD
from kit.session_trees import assistant, user
from strataflow import OwnedTree, SessionTree, aio


def test_a_tree_is_written_read_moved_and_forked_from_an_asyncio_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_runtime(str(tmp_path), durability="process") as runtime:
            session = await runtime.open_session(CWD, "ann", "active", tree=True)
            tree = session.tree
            assert tree is not None
            said = user("Hello")
            first = await tree.append_message(said)
            async with session.run("Hello"):
                await tree.append_message(assistant("Yes?"))
            await session.set_mode("passive")
            summary = await tree.branch_with_summary(first, "We greeted.", {"by": "test"})
            assert (session.mode, tree.get_leaf_id()) == ("active", summary)
            await tree.branch(first)
            child = await session.fork("child")
            assert child.tree is not None
            assert first in await child.tree.get_branch_ids()
            path = tree.get_session_file()
            assert path is not None
            assert await tree.get_entries() == SessionTree.open(path).get_entries()
            assert (await tree.build_session_context()).messages == [said]

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(0, 30, 3))
def test_a_cancelled_append_is_in_the_file_whole_or_not_at_all(tmp_path: Path, turns: int) -> None:
    async def main() -> None:
        async with aio.open_runtime(str(tmp_path), durability="process") as runtime:
            tree = (await runtime.open_session(CWD, "ann", "off", tree=True)).tree
            assert tree is not None
            task = asyncio.create_task(tree.append_message(user("Hello"), entry_id="mine"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            is_cancelled = await asyncio.gather(task, return_exceptions=True) != ["mine"]
            found = await tree.get_entry("mine")
            assert found is not None or is_cancelled
            await tree.append_message(assistant("Yes?"))
            path = tree.get_session_file()
            assert path is not None
            ids = [entry["id"] for entry in SessionTree.open(path).get_entries()]
            assert ("mine" in ids) == (found is not None)

    asyncio.run(main())


def test_both_sides_have_the_same_calls_with_the_same_arguments() -> None:
    def shapes(kind: type) -> dict[str, list[tuple[str, object, object]]]:
        calls = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
        return {
            name: [(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()]
            for name, call in calls.items()
        }

    assert shapes(aio.OwnedTree) == shapes(OwnedTree)
    for name in shapes(OwnedTree):
        waits = inspect.iscoroutinefunction(getattr(OwnedTree, name))
        assert inspect.iscoroutinefunction(getattr(aio.OwnedTree, name)) == waits, name


def test_what_was_asked_for_first_is_in_the_file_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_runtime(str(tmp_path), durability="process") as runtime:
            tree = (await runtime.open_session(CWD, "ann", "off", tree=True)).tree
            assert tree is not None
            for _ in range(5):
                ids = await asyncio.gather(*(tree.append_message(user(f"{number}")) for number in range(20)))
                assert (await tree.get_branch_ids())[-20:] == ids

    asyncio.run(main())
