"""A world that hangs is told from one that waits, in virtual time and without it. All waiting is on a MockClock."""

from __future__ import annotations

import pytest
import trio

from strataflow.actors.turn import Turn
from strataflow.runtime.simulation import many
from strataflow.simulation import FaultPlan, Process, Report, simulate

NONE = FaultPlan.none()


async def patches_once(process: Process) -> None:
    session = await process.open_session("/project")
    await session.patch_state(cwd={"working": {"n": 1}})


def rule_and_text(report: Report) -> tuple[str, str]:
    return report.violations[0].rule, report.violations[0].message


def test_a_call_without_an_answer_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(turn: Turn, is_wanted: object) -> bool:
        await trio.sleep_forever()
        return False

    monkeypatch.setattr(Turn, "acquire", never)
    rule, text = rule_and_text(simulate(patches_once, seed=1, processes=1, writers=1, faults=NONE))
    assert rule == "stuck"
    assert "call 1 (open of p0.1)" in text


def test_a_loop_at_one_moment_of_virtual_time_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spins(turn: Turn, is_wanted: object) -> bool:
        while True:
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(Turn, "acquire", spins)
    assert rule_and_text(simulate(patches_once, seed=1, processes=1, writers=1, faults=NONE))[0] == "stuck"


def test_who_waits_on_purpose_may_wait_for_long() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project", f"s{process.number}")
        if process.number == 0:
            await trio.sleep(400)
            await session.patch_state(global_={"working": {"go": 1}})
        else:
            assert await session.wait_for("global.working.go", bool) == 1

    report = simulate(workload, seed=1, processes=2, writers=2, faults=NONE).require_ok()
    assert report.virtual_s > 400


def test_a_workload_that_never_returns_is_stuck_in_the_end() -> None:
    async def workload(process: Process) -> None:
        await trio.sleep_forever()

    rule, text = rule_and_text(simulate(workload, seed=1, processes=1, writers=1, faults=NONE))
    assert rule == "stuck"
    assert "36000 s" in text


def test_a_loop_without_a_checkpoint_is_ended_by_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spins(turn: Turn, is_wanted: object) -> bool:
        while True:
            pass

    monkeypatch.setattr(Turn, "acquire", spins)
    monkeypatch.setattr(many, "REAL_S_MAX", 0.3)
    setting = many.WorldSetting(NONE, processes=1, writers=1, steps=3)
    (report,) = many.simulate_many([7], setting)
    rule, text = rule_and_text(report)
    assert rule in ("stuck", "unexpected-error")  # the latter says where it spins
    assert report.seed == 7
    assert "real time" in text
    assert "repeat: strataflow simulate --seed 7" in report.to_text()
