"""Failing runs are made smaller, and what is left still fails, by the command that is printed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from strataflow.runtime.simulation import Size, WorldSetting, shrink
from strataflow.runtime.simulation.journal import SimulatedJournal
from strataflow.runtime.surfaces.cli import main
from strataflow.simulation import FaultPlan, Process, Report, simulate
from strataflow.store import NewRow

# What shows the planted bug, and what has nothing to do with it.
NOISE = FaultPlan.parse("power=0.1,slow=0.2,busy=0.1,cancel=0.05,jump=0.05")


@pytest.fixture
def appends_without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: what is acknowledged was not synced."""
    append = SimulatedJournal.append

    def careless(journal: SimulatedJournal, rows: Sequence[NewRow], *, head: int) -> Any:
        journal._level = "process"
        return append(journal, rows, head=head)

    monkeypatch.setattr(SimulatedJournal, "append", careless)


def first_failure(setting: WorldSetting) -> Report:
    return next(report for report in map(setting.run, range(100)) if not report.is_ok)


@pytest.mark.usefixtures("appends_without_syncs")
def test_a_planted_bug_is_found_and_shrinks_to_the_one_fault_that_shows_it() -> None:
    setting = WorldSetting(NOISE, processes=2, writers=3, steps=25)
    report = first_failure(setting)
    spent: list[int] = []

    def again(size: Size, plan: FaultPlan) -> Report:
        return setting.resized(size, plan).run(report.seed)

    smaller = shrink(report, again, progress=spent.append)
    assert smaller.violations[0].rule == report.violations[0].rule
    assert {fault.kind for fault in smaller.plan.places} == {"power"}
    assert not smaller.plan.rates
    assert smaller.steps_wanted < report.steps_wanted
    assert smaller.steps < report.steps
    assert spent == [*range(1, len(spent) + 1)]


@pytest.mark.usefixtures("appends_without_syncs")
def test_the_printed_command_repeats_the_failure(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "simulate",
        "--faults",
        str(NOISE),
        "--seeds",
        "12",
        "--writers",
        "3",
        "--processes",
        "2",
        "--steps",
        "25",
        "--shrink",
    ]
    assert main(command) == 1
    printed = capsys.readouterr().out
    assert "The smallest run found" in printed
    repeat = [line.removeprefix("repeat: ") for line in printed.split("\n") if line.startswith("repeat: ")]
    rules = [line.split()[1] for line in printed.split("\n") if line.startswith("VIOLATION ")]
    assert main(shlex.split(repeat[-1])[1:]) == 1
    assert f"VIOLATION {rules[-1]}" in capsys.readouterr().out


def test_faults_that_do_not_matter_are_left_out() -> None:
    async def workload(process: Process) -> None:
        session = await process.open_session("/project")
        for number in range(8):
            await session.patch_state(cwd={"working": {"n": number}})
        assert process.life < 2, "this program does not bear to be killed"

    plan = FaultPlan.parse("slow@3:0.1:2,busy@2,kill@150,jump@4:1000,cancel@5:1,busy@5,slow@20:0.5:0")

    def again(size: Size, plan: FaultPlan) -> Report:
        return simulate(workload, seed=4, faults=plan, processes=size.processes, writers=size.writers, steps=size.steps)

    report = again(Size(2, 2, 10), plan)
    smaller = shrink(report, again)
    assert [fault.kind for fault in smaller.plan.places] == ["kill"]
    assert smaller.processes == 1


def test_shrinking_ends_when_its_runs_are_spent() -> None:
    async def workload(process: Process) -> None:
        raise LookupError

    runs: list[Any] = []

    def again(size: Size, plan: FaultPlan) -> Report:
        runs.append(size)
        return simulate(workload, seed=1, faults=plan, processes=size.processes, steps=size.steps)

    report = simulate(workload, seed=1, faults=FaultPlan.none(), processes=3)
    assert shrink(report, again, runs_max=5).processes <= 3
    assert len(runs) == 5
