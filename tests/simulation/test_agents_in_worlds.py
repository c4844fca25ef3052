"""Three agents with scripted models over one simulated store: crashes, power cuts, failing and full disks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.holds import holds
from strataflow import simulate
from strataflow.runtime.agent.queue_file import QueueFile
from strataflow.runtime.agent.sessions.memory_run import MemoryRun
from strataflow.runtime.simulation import Report
from strataflow.runtime.simulation.agents import SimulatedAgents
from strataflow.simulation import FaultPlan
from strataflow.store import Durability

CRASHES = FaultPlan.parse("kill=0.04,power=0.01,eio=0.005,enospc=0.005,stop=0.02,freeze=0.02")

NO_POWER_CUTS = FaultPlan.parse("kill=0.04,eio=0.005,enospc=0.005,stop=0.02,freeze=0.02")


def world(seed: int, faults: FaultPlan | None = CRASHES, durability: Durability = "power") -> Report:
    return simulate(seed=seed, faults=faults, processes=2, writers=1, steps=10, agents=3, durability=durability)


@pytest.mark.parametrize("seed", range(12))
@holds("host 5.8.4", "host 2.7.2")
def test_three_agents_keep_transcripts_queues_and_memory_under_crashes(seed: int) -> None:
    world(seed).require_ok()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_agents_stand_whatever_goes_wrong_in_a_world(seed: int) -> None:
    world(seed, None).require_ok()
    world(seed, NO_POWER_CUTS, "process").require_ok()


def test_equal_seeds_give_equal_worlds_with_agents_too() -> None:
    first, second = world(5), world(5)
    assert first.trace_hash == second.trace_hash
    assert first.command.endswith(" --agents 3")


def test_agents_are_killed_in_these_worlds_and_all_come_to_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = SimulatedAgents.judge

    async def judge(self: SimulatedAgents, process: Any) -> None:
        seen.append(self)
        await real(self, process)

    monkeypatch.setattr(SimulatedAgents, "judge", judge)
    for seed in range(4):
        world(seed).require_ok()
    assert sum(agents.lives for agents in seen) > 3 * len(seen)
    assert all(len(told.answers) == 3 for agents in seen for told in agents._told.values())


def _forgets_what_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueFile, "add", lambda self, queue_id, lane, message: None)


def _keeps_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def accept(self: MemoryRun, answer: Any) -> None:
        self.accepted()

    monkeypatch.setattr(MemoryRun, "accept_answer", accept)


@pytest.mark.parametrize(
    "plant, words", [(_forgets_what_is_queued, "is lost"), (_keeps_no_answer, "its last answer was")]
)
def test_a_planted_defect_of_the_agent_is_found_within_a_few_seeds(
    plant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(12):
        found = [violation for violation in world(seed).violations if violation.rule == "agent"]
        if found:
            assert words in found[0].message
            monkeypatch.undo()
            world(seed).require_ok()
            return
    raise AssertionError("not found")
