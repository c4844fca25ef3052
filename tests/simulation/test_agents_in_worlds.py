"""Three agents with scripted models over one simulated store: crashes, power cuts, failing and full disks."""

from __future__ import annotations

import pytest

from kit.holds import holds
from kit.simulated_agents import SimulatedAgents
from strataflow import simulate
from strataflow.simulation import FaultPlan


@pytest.mark.parametrize("seed", range(12))
@holds("host 5.8.4", "host 2.7.2")
def test_three_agents_keep_transcripts_queues_and_memory_under_crashes(seed: int) -> None:
    agents = SimulatedAgents(seed)
    plan = FaultPlan.parse("kill=0.04,power=0.01,eio=0.005,enospc=0.005,stop=0.02,freeze=0.02")
    report = simulate(agents.workload, seed=seed, faults=plan, processes=2, writers=3, check=agents.check)
    assert report.is_ok, report.to_text()
    assert all(len(told.answers) == agents.prompts for told in agents.told.values())


def test_agents_are_killed_in_these_worlds() -> None:
    lives = 0
    for seed in range(6):
        agents = SimulatedAgents(seed, prompts=2)
        report = simulate(
            agents.workload,
            seed=seed,
            faults=FaultPlan.parse("kill=0.04,power=0.01"),
            processes=2,
            writers=3,
            check=agents.check,
        )
        assert report.is_ok, report.to_text()
        lives += sum(told.lives for told in agents.told.values())
    assert lives > 6 * 3
