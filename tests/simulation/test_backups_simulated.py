"""Backups in simulated worlds: Git hangs or fails, callers leave and processes are killed at every call of it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from kit.simulated_git import VERBS, SimulatedGit
from kit.simulated_runtimes import run_seeded
from strataflow import BackupError, BackupReport, Runtime, Session, StoreError
from strataflow.actors import ENDING_S
from strataflow.runtime.opening import open_runtime_in
from strataflow.runtime.simulation.seams import SimulatedMachine

LIMIT_S = 15.0


@asynccontextmanager
async def backed(git: SimulatedGit, process: str = "first") -> AsyncIterator[tuple[Runtime, Session]]:
    seams = attrs.evolve(git.machine.seams(process), processes=git.processes)
    async with open_runtime_in(seams, "power", None, False) as runtime:
        yield runtime, await runtime.open_session("/project", "main", "active")


async def begun(git: SimulatedGit, session: Session, runtime: Runtime) -> str:
    """A first backup, so that every call of Git is made by the next one."""
    await session.patch_state(session={"working": {"n": 1}})
    await runtime.backups.now()
    await runtime.backups.wait_pushed()
    assert git.head is not None
    assert git.remote == git.head
    return git.head


def agrees(git: SimulatedGit) -> bool:
    """The index tells of exactly what the branch holds."""
    return git.index == git.files(git.head)


@pytest.mark.parametrize("is_deaf", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_git_that_hangs_at_any_call_costs_one_backup_and_nothing_else(verb: str, is_deaf: bool) -> None:
    async def main() -> None:
        git = SimulatedGit(SimulatedMachine(1))
        async with backed(git) as (runtime, session):
            head = await begun(git, session, runtime)
            await session.patch_state(session={"working": {"n": 2}})
            git.takes[verb] = (math.inf, is_deaf)
            began = trio.current_time()
            with pytest.raises(BackupError) as caught:
                await runtime.backups.now()
            assert caught.value.code == "E_GIT"
            assert trio.current_time() - began <= LIMIT_S + ENDING_S + 1
            assert git.processes.running == 0
            assert git.head == head
            assert agrees(git)
            # Memory does not notice.
            assert (await session.patch_state(session={"working": {"n": 3}})).changed
            git.takes.clear()
            assert (await runtime.backups.now()).commit == git.head != head
            assert agrees(git)

    run_seeded(1, main)


@pytest.mark.parametrize("verb", [*VERBS, "push", "config"])
@pytest.mark.parametrize("way", ["cancel", "close", "off", "kill"])
def test_leaving_at_any_call_of_git_is_quick_and_leaves_branch_and_index_together(verb: str, way: str) -> None:
    machine = SimulatedMachine(2)
    git = SimulatedGit(machine)
    twins: list[SimulatedGit] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            async with backed(git) as (runtime, session):
                await begun(git, session, runtime)
                git.takes[verb] = (math.inf, True)
                if way == "cancel" and verb in VERBS:
                    await session.patch_state(session={"working": {"n": 2}})
                    nursery.start_soon(_ignore, runtime)
                else:
                    await session.accept_response("done")
                with trio.move_on_after(1):
                    await trio.sleep_forever()
                assert git.calls[-1] == verb
                began = trio.current_time()
                if way == "cancel":
                    nursery.cancel_scope.cancel()
                elif way == "close":
                    await runtime.aclose()
                elif way == "off":
                    await session.set_mode("off")
                    await runtime.backups.wait_pushed()
                else:
                    twins.append(git.after_kill())
                    nursery.cancel_scope.cancel()
            assert way in ("cancel", "kill") or trio.current_time() - began <= 2 * ENDING_S + 1

    run_seeded(2, main)
    assert git.processes.running == 0
    git.takes.clear()
    git = twins[0] if twins else git

    async def again() -> None:
        async with backed(git, "second") as (runtime, session):
            # A process that is killed between moving the branch and telling the index leaves files that seem changed,
            # until the next backup.
            if (way, verb) != ("kill", "update-index"):
                assert agrees(git)
            await session.accept_response("later")
            await runtime.backups.wait_pushed()
            report = await runtime.backups.now(complete=True)
            assert report.head == git.head
            assert agrees(git)

    run_seeded(3, again)


def test_the_index_is_told_by_the_next_backup_when_its_maker_was_killed_before_it_could() -> None:
    git = SimulatedGit(SimulatedMachine(5))
    twins: list[SimulatedGit] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            async with backed(git) as (runtime, session):
                await begun(git, session, runtime)
                git.takes["update-index"] = (math.inf, True)
                await session.patch_state(global_={"working": {"n": 2}})
                nursery.start_soon(_ignore, runtime)
                with trio.move_on_after(1):
                    await trio.sleep_forever()
                twins.append(git.after_kill())
                nursery.cancel_scope.cancel()

    async def again() -> None:
        (twin,) = twins
        assert not agrees(twin)
        seams = attrs.evolve(twin.machine.seams("second"), processes=twin.processes)
        async with open_runtime_in(seams, "power", None, False) as runtime:
            killed = twin.head
            assert (await runtime.backups.now()).head == killed
            assert agrees(twin)
            # Only once: what the user does to the index afterwards stays.
            twin.index["patches.jsonl"] = "staged by the user"
            await runtime.backups.now()
            assert twin.index["patches.jsonl"] == "staged by the user"

    run_seeded(5, main)
    run_seeded(6, again)


async def _ignore(runtime: Runtime) -> BackupReport | None:
    try:
        return await runtime.backups.now()
    except (BackupError, StoreError):
        return None
