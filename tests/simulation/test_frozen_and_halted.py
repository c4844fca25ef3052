"""Processes that stand still with a lock in their hands, and calls that halt in the middle.

Goal: others wait for whoever is stopped, for as long as it takes, and go on when it does, or when it is gone. Method: a
process is frozen at each lock that it obtains in turn, and blocking calls halt before each of their operations.
"""

from __future__ import annotations

import pytest

from strataflow.simulation import FaultPlan, Process, Report, simulate

SECONDS = 5.0


async def both_patch(process: Process) -> None:
    session = await process.open_session("/project", f"s{process.number}")
    for number in range(4):
        await session.patch_state(cwd={"working": {f"p{process.number}": number}})
    await process.runtime.checkpoint()


def with_fault(text: str, processes: int = 2) -> Report:
    return simulate(both_patch, seed=11, processes=processes, writers=2, faults=FaultPlan.parse(text)).require_ok()


def stands_still(trace: str, process: str) -> bool:
    """Whether the process did nothing between the step in which it was frozen and the thaw."""
    lines = trace.split("\n")
    frozen = next(n for n, line in enumerate(lines) if " fault freeze@" in line)
    thawed = next(n for n, line in enumerate(lines) if line.endswith(f" thaw {process}"))
    time = lines[frozen].split()[0]
    # The step that was under way ends; it takes no time.
    return all(line.split()[0] == time for line in lines[frozen:thawed] if f" {process} " in line)


def test_whoever_is_frozen_does_nothing_and_others_wait_for_its_locks() -> None:
    waited = []
    for at in range(1, 30):
        report = with_fault(f"freeze@{at}:{SECONDS}:thaw")
        if not report.struck:
            break
        (name,) = {line.split()[-1] for line in report.trace.split("\n") if " world thaw " in line}
        assert stands_still(report.trace, name), at
        others = [call for call in report.history.calls if call.process not in (name, "p2.1")]
        waited.append(max((call.ended_s or 0) - call.begun_s for call in others) if others else 0.0)
        assert all(call.ending == "ok" for call in report.history.calls)
    assert len(waited) > 15
    # The lock that it held when it was frozen was one that the other process needed, often enough.
    assert sum(wait > SECONDS / 2 for wait in waited) >= 5, waited


def test_a_frozen_process_that_is_killed_gives_its_locks_back() -> None:
    for at in range(1, 30):
        report = with_fault(f"freeze@{at}:{SECONDS}:kill")
        if not report.struck:
            break
        assert report.recoveries == 1
        assert report.virtual_s < 60
    assert at > 15


def test_a_power_cut_takes_frozen_processes_too() -> None:
    for at in range(40, 400, 40):
        report = with_fault(f"freeze@6:{SECONDS}:thaw,power@{at}:torn:{at}")
        assert report.recoveries >= 2


@pytest.mark.parametrize("seconds", ["0", "3"])
def test_a_call_may_halt_before_any_of_its_operations_while_others_go_on(seconds: str) -> None:
    halted = between = 0
    for thread in range(1, 20):
        for operation in (1, 2, 5, 9, 14):
            report = with_fault(f"slow@{thread}:{seconds}:{operation}")
            halted += len(report.struck)
            lines = report.trace.split("\n")
            at = next((n for n, line in enumerate(lines) if " fault slow@" in line), None)
            if at is not None:
                who = {line.split()[1] for line in lines[at + 1 : at + 30]}
                between += len(who & {"p0.1", "p1.1"}) == 2
    assert halted > 60
    assert between > 20


def test_a_process_may_die_while_one_of_its_calls_halts() -> None:
    deaths = 0
    for operation in (1, 3, 6, 10):
        for kill in range(100, 300, 25):
            report = with_fault(f"slow@9:3:{operation},kill@{kill}")
            deaths += report.recoveries
    assert deaths > 20


def test_the_power_may_fail_while_a_call_halts() -> None:
    for operation in (1, 3, 6, 10):
        for cut in range(100, 300, 25):
            assert with_fault(f"slow@9:3:{operation},power@{cut}:lose:1").recoveries >= 1
