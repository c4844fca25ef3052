"""A program that knows nothing of locks and journal writes canonical files in the middle of everything.

Goal: its bytes win for the whole scope, what gave way is kept aside, other scopes go on, and the history tells of it.
"""

from __future__ import annotations

import pytest
import trio

from strataflow.simulation import FaultPlan, Process, Report, simulate


async def workload(process: Process) -> None:
    """All waiting is on a MockClock: long enough for checkpoints in between."""
    session = await process.open_session("/project", f"s{process.number}")
    for number in range(6):
        await session.patch_state(global_={"working": {f"p{process.number}": number}}, cwd={"working": {"n": number}})
        await trio.sleep(3)
        await session.read_state("effective.working")


def with_stranger(text: str, seed: int = 5) -> Report:
    return simulate(workload, seed=seed, processes=2, writers=2, faults=FaultPlan.parse(text)).require_ok()


@pytest.mark.parametrize("detail", range(12))
def test_what_a_stranger_wrote_wins_and_is_read_by_everybody(detail: int) -> None:
    report = with_stranger(f"foreign@8:{detail}")
    (call,) = [call for call in report.history.calls if call.kind == "foreign"]
    (scope,) = call.patches
    assert call.process == "stranger"
    assert "theirs" in call.patches[scope]["working"]
    (won,) = report.history.superseded
    assert won.value == call.patches[scope]
    final = next(found for found in report.history.final if found.scope == won.scope)
    assert final.value["working"]["theirs"] == call.patches[scope]["working"]["theirs"]


def test_all_three_kinds_of_scopes_meet_strangers() -> None:
    scopes = set()
    for detail in range(12):
        calls = with_stranger(f"foreign@8:{detail}").history.calls
        scopes |= {scope for call in calls if call.kind == "foreign" for scope in call.patches}
    assert scopes == {"global", "cwd", "session"}


def test_a_stranger_that_finds_no_files_waits_for_them() -> None:
    report = with_stranger("foreign@1:3")
    assert [fault.kind for fault in report.struck] == ["foreign"]
    assert report.struck[0].at > 1


def test_strangers_and_crashes_together_lose_nothing() -> None:
    plan = FaultPlan.parse("foreign=0.1,kill=0.05,power=0.05,slow=0.3")
    superseded = 0
    for seed in range(12):
        report = simulate(seed=seed, processes=2, writers=3, steps=30, faults=plan).require_ok()
        superseded += len(report.history.superseded)
    assert superseded > 0
