"""A run as a person reads it."""

from __future__ import annotations

import re
from contextlib import suppress

from strataflow import StrataflowError
from strataflow.simulation import FaultPlan, Process, Report, simulate, timeline


async def _work(process: Process) -> None:
    session = await process.open_session("/project", "ann")
    await session.patch_state(session={"working": {"long": "x" * 500}})
    with suppress(StrataflowError):
        await session.patch_state(session={"notes": 1})
    await session.read_state("session.working")
    async with session.transaction() as tx:
        tx.read("cwd")
        tx.patch(cwd={"working": {"a": 1}})


def _run(faults: str = "none") -> Report:
    return simulate(_work, processes=1, faults=FaultPlan.parse(faults))


def _of(report: Report, life: str = "p0.1") -> list[str]:
    return [line.split(" ", 2)[2].strip() for line in timeline(report).splitlines() if f" {life} " in line]


def test_calls_and_answers_stand_in_their_order_without_operations() -> None:
    told = _of(_run())
    assert [re.sub(r" \S*[{'\[].*", "", line) for line in told] == [
        "open",
        "#1 ann asks open",
        "#1 ok",
        "#2 ann asks patch",
        "#2 ok",
        "#3 ann asks patch",
        "#3 refused E_PLANE",
        "#4 ann asks read",
        "#4 ok session.working:",
        "#5 ann asks transaction",
        "#5 ok cwd:",
        "closed",
    ]
    assert "patch {'cwd': {'working': {'a': 1}}}" in told[10]
    assert len(max(told, key=len)) <= 180


def test_a_fault_is_told_with_the_operation_before_which_it_struck() -> None:
    report = _run("kill@90,busy@2")
    faults = [line.partition(" fault ")[2] for line in timeline(report).splitlines() if " world fault " in line]
    assert re.fullmatch(r"kill@90, before \w+ /\S+ of p0.1", faults[0])
    assert re.fullmatch(r"busy@2", faults[1])
    assert _of(report, "p0.2")[0] == "open"


def test_of_a_long_run_the_end_is_shown_and_the_rest_counted() -> None:
    report = _run()
    whole = timeline(report).splitlines()
    short = timeline(report, 3).splitlines()
    assert short == [f"… {len(whole) - 3} lines before", *whole[-3:]]
    assert timeline(report, len(whole)).splitlines() == whole
