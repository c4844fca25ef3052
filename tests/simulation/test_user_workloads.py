"""Workloads of a user: what a process offers, what happens to it, and how the report tells of it.

All waiting is on a MockClock.
"""

from __future__ import annotations

import pytest
import trio

from strataflow import ConflictError, StoreError
from strataflow.simulation import FaultPlan, Process, RecordedSession, simulate

NONE = FaultPlan.none()


def rules(report: object) -> set[str]:
    return {violation.rule for violation in report.violations}  # type: ignore[attr-defined]


def test_each_process_runs_the_workload_with_its_own_writers_and_sessions() -> None:
    seen: dict[str, tuple[int, tuple[int, ...]]] = {}

    async def workload(process: Process) -> None:
        seen[process.name] = (process.number, process.writers)
        for writer in process.writers:
            session = await process.open_session("/project", f"agent-{writer}")
            receipt = await session.patch_state(global_={"working": {f"w{writer}": process.number}})
            assert receipt.changed
            assert (await session.read_state(f"global.working.w{writer}")).value == process.number
            await session.aclose()

    async def check(process: Process) -> None:
        session = await process.open_session("/project", "agent-0")
        assert (await session.read_state("global.working")).value == {"w0": 0, "w1": 1, "w2": 0, "w3": 1}

    report = simulate(workload, seed=1, processes=2, writers=4, faults=NONE, check=check).require_ok()
    assert seen == {"p0.1": (0, (0, 2)), "p1.1": (1, (1, 3))}
    assert report.steps == 18


def test_a_killed_process_is_begun_again_and_finds_its_notes() -> None:
    lives: list[str] = []

    async def workload(process: Process) -> None:
        lives.append(process.name)
        process.notes["lives"] = len(lives)
        session = await process.open_session("/project")
        for number in range(3):
            await session.patch_state(cwd={"working": {"n": number}})
        assert process.notes["lives"] == len(lives)

    report = simulate(workload, seed=5, processes=1, writers=1, faults=FaultPlan.parse("kill@110")).require_ok()
    assert lives == ["p0.1", "p0.2"]
    assert (report.recoveries, report.faults) == (1, {"kill": 1})


def test_an_assertion_that_fails_is_a_violation_that_names_process_and_text() -> None:
    async def workload(process: Process) -> None:
        assert process.number == 0, "only the first process works"

    report = simulate(workload, seed=1, processes=2, writers=2, faults=NONE)
    assert rules(report) == {"assertion"}
    assert "p1.1" in report.violations[0].message
    assert "only the first process works" in report.violations[0].message
    with pytest.raises(AssertionError, match="only the first process works"):
        report.require_ok()


def test_any_other_exception_is_an_unexpected_error() -> None:
    async def workload(process: Process) -> None:
        raise LookupError("nobody expects this")

    assert rules(simulate(workload, seed=1, processes=1, faults=NONE)) == {"unexpected-error"}


def test_a_check_that_fails_in_the_end_is_a_violation() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project")
        await session.patch_state(global_={"working": {"n": 1}})

    async def check(process: Process) -> None:
        session = await process.open_session("/project")
        assert (await session.read_state("global.working.n")).value == 2

    assert rules(simulate(workload, seed=1, processes=1, faults=NONE, check=check)) == {"assertion"}


def test_a_cancelled_caller_loses_its_workload_and_begins_it_again_in_the_same_process() -> None:
    begun: list[str] = []
    caught: list[bool] = []

    async def workload(process: Process) -> None:
        begun.append(process.name)
        try:
            session = await process.open_session("/project")
            for number in range(5):
                await session.patch_state(cwd={"working": {"n": number}})
        except trio.Cancelled:
            caught.append(True)
            raise

    report = simulate(workload, seed=3, processes=1, writers=1, faults=FaultPlan.parse("cancel@4:2")).require_ok()
    assert begun == ["p0.1", "p0.1"]
    assert caught == [True]
    assert report.recoveries == 0


