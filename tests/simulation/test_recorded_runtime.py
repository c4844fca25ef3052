"""The runtime of a simulated process: a server that takes a runtime can be tested as it is."""

from __future__ import annotations

import inspect

import pytest

import strataflow
from strataflow.simulation import FaultPlan, Process, RecordedSession, simulate


async def _server(runtime: strataflow.Runtime) -> None:
    """What an author has: it knows nothing of simulations."""
    session = await runtime.open_session("/project", "ann", mode="active")
    for number in range(10):
        await session.patch_state(cwd={"working": {"number": number}})
    await runtime.checkpoint()
    assert (await session.read_state("cwd.working")).value == {"number": 9}


async def _workload(process: Process) -> None:
    await _server(process.runtime)


def test_calls_of_a_server_on_the_runtime_of_a_process_are_recorded() -> None:
    report = simulate(_workload, processes=1, faults=FaultPlan.none()).require_ok()
    assert [call.kind for call in report.history.calls] == ["open", *["patch"] * 10, "read"]


def test_faults_strike_a_server_on_the_runtime_of_a_process() -> None:
    reports = [simulate(_workload, seed=seed, processes=1, faults=FaultPlan({"kill": 0.2})) for seed in range(5)]
    assert [report.violations for report in reports] == [()] * 5
    assert sum(report.faults.get("kill", 0) for report in reports) > 3


def test_the_runtime_of_a_process_has_all_that_a_runtime_has() -> None:
    seen: list[object] = []

    async def workload(process: Process) -> None:
        runtime = process.runtime
        session = await runtime.open_session("/project")
        seen.extend([runtime.store_path, runtime.statistics(), (await runtime.status())["store"], session.mode])
        assert isinstance(session, RecordedSession)
        assert repr(runtime).startswith("<Recorded ")
        parameters = [inspect.signature(each.open_session).parameters for each in (runtime, process.unrecorded)]
        assert list(parameters[0]) == list(parameters[1])
        assert [each.default for each in parameters[0].values()] == [each.default for each in parameters[1].values()]

    simulate(workload, processes=1, faults=FaultPlan.none()).require_ok()
    assert seen[0] == "/agent/state-flow"


def test_the_unrecorded_runtime_leaves_no_trace_in_the_history() -> None:
    async def workload(process: Process) -> None:
        session = await process.unrecorded.open_session("/project", mode="active")
        await session.read_state("cwd")

    assert simulate(workload, processes=1).history.calls == []


@pytest.mark.parametrize("seed", range(5))
def test_the_answer_of_a_run_is_a_call_of_the_history(seed: int) -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project")
        async with session.run("go") as run:
            await run.project([{"role": "user", "content": "go", "timestamp": 1}])
            await session.patch_state(cwd={"working": {"a": 1}})
            await run.finish("done")
            await run.finish("done")
        async with session.run("again") as run:
            await run.settle({"role": "assistant", "content": "settled", "stopReason": "stop"})
        await session.set_mode("passive")
        async with session.run("passive") as run:
            assert await run.finish("not stored") is None
        assert (await session.read_state("effective.response")).value == "settled"

    report = simulate(workload, seed=seed, processes=1, faults=FaultPlan.none()).require_ok()
    assert [call.kind for call in report.history.calls].count("respond") == 2
