"""Equal seeds give equal traces, byte for byte: in another process, with another hash seed, and from exact places."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
import trio._core._run as trio_run

from strataflow.simulation import FaultPlan, Process, Report, simulate

SEEDS = 40
CODE = f"""
from strataflow.simulation import simulate
for seed in range({SEEDS}):
    print(simulate(seed=seed, processes=3, writers=4, steps=25).trace_hash)
"""


@pytest.mark.slow
def test_other_processes_with_other_hash_seeds_see_the_same_traces() -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CODE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "4242")
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    assert len(answers[0]) == SEEDS
    assert answers[0] == answers[1] == answers[2]
    assert len(set(answers[0])) == SEEDS
    # And what ran before in the same process does not matter either.
    assert simulate(seed=7, processes=3, writers=4, steps=25).trace_hash == answers[0][7]


def test_the_trace_itself_is_equal_and_not_only_its_digest() -> None:
    first, second = (simulate(seed=3, processes=2, writers=3, steps=20) for _ in range(2))
    assert first.trace == second.trace
    assert first.to_json() | {"real_s": 0, "steps_per_s": 0} == second.to_json() | {"real_s": 0, "steps_per_s": 0}


def by_places(report: Report) -> Report:
    plan = FaultPlan.parse(str(FaultPlan(places=report.struck)))
    return simulate(seed=report.seed, processes=2, writers=3, steps=20, faults=plan)


def test_the_faults_of_a_run_as_exact_places_repeat_it() -> None:
    struck = 0
    for seed in range(25):
        report = simulate(seed=seed, processes=2, writers=3, steps=20)
        assert by_places(report).trace == report.trace, seed
        struck += len(report.struck)
    assert struck > 25


def test_the_scheduler_of_other_trio_programs_is_left_as_it_was() -> None:
    before = trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r
    state = random.getstate()

    async def fails(process: Process) -> None:
        raise ValueError("on purpose")

    assert not simulate(fails, seed=1, processes=1).is_ok
    assert (trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r) == before
    assert random.getstate() == state
