"""Cards and their sources in runs: what a model is told, and what its patches owe."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from kit.card_runs import CARD, USER, A, B, compiled, head_of, machine_with_sources, read, running, update_of
from kit.holds import holds
from kit.runtimes import refused
from kit.simulated_runtimes import GatedThreads, session_in
from strataflow.runtime.simulation.seams import SimulatedMachine


@pytest.fixture
def machine() -> SimulatedMachine:
    return machine_with_sources()


# -- what is told -------------------------------------------------------------------------------------------------


@holds("A14", "A16", "C5", "case agent 150")
async def test_a_card_without_evidence_is_listed_in_the_head_and_current_after_compiling(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (_, session, run):
        assert [item.to_json() for item in await session.invalidations()] == [
            {"path": A, "scope": "cwd", "reason": "invalid-metadata"}
        ]
        await compiled(session, run)
        assert await session.invalidations() == []
        await run.finish("done")
        async with session.run("again") as later:
            assert "artifact_invalidations" not in head_of(await later.project([USER]))


@holds("A13", "A16", "C17", "C18", "case agent 108", "case agent 150")
async def test_a_source_that_grows_between_requests_is_told_and_withdrawn_in_updates(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
        first = await run.project([USER])
        assert update_of(first)["artifact_invalidations"] == []
        before = machine.sources._files[A]
        machine.sources.write(A, b"print(1), and more")
        second = await run.project([USER])
        assert second[: len(first)] == first
        told = update_of(second)
        assert told["artifact_invalidations"] == [{"path": A, "scope": "cwd", "reason": "source-changed"}]
        hint = [entry for entry in told["state_updates"]["effective"] if entry["path"][:2] == ["artifacts", A]]
        assert "newer" in json.dumps(hint)
        machine.sources.write(A, *before)
        third = update_of(await run.project([USER]))
        assert third["artifact_invalidations"] == []
        assert {"path": ["artifacts", A, "hint"], "deleted": True} in third["state_updates"]["effective"]


@holds("A16", "C6")
async def test_passive_prompts_have_hints_and_no_list(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
        await run.finish("done")
        await session.set_mode("passive")
        machine.sources.write(A, b"other")
        told = await session.project([USER])
        assert "artifact_invalidations" not in json.dumps(told)
        assert "newer" in json.dumps(update_of(told)["state_updates"]["effective"])
        assert await read(run, A) is None  # tracked in active mode only
        assert (await session.patch_state(session={"working": {"x": 1}})).changed


@holds("A16", "L3")
async def test_off_and_sessions_without_cards_look_at_nothing(machine: SimulatedMachine) -> None:
    async with session_in(machine) as (_, session):
        async with session.run("go") as run:
            await run.project([USER])
        await session.set_mode("off")
        await session.project([USER])
        with refused("E_OFF"):
            await session.invalidations()
        with refused("E_OFF"):
            await session.artifacts()
    assert machine.sources.looks == []


async def test_hints_and_events_follow_the_list_and_nothing_is_stored_by_looking(machine: SimulatedMachine) -> None:
    async with running(machine) as (runtime, session, run):
        await compiled(session, run)
        revision = (await session.status())["revision"]
        machine.sources.write(A, b"longer than before")
        for _ in range(3):
            await run.project([USER])
        events = [event.data for event in runtime.events if event.name == "artifacts-invalidated"]
        assert [[item["reason"] for item in data["invalidations"]] for data in events] == [
            ["invalid-metadata"],
            ["source-changed"],
        ] or [[item["reason"] for item in data["invalidations"]] for data in events] == [
            ["invalid-metadata"],
            [],
            ["source-changed"],
        ]
        assert (await session.status())["revision"] == revision


@holds("A17")
async def test_cards_are_listed_with_their_freshness_and_selected_by_tag(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
        await session.patch_state(global_={"artifacts": {B: {"description": "b", "tags": ["x"]}}})
        assert [(card.path, card.scope, card.freshness) for card in await session.artifacts()] == [
            (A, "cwd", "current"),
            (B, "global", "invalid-metadata"),
        ]
        assert [card.path for card in await session.artifacts("x", "y", match="any")] == [B]
        with refused("E_SHAPE"):
            await session.artifacts(" ")


@holds("L35", "L38", "case agent 150")
async def test_the_status_tells_what_is_pending_as_of_the_last_look_and_looks_at_nothing(
    machine: SimulatedMachine,
) -> None:
    async with session_in(machine) as (_, session):
        await session.patch_state(cwd={"artifacts": {A: CARD}})
        assert "Artifacts: global 0; CWD 1; session 0" in (await session.inspect()).lines()
        async with session.run("go") as run:
            await run.project([USER])
            looks = len(machine.sources.looks)
            lines = (await session.inspect()).lines()
            assert len(machine.sources.looks) == looks
            at = lines.index("Artifacts: global 0; CWD 1; session 0; pending invalidations 1")
            assert lines[at + 1 : at + 3] == [
                "Pending artifact invalidations:",
                f"- [cwd] {A} — invalid-metadata",
            ]
            await compiled(session, run)
            status = await session.inspect()
            assert "Artifacts: global 0; CWD 1; session 0; pending invalidations 0" in status.lines()
            assert status.to_json()["invalidations"] == []


@holds("T27", "T30", "A13")
async def test_the_receipt_of_a_compiled_card_shows_it_without_its_hint_and_only_once(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
        machine.sources.write(A, b"longer than before")
        messages = [USER]
        first = await run.project(messages)
        assert "newer" in json.dumps(first)
        await read(run, A, "second")
        receipt = await session.patch_state(cwd={"artifacts": {A: CARD}})
        assert receipt.state_updates is not None
        assert receipt.state_updates["effective"] == [{"path": ["artifacts", A], "value": CARD}]
        second = await run.project(messages)
        told = [json.loads(item["content"][0]["text"].partition("\n")[2]) for item in second[len(first) :]]
        assert told == [{"artifact_invalidations": []}]


# -- the duty of the next patch -----------------------------------------------------------------------------------


@holds("A21", "A23", "A24", "A25", "case agent 152")
async def test_a_counted_read_obliges_the_next_patch_once(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await read(run, A)
        with refused("E_COMPILE_MISSING") as caught:
            await session.patch_state(global_={"artifacts": {A: CARD}})
        assert (caught.value.data["scope"], caught.value.data["path"]) == ("cwd", A)
        with refused("E_COMPILE_MISSING"):
            await session.patch_state(session={"working": {"x": 1}})
        receipt = await session.patch_state(cwd={"artifacts": {A: CARD}})
        assert receipt.changed
        assert (await session.read_state("cwd.artifacts")).value == {A: CARD}  # the old member is gone
        assert (await session.patch_state(session={"working": {"x": 1}})).changed


@holds("A24", "T15", "store 3.1.10")
async def test_an_unchanged_card_with_new_evidence_is_accepted_without_step_or_revision(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (runtime, session, run):
        await compiled(session, run)
        before = await session.status()
        machine.sources.write(A, b"another text")
        await run.project([USER])
        await read(run, A, "second")
        receipt = await session.patch_state(cwd={"artifacts": {A: CARD}})
        assert receipt.changed
        assert receipt.transition_id is None
        after = await session.status()
        assert (after["revision"], after["step"]) == (before["revision"], before["step"])
        assert await session.invalidations() == []
        await runtime.checkpoint()
        meta = json.loads(machine.disk.contents()["/agent/state-flow/--project--/meta.json"])
        size = meta["artifacts"][A]["sourceFingerprint"]["size"]
        assert size == len(b"another text")


@holds("A8", "A24")
async def test_evidence_is_there_again_when_the_store_is_opened_anew(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
    async with session_in(machine, "second") as (_, later):
        assert await later.invalidations() == []
        machine.sources.write(A, b"changed")
        assert [item.reason for item in await later.invalidations()] == ["source-changed"]


@holds("A24")
async def test_evidence_alone_survives_a_killed_process(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await compiled(session, run)
        machine.sources.write(A, b"another text")
        await run.project([USER])
        await read(run, A, "second")
        await session.patch_state(cwd={"artifacts": {A: CARD}})
        twin = machine.after_kill()
    async with session_in(twin, "second") as (_, later):
        assert await later.invalidations() == []


@holds("A18")
@pytest.mark.parametrize("path", [B, "/project/unknown.py", "b.py"])
async def test_a_read_of_what_is_not_listed_obliges_nobody(machine: SimulatedMachine, path: str) -> None:
    async with running(machine) as (_, session, run):
        assert await read(run, path) is None
        assert (await session.patch_state(session={"working": {"x": 1}})).changed


@holds("A18")
async def test_a_path_seen_from_the_directory_counts_as_the_registered_one(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await read(run, "./a.py")
        with refused("E_COMPILE_MISSING"):
            await session.patch_state(session={"working": {"x": 1}})


@holds("A19", "case agent 151")
async def test_a_file_that_changes_during_the_read_does_not_count(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await run.note_read(A, "call")
        machine.sources.write(A, b"changed!")
        await run.note_read(A, "call")
        assert (await session.patch_state(session={"working": {"x": 1}})).changed
        assert [item.reason for item in await session.invalidations()] == ["invalid-metadata"]


@holds("A19")
async def test_a_file_that_changes_between_the_two_looks_after_the_read_does_not_count(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (_, session, run):
        await run.note_read(A, "call")
        looks = len(machine.sources.looks)

        async def change(paths: Any) -> None:
            if len(machine.sources.looks) == looks + 1:
                machine.sources.write(A, b"changed after the first look")

        machine.sources.before_look = change
        await run.note_read(A, "call")
        machine.sources.before_look = None
        assert len(machine.sources.looks) == looks + 2
        assert (await session.patch_state(session={"working": {"x": 1}})).changed


@holds("A20")
async def test_the_last_path_before_execution_counts_and_an_id_of_another_tool_drops_it(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (_, session, run):
        await run.note_read(B, "one")
        await run.note_read(A, "one")
        await run.note_read(A, "one")
        with refused("E_COMPILE_MISSING"):
            await session.patch_state(session={"working": {"x": 1}})
        await session.patch_state(cwd={"artifacts": {A: CARD}})
        machine.sources.write(A, b"and again")
        await run.project([USER])
        await run.note_read(A, "two")
        run.preflight([{"id": "two", "name": "bash"}])
        await run.note_read(A, "two")  # the first of its own, and no second comes
        assert (await session.patch_state(session={"working": {"x": 1}})).changed


@holds("A25", "L9")
async def test_run_start_and_answers_clear_counted_reads_and_no_answer_is_refused(machine: SimulatedMachine) -> None:
    async with running(machine) as (_, session, run):
        await read(run, A)
        assert (await run.finish("done")) is not None
        assert (await session.patch_state(session={"working": {"x": 1}})).changed
        async with session.run("next") as second:
            await second.project([USER])
            await read(second, A)
        async with session.run("next") as third:
            await third.project([USER])
            assert (await session.patch_state(session={"working": {"x": 2}})).changed


async def test_other_refusals_leave_the_duty_and_a_cancelled_patch_that_is_stored_ends_it(
    machine: SimulatedMachine,
) -> None:
    threads = GatedThreads()
    async with running(machine, threads=threads) as (_, session, run):
        await read(run, A)
        with refused("E_ARTIFACT"):
            await session.patch_state(cwd={"artifacts": {A: {"description": ""}}})
        gate = threads.hold("commit")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: session.patch_state(cwd={"artifacts": {A: CARD}}))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        gate.set()
        await session.read_state("cwd.artifacts", fresh=True)
        assert (await session.read_state("cwd.artifacts")).value == {A: CARD}
        assert (await session.patch_state(session={"working": {"x": 1}})).changed
