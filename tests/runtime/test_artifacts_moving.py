"""Sources that move or vanish while runs go on, and who must not wait for looks at them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kit.card_runs import CARD, USER, A, B, compiled, head_of, machine_with_sources, read, running
from kit.holds import holds
from kit.runtimes import refused
from kit.simulated_runtimes import simulated
from strataflow.runtime import open_runtime
from strataflow.runtime.simulation.seams import SimulatedMachine


@pytest.fixture
def machine() -> SimulatedMachine:
    return machine_with_sources()


@holds("A22", "T9", "store 3.1.13", "case agent 74")
async def test_a_source_that_changes_while_the_patch_waits_for_the_turn_refuses_all_of_it(
    machine: SimulatedMachine, autojump_clock: Any
) -> None:
    async with running(machine) as (_, session, run):
        await read(run, A)
        lock = machine.locks.of("stranger").open("/agent/state-flow/.strataflow/turn.lock")
        assert lock.try_acquire()
        codes: list[str] = []

        async def patch() -> None:
            with refused("E_SOURCE_CHANGED") as caught:
                await session.patch_state(global_={"working": {"x": 1}}, cwd={"artifacts": {A: CARD}})
            codes.append(caught.value.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(patch)
            await trio.sleep(1)
            machine.sources.write(A, b"changed while it waited")
            lock.release()
        assert codes == ["E_SOURCE_CHANGED"]
        assert (await session.read_state("global.working")).value is None
        # The read is of no use any more, and obliges nobody.
        assert (await session.patch_state(session={"working": {"x": 1}})).changed


@holds("T9", "A22")
async def test_a_changed_source_is_told_before_what_is_wrong_with_values_and_planes(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        for fault, code in (({"nonsense": {}}, "E_PLANE"), ({"artifacts": {A: {"hint": "x"}}}, "E_PROVENANCE")):
            await run.project([USER])
            await read(run, A)
            with refused(code):
                await session.patch_state(cwd=fault)
            machine.sources.write(A, b"changed")
            with refused("E_SOURCE_CHANGED"):
                await session.patch_state(cwd=fault)
            with refused(code):
                await session.patch_state(cwd=fault)


@holds("A22")
async def test_a_look_that_does_not_come_back_refuses_the_patch_in_words(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await read(run, A)
        machine.sources.silent.add(A)
        with refused("E_SOURCE_CHANGED") as caught:
            await session.patch_state(cwd={"artifacts": {A: CARD}})
        assert "in time" in caught.value.message


@holds("A15", "L10", "case agent 137")
async def test_a_removed_source_takes_its_cards_in_every_scope_with_the_next_run(machine: SimulatedMachine) -> None:
    async with running(machine) as (runtime, session, run):
        await compiled(session, run)
        await session.patch_state(global_={"artifacts": {A: CARD, B: CARD}}, session={"artifacts": {A: CARD}})
        await run.finish("done")
        machine.sources.remove(A)
        machine.sources.hide(B, "permission denied")
        step = (await session.status())["step"]
        async with session.run("next") as later:
            head = head_of(await later.project([USER]))
        assert list(head["state"]["artifacts"]) == [B]
        assert (await session.status())["step"] == step + 1
        for scope in ("cwd", "session"):
            assert (await session.read_state(f"{scope}.artifacts")).value is None
        removed = [event.data["paths"] for event in runtime.events if event.name == "artifacts-removed"]
        assert removed == [[A]]
        # A new card at the old path has no evidence.
        machine.sources.write(A, b"print(1)")
        await session.patch_state(cwd={"artifacts": {A: CARD}})
        assert (A, "invalid-metadata") in [(item.path, item.reason) for item in await session.invalidations()]


@holds("A15", "case agent 137")
async def test_a_source_that_is_back_before_acceptance_keeps_its_card(
    machine: SimulatedMachine, autojump_clock: Any
) -> None:
    async with running(machine) as (_, session, run):
        await run.finish("done")
        content = machine.sources._files[A][0]
        machine.sources.remove(A)
        lock = machine.locks.of("stranger").open("/agent/state-flow/.strataflow/turn.lock")
        assert lock.try_acquire()
        async with session.run("next") as later:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(later.project, [USER])
                await trio.sleep(1)
                machine.sources.write(A, content)
                lock.release()
        assert A in (await session.read_state("cwd.artifacts")).value


async def test_a_commit_of_another_session_does_not_wait_for_a_look_at_many_sources(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (runtime, session, run):
        other = await runtime.open_session("/elsewhere", "other", "active")
        gate = trio.Event()

        async def wait(paths: Any) -> None:
            await gate.wait()

        machine.sources.before_look = wait
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.project, [USER])
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(1):
                assert (await other.patch_state(session={"working": {"x": 1}})).changed
                assert (await session.patch_state(session={"working": {"x": 1}})).changed
            gate.set()


async def test_a_transaction_edits_cards_and_neither_owes_nor_makes_evidence(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await read(run, A)
        async with session.transaction() as tx:
            tx.patch(cwd={"artifacts": {A: {"description": "edited"}}}, session={"working": {"x": 1}})
        assert (await session.read_state("cwd.artifacts")).value == {A: {"description": "edited", "old": 1}}
        with refused("E_COMPILE_MISSING"):
            await session.patch_state(session={"working": {"x": 2}})
        async with session.transaction() as tx:
            with refused("E_PROVENANCE"):
                tx.patch(cwd={"artifacts": {A: {"sourceFingerprint": {}}}})


async def test_a_repeated_request_id_gets_its_first_outcome_and_uses_up_no_read(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await read(run, A)
        patch = {"artifacts": {A: CARD}}
        first = await session.patch_state(cwd=patch, request_id="one")
        machine.sources.write(A, b"changed")
        await run.project([USER])
        await read(run, A, "second")
        machine.sources.write(A, b"changed again")
        again = await session.patch_state(cwd=patch, request_id="one")
        assert (again.text, again.seq) == (first.text, first.seq)
        with refused("E_SOURCE_CHANGED"):
            await session.patch_state(cwd=patch)


async def test_two_processes_share_evidence_through_the_journal(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run), simulated(machine, "second") as second:
        reader = await second.open_session("/project", "reader", "active")
        assert [item.reason for item in await reader.invalidations()] == ["invalid-metadata"]
        await compiled(session, run)
        await reader.read_state("cwd", fresh=True)
        assert await reader.invalidations() == []


async def test_a_look_that_fails_ends_one_life_of_the_compiler_and_nobody_notices(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        failures = iter((RuntimeError("a defect"),))

        async def fail_once(paths: Any) -> None:
            for failure in failures:
                raise failure

        machine.sources.before_look = fail_once
        assert [item.reason for item in await session.invalidations()] == ["invalid-metadata"]
        await read(run, A)
        assert (await session.patch_state(cwd={"artifacts": {A: CARD}})).changed


async def test_closing_does_not_wait_for_a_look_that_hangs(machine: SimulatedMachine, autojump_clock: Any) -> None:
    async def hang(paths: Any) -> None:
        await trio.sleep_forever()

    async with running(machine) as (runtime, session, _), trio.open_nursery() as nursery:
        machine.sources.before_look = hang

        async def ask() -> None:
            with refused("E_CLOSED", "E_BROKEN"):
                await session.invalidations()

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(11):
            report = await runtime.aclose()
        assert report.was_last


async def test_watchers_hear_nothing_of_evidence_alone(machine: SimulatedMachine, autojump_clock: Any) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
        machine.sources.write(A, b"another text")
        await run.project([USER])
        watch = session.watch("cwd")
        await read(run, A, "second")
        assert (await session.patch_state(cwd={"artifacts": {A: CARD}})).transition_id is None
        with trio.move_on_after(1) as scope:
            await watch.__anext__()
        assert scope.cancelled_caught


@holds("case agent 74", "T11")
async def test_the_log_holds_the_patch_that_a_changed_source_refused_as_it_was_given(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    (agent / "state-flow").mkdir(parents=True)
    (agent / "state-flow" / "config.json").write_text('{"logging": true}')
    source = tmp_path / "source.py"
    source.write_text("print(1)")
    patch = {"artifacts": {str(source): CARD}, "working": {"x": 1}}
    async with open_runtime(str(agent), durability="process") as runtime:
        session = await runtime.open_session(str(tmp_path), "main", "active")
        await session.patch_state(cwd={"artifacts": {str(source): CARD}})
        async with session.run("go") as run:
            await run.project([USER])
            await read(run, "source.py")
            source.write_text("print(2), and more")
            with refused("E_SOURCE_CHANGED"):
                await session.patch_state(cwd=patch)
    (line,) = (agent / "logs" / "strataflow.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["category"] == "invalid-patch"
    assert record["input"]["cwd"] == patch