def test_calls_answers_and_their_order_are_in_the_history() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project", "main")
        await session.patch_state(global_={"working": {"list": [1, 2]}})
        await session.read_state(paths=["global.working.list", "effective.working"])
        await session.read_state("global.working", projection="keys")
        with pytest.raises(Exception, match="E_MISSING"):
            await session.read_state("global.working.nothing")
        await session.accept_response("done")
        await session.transact(lambda tx: tx.patch(session={"working": {"a": 1}}))
        async with session.transaction() as tx:
            tx.read("session.working.a")
        await session.aclose()

    calls = simulate(workload, seed=1, processes=1, writers=1, faults=NONE).require_ok().history.calls
    kinds = [call.kind for call in calls[:9]]
    assert kinds == ["open", "patch", "read", "read", "read", "respond", "transaction", "transaction", "close"]
    assert {call.ending for call in calls} == {"ok"}
    assert calls[1].patches == {"global": {"working": {"list": [1, 2]}}}
    assert (calls[1].changed, calls[1].revision) == (True, "g1c0s0")
    assert [step.found for step in calls[2].steps] == [[1, 2], {"list": [1, 2]}]  # type: ignore[union-attr]
    assert calls[4].steps[0].is_absent  # type: ignore[union-attr]
    assert calls[6].steps == [{"session": {"working": {"a": 1}}}]
    assert calls[7].steps[0].found == 1  # type: ignore[union-attr]
    moments = [moment for call in calls for moment in (call.begun_s, call.ended_s)]
    assert moments == sorted(set(moments))  # type: ignore[type-var]


def test_what_a_reader_does_to_an_answer_does_not_change_the_history() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project")
        await session.patch_state(global_={"working": {"list": [1]}})
        found = (await session.read_state("global.working")).value
        found["list"].append(2)

    calls = simulate(workload, seed=1, processes=1, writers=1, faults=NONE).require_ok().history.calls
    assert calls[2].steps[0].found == {"list": [1]}  # type: ignore[union-attr]


def test_a_conflict_is_told_with_what_conflicted() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project")
        with pytest.raises(ConflictError):  # noqa: PT012 - the end of the block is what raises
            async with session.transaction() as tx:
                with pytest.raises(Exception, match="E_MISSING"):
                    tx.read("global.working.n")
                await session.patch_state(global_={"working": {"n": 1}})
                tx.patch(cwd={"working": {"m": 1}})

    report = simulate(workload, seed=1, processes=1, writers=1, faults=NONE).require_ok()
    (call,) = [call for call in report.history.calls if call.kind == "transaction"]
    assert (call.ending, call.code) == ("refused", "E_CONFLICT")
    assert call.conflicts[0]["path"] == "global.working.n"


def test_two_processes_see_what_the_other_one_stored() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project", f"s{process.number}")
        if process.number == 0:
            await trio.sleep(0.5)
            await session.patch_state(global_={"working": {"ready": True}})
        else:
            assert await session.wait_for("global.working.ready", bool) is True

    for seed in range(5):
        simulate(workload, seed=seed, processes=2, writers=2, faults=NONE).require_ok()


def test_a_session_passes_on_what_is_not_recorded() -> None:
    sessions: list[RecordedSession] = []

    async def workload(process: Process) -> None:
        session = await process.open_session("/project", "main", "passive")
        sessions.append(session)
        assert (session.mode, session.cwd, session.session_id) == ("passive", "/project", "main")
        assert (await session.status())["mode"] == "passive"
        assert "Recorded" in repr(session)
        with pytest.raises(AttributeError):
            session.no_such_method()

    simulate(workload, seed=1, processes=1, writers=1, faults=NONE).require_ok()
    assert len(sessions) == 1


def test_a_refusal_that_no_fault_explains_is_a_violation() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project")
        await process.runtime.aclose()
        with pytest.raises(StoreError):
            await session.patch_state(global_={"working": {"n": 1}})

    report = simulate(workload, seed=1, processes=1, writers=1, faults=NONE)
    assert rules(report) == {"unexpected-error"}
    assert report.violations[0].calls == (2,)


def test_simulate_inside_of_an_event_loop_says_what_to_do() -> None:
    async def main() -> None:
        simulate(seed=1, processes=1, writers=1, steps=1)

    with pytest.raises(RuntimeError, match="event loop"):
        trio.run(main)
