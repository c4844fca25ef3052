"""When a session's tree goes to another branch, memory follows; and a child begins with the path to the leaf.

Where something waits, it is on a MockClock.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kit.hand_stores import CWD
from kit.holds import holds
from kit.owned_trees import file_of, opened, tree_of
from kit.runtimes import refused
from kit.session_trees import assistant, objects, user
from kit.simulated_runtimes import GatedThreads, fail_once, run_seeded, simulated
from strataflow import SessionTree
from strataflow.runtime.simulation.seams import SimulatedMachine


@holds("store 6.2.4", "L2", "L4")
async def test_the_mode_is_that_of_the_branch_and_memory_stays_as_it_is_now(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "active", tree=True)
        tree = tree_of(session)
        asked = await tree.append_message(user("Hello"))
        await session.patch_state(session={"working": {"n": 1}})
        await session.set_mode("passive")
        await tree.append_message(assistant("Later"))
        quiet = tree.get_leaf_id()
        assert quiet is not None
        before = Path(file_of(session)).read_bytes()
        await tree.branch(asked)
        assert (session.mode, tree.get_leaf_id()) == ("active", asked)
        assert (await session.read_state("session.working.n")).value == 1
        await tree.branch(quiet)
        assert session.mode == "passive"
        assert Path(file_of(session)).read_bytes() == before  # going elsewhere writes nothing
        await tree.branch(asked)
        await session.patch_state(session={"working": {"n": 2}})
        assert (await session.read_state("session.working.n")).value == 2
        summary = await tree.branch_with_summary(quiet, "We changed n.")
        assert (session.mode, tree.get_leaf_id()) == ("passive", summary)
        # A place where the branch says nothing of modes keeps the present one.
        await tree.reset_leaf()
        assert (session.mode, tree.get_leaf_id()) == ("passive", None)
        with refused("E_MISSING"):
            await tree.branch("nobody")
        assert tree.get_leaf_id() is None


@holds("L12")
def test_going_elsewhere_ends_the_run_and_withdraws_what_waits() -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)
        async with simulated(machine) as runtime:
            session = await runtime.open_session(CWD, "ann", "active", tree=True)
            tree = tree_of(session)
            asked = await tree.append_message(user("Hello"))
            await tree.append_message(assistant("Yes?"))
            turn = machine.locks.of("stranger").open(f"{machine.root}/.strataflow/turn.lock")
            assert turn.try_acquire()
            async with session.run("Think") as run:

                async def project() -> None:
                    with refused("E_ABORTED"):
                        await run.project([])

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(project)
                    await trio.sleep(1)  # it waits for the turn
                    nursery.start_soon(tree.branch, asked)
                    await trio.sleep(1)
                    turn.close()
                with refused("E_ABORTED"):
                    await run.finish("Too late")
            assert tree.get_leaf_id() == asked
            notes = [entry["data"] for entry in await tree.get_entries() if entry["type"] == "custom"]
            assert [note.get("specification") for note in notes] == [None]

    run_seeded(3, body)


@holds("store 6.1.2", "L28")
async def test_a_branch_that_is_off_lets_go_of_memory_and_one_that_is_not_takes_it_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "active", tree=True)
        tree = tree_of(session)
        awake = await tree.append_message(user("Hello"))
        await session.set_mode("off")
        asleep = await tree.append_message(assistant("Yes?"))
        await tree.branch(awake)
        assert session.mode == "active"
        await session.patch_state(session={"working": {"n": 1}})
        await tree.branch(asleep)
        assert session.mode == "off"
        with refused("E_OFF"):
            await session.read_state("session.working.n")


@holds("L8")
def test_memory_that_can_not_follow_blocks_the_session_until_a_mode_is_selected() -> None:
    async def body() -> None:
        machine = SimulatedMachine(1)
        async with simulated(machine) as runtime:
            session = await runtime.open_session(CWD, "ann", "active", tree=True)
            tree = tree_of(session)
            asked = await tree.append_message(user("Hello"))
            await session.set_mode("passive")
            await tree.append_message(assistant("Yes?"))
            machine.disk.before_operation = fail_once("append", "journal.db-wal")
            await tree.branch(asked)
            assert (tree.get_leaf_id(), session.mode, session.indicator) == (
                asked,
                "active",
                "state-flow active (blocked)",
            )
            with refused("E_DISK", "E_BROKEN"):
                await session.patch_state(session={"working": {"n": 1}})
            assert await session.set_mode("active") == "active"
            await session.patch_state(session={"working": {"n": 1}})

    run_seeded(3, body)


def test_a_mode_chosen_while_the_tree_moves_is_the_one_that_holds() -> None:
    async def body() -> None:
        threads = GatedThreads()
        async with simulated(SimulatedMachine(1), threads=threads) as runtime:
            session = await runtime.open_session(CWD, "ann", "active", tree=True)
            tree = tree_of(session)
            asked = await tree.append_message(user("Hello"))
            await session.set_mode("passive")
            await tree.append_message(assistant("Yes?"))
            gate = threads.hold("commit")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tree.branch, asked)
                await trio.testing.wait_all_tasks_blocked()
                await session.set_mode("off")
                gate.set()
            assert session.mode == "off"
            assert [entry["id"] for entry in await tree.get_branch()][-2:-1] == [asked]  # behind it: off was chosen
            assert await session.set_mode("active") == "active"

    run_seeded(3, body)


@holds("store 6.4.1", "store 6.4.7")
async def test_a_child_has_the_path_to_the_leaf_in_a_file_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active", tree=True)
        tree = tree_of(parent)
        first = await tree.append_message(user("Hello"))
        left = await tree.append_message(assistant("Left behind"))
        await tree.branch(first)
        taken = await tree.append_message(assistant("Taken along"))
        await parent.patch_state(session={"working": {"n": 1}})
        child = await parent.fork("child")
        parents_file = Path(file_of(parent)).read_bytes()
        header = tree_of(child).get_header()
        assert (header["id"], header["parentSession"], header["cwd"]) == ("child", file_of(parent), CWD)
        assert Path(file_of(child)).parent == Path(file_of(parent)).parent
        ids = await tree_of(child).get_branch_ids()
        assert (first in ids, taken in ids, left in ids) == (True, True, False)
        assert (await child.read_state("session.working.n")).value == 1
        await tree_of(child).append_message(user("Mine"))
        assert Path(file_of(parent)).read_bytes() == parents_file
        assert tree.get_leaf_id() not in (None, tree_of(child).get_leaf_id())
        grandchild = await child.fork("grandchild")
        assert tree_of(grandchild).get_header()["parentSession"] == file_of(child)
    async with opened(tmp_path) as runtime:
        child = await runtime.open_session(CWD, "child", tree=True)
        assert child.mode == "active"
        assert objects(file_of(child))[1:] == await tree_of(child).get_entries()


@holds("store 6.4.4")
async def test_a_fork_that_is_refused_leaves_no_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active", tree=True)
        await (await runtime.open_session(CWD, "known", "active")).aclose()
        await (await runtime.open_session(CWD, "filed", "off", tree=True)).aclose()
        files = sorted(path.name for path in (tmp_path / "sessions").rglob("*.jsonl"))
        for name in ("known", "filed"):
            with refused("E_BRANCH"):
                await parent.fork(name)
        with refused("E_SHAPE"):
            await parent.fork("other", entries=tree_of(parent)._tree)
        assert sorted(path.name for path in (tmp_path / "sessions").rglob("*.jsonl")) == files
        assert (await tree_of(await parent.fork("child")).get_entries()) != []


@holds("store 6.4.6", "L7")
async def test_a_child_of_a_session_that_is_off_copies_memory_when_it_is_wanted(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        parent = await runtime.open_session(CWD, "parent", "active", tree=True)
        await parent.patch_state(session={"working": {"n": 1}})
        await parent.set_mode("off")
        child = await parent.fork("child")
        assert child.mode == "off"
        await parent.set_mode("active")
        await parent.patch_state(session={"working": {"n": 2}})
    async with opened(tmp_path) as runtime:
        child = await runtime.open_session(CWD, "child", tree=True)
        assert child.mode == "off"
        await child.set_mode("active")
        assert (await child.read_state("session.working.n")).value == 2


async def test_a_tree_in_memory_is_forked_in_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        tree = SessionTree.in_memory(CWD, session_id="parent")
        parent = await runtime.open_session(CWD, "parent", "active", tree=tree)
        await tree_of(parent).append_message(user("Hello"))
        child = await parent.fork("child")
        assert (tree_of(child).get_session_file(), tree_of(child).get_session_id()) == (None, "child")
        assert "message" in [entry["type"] for entry in await tree_of(child).get_branch()]
        assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize("is_empty", [True, False])
async def test_a_child_of_an_empty_place_begins_empty(tmp_path: Path, is_empty: bool) -> None:
    async with opened(tmp_path) as runtime:
        parent = await runtime.open_session(CWD, "parent", "off", tree=True)
        if not is_empty:
            await tree_of(parent).append_message(user("Hello"))
        await tree_of(parent).reset_leaf()
        child = await parent.fork("child")
        assert [entry for entry in await tree_of(child).get_entries() if entry["type"] == "message"] == []
        assert objects(file_of(child))[0]["parentSession"] == file_of(parent)
