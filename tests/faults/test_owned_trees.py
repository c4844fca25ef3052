"""A session that owns its tree is cancelled, killed and cut from power at every step.

Goal: its file always opens and says whose it is; an entry that was acknowledged is there once; a cancelled append is
there whole or not at all; a child is there whole or not at all; no lock is held afterwards.

Method: as in ``test_cancel_everywhere``, a story is cancelled one step later each time, on a MockClock. Then it runs
once, and before each operation of the disk the machine is looked at as it would be after ``kill -9`` and after three
kinds of power cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from kit.cancelling import CancelAt, every_cancellation
from kit.hand_stores import CWD
from kit.owned_trees import tree_of
from kit.session_trees import assistant, user
from kit.simulated_runtimes import run_seeded, simulated
from strataflow import Session, StoreError
from strataflow.runtime.simulation.fates import CrashMode
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.trace import TraceSeams, TraceTree, TreeOptions, open_tree

FOLDER = "/agent/sessions/--project--"


async def say(session: Session, notes: list[Any], entry_id: str) -> None:
    notes.append(("begun", entry_id))
    await tree_of(session).append_message(user(entry_id), entry_id=entry_id)
    notes.append(("acknowledged", entry_id))


async def say_late(session: Session, notes: list[Any], entry_id: str) -> None:
    """While the session closes: it is accepted, or refused."""
    try:
        await say(session, notes, entry_id)
    except StoreError as error:
        if error.code != "E_CLOSED":
            raise


async def story(machine: SimulatedMachine, notes: list[Any]) -> None:
    """A talk with a run, a branch, a child and an end; what is acknowledged is noted."""
    async with simulated(machine, history_limit=2) as runtime:
        session = await runtime.open_session(CWD, "main", "active", tree=True)
        tree = tree_of(session)
        notes.append(("acknowledged", "file of main"))
        await say(session, notes, "first")
        async with session.run("Think") as run:
            await say(session, notes, "asked")
            await run.project([])
            await session.patch_state(session={"working": {"n": 1}})
            notes.append(("begun", "answered"))
            await tree.append_message(assistant("answered"), entry_id="answered")
            notes.append(("acknowledged", "answered"))
            await run.finish("answered")
        child = await session.fork("child")
        notes.append(("acknowledged", "file of child"))
        await say(child, notes, "childs")
        await tree.branch("first")
        await say(session, notes, "again")
        await session.set_mode("off")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_late, session, notes, "late-1")
            nursery.start_soon(say_late, session, notes, "late-2")
            nursery.start_soon(session.aclose)
        await child.aclose()


def trees_on(machine: SimulatedMachine) -> dict[str, TraceTree]:
    """The session files of a machine by the id of their session, opened by a process that comes later."""
    seams = TraceSeams(machine.disk, machine.disk, machine.locks.of("later"), lambda: 0, lambda: "f" * 36)
    found: dict[str, TraceTree] = {}
    for name in machine.disk.list(FOLDER) or ():
        if name.endswith(".jsonl"):
            tree = open_tree(TraceTree, seams, f"{FOLDER}/{name}", TreeOptions(), default_cwd=CWD)
            assert tree.get_session_id() not in found
            assert name.endswith(f"_{tree.get_session_id()}.jsonl")
            found[tree.get_session_id()] = tree
    return found


def check(machine: SimulatedMachine, notes: list[Any]) -> None:
    trees = trees_on(machine)
    for session_id in ("main", "child"):
        assert ("acknowledged", f"file of {session_id}") not in notes or session_id in trees
    begun = {said for what, said in notes if what == "begun"}
    acknowledged = {said for what, said in notes if what == "acknowledged" and not said.startswith("file of")}
    said = [entry["id"] for tree in trees.values() for entry in tree.get_entries() if entry["type"] == "message"]
    assert acknowledged <= set(said) <= begun
    for session_id, tree in trees.items():
        ids = [entry["id"] for entry in tree.get_entries()]
        assert len(ids) == len(set(ids))
        assert all(entry["parentId"] is None or entry["parentId"] in ids for entry in tree.get_entries())
        if session_id == "child":
            assert {"first", "asked", "answered"} <= set(ids)
            tree.append_message(user("on"))
        else:
            tree.append_message(user("and on"))


async def open_again(machine: SimulatedMachine) -> None:
    """Memory and tree of the session open together, and go on."""
    async with simulated(machine, "second") as runtime:
        session = await runtime.open_session(CWD, "main", "active", tree=True)
        await tree_of(session).append_message(user("here again"))
        await session.patch_state(session={"working": {"again": True}})
        if "child" in {name.rpartition("_")[2].removesuffix(".jsonl") for name in machine.disk.list(FOLDER) or ()}:
            child = await runtime.open_session(CWD, "child", tree=True)
            assert (await child.read_state("session.working.n")).value == 1
        else:
            assert (await session.fork("child")).tree is not None


def test_a_session_with_a_tree_cancelled_at_any_step_leaves_whole_entries_and_no_lock() -> None:
    steps = 0
    for step, machine, notes in every_cancellation(story):
        steps += 1
        try:
            for name in machine.disk.list(FOLDER) or ():
                assert machine.locks.holder(f"{FOLDER}/{name}") is None
            assert machine.locks.holder("/agent/sessions/.strataflow.lock") is None
            assert all(name.endswith(".jsonl") for name in machine.disk.list(FOLDER) or ())
            check(machine, notes)
            run_seeded(1, lambda machine=machine: open_again(machine))  # type: ignore[misc]
        except BaseException as error:
            error.add_note(f"cancelled after step {step}, notes {notes}")
            raise
    assert steps > 100


@pytest.mark.parametrize("mode", ["kill", "keep", "torn", "lose"])
def test_what_was_acknowledged_is_there_wherever_a_process_or_the_power_ends(mode: CrashMode | str) -> None:
    machine, notes = SimulatedMachine(5), []  # type: ignore[var-annotated]
    looked = [0]

    def look(name: str, path: str) -> None:
        if not path.startswith("/agent/sessions"):
            return
        looked[0] += 1
        hook, machine.disk.before_operation = machine.disk.before_operation, lambda name, path: None
        later = machine.after_kill() if mode == "kill" else machine.after_power_cut(mode, looked[0])  # type: ignore[arg-type]
        machine.disk.before_operation = hook
        try:
            check(later, notes)
        except BaseException as error:
            error.add_note(f"before operation {looked[0]}, {name} {path}; notes {notes}")
            raise

    machine.disk.before_operation = look
    run_seeded(7, lambda: story(machine, notes))
    machine.disk.before_operation = lambda name, path: None
    check(machine, notes)
    assert looked[0] > 50


CALLS: dict[str, Callable[[Session, list[Any]], Awaitable[Any]]] = {
    "append": lambda session, notes: say(session, notes, "more"),
    "branch": lambda session, notes: tree_of(session).branch("first"),
    "branch_with_summary": lambda session, notes: tree_of(session).branch_with_summary("first", "We tried."),
    "fork": lambda session, notes: session.fork("child"),
    "read": lambda session, notes: tree_of(session).get_branch(),
    "close": lambda session, notes: session.aclose(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_the_tree_cancelled_at_any_step_leaves_tree_and_memory_together(name: str) -> None:
    for step in itertools.count(1):
        machine, notes, was_cancelled = SimulatedMachine(step), [], []  # type: ignore[var-annotated]

        async def body(
            step: int = step,
            machine: SimulatedMachine = machine,
            notes: list[Any] = notes,
            was_cancelled: list[bool] = was_cancelled,
        ) -> None:
            async with simulated(machine, history_limit=2) as runtime:
                session = await runtime.open_session(CWD, "main", "active", tree=True)
                await say(session, notes, "first")
                await session.set_mode("passive")
                await say(session, notes, "answered")
                with trio.CancelScope() as scope:
                    instrument = CancelAt(scope, step)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await CALLS[name](session, notes)
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                was_cancelled.append(scope.cancel_called)
                await trio.sleep(1)  # what had begun is completed
                session = await runtime.open_session(CWD, "main", tree=True)
                ids = await tree_of(session).get_branch_ids()
                # The mode is that of the branch on which the tree is.
                assert session.mode == ("passive" if "answered" in ids else "active")
                assert session.indicator == f"state-flow {session.mode}"
                await say(session, notes, "after")
                await session.patch_state(session={"working": {"n": 1}})
                with suppress(StoreError):
                    await session.fork("child")
                child = await runtime.open_session(CWD, "child", tree=True)
                assert "first" in await tree_of(child).get_branch_ids()
                assert child.mode != "off"

        run_seeded(7, body)
        try:
            trees = trees_on(machine)
            begun = {said for what, said in notes if what == "begun"}
            acknowledged = {said for what, said in notes if what == "acknowledged"}
            said = {entry["id"] for entry in trees["main"].get_entries() if entry["type"] == "message"}
            assert acknowledged <= said <= begun
        except BaseException as error:
            error.add_note(f"{name} cancelled after step {step}, notes {notes}")
            raise
        if was_cancelled == [False]:
            return
