"""Many worlds with everything that can go wrong, and not one broken promise.

Goal: the store keeps its word whatever is injected. Method: worlds of several sizes, one seed after another; every kind
of fault must really have struck, and processes must really have begun again.
"""

from __future__ import annotations

import functools

import pytest

from strataflow.simulation import KINDS, FaultPlan, Report, simulate

# Sizes: processes, writers, steps; and how many seeds of each.
SMALL, LARGE = (2, 3, 20), (3, 6, 60)
SMALL_SEEDS, LARGE_SEEDS = 260, 40


@functools.cache
def world(seed: int, size: tuple[int, int, int]) -> Report:
    processes, writers, steps = size
    return simulate(seed=seed, processes=processes, writers=writers, steps=steps)


@pytest.mark.parametrize("start", range(0, SMALL_SEEDS, 20))
def test_small_worlds_with_faults_keep_every_promise(start: int) -> None:
    for seed in range(start, start + 20):
        world(seed, SMALL).require_ok()


@pytest.mark.parametrize("start", range(0, LARGE_SEEDS, 10))
def test_larger_worlds_with_faults_keep_every_promise(start: int) -> None:
    for seed in range(start, start + 10):
        world(seed, LARGE).require_ok()


def test_every_kind_of_fault_has_struck_somewhere() -> None:
    reports = [world(seed, SMALL) for seed in range(SMALL_SEEDS)] + [world(seed, LARGE) for seed in range(LARGE_SEEDS)]
    for kind in KINDS:
        assert sum(report.faults.get(kind, 0) for report in reports) > 0, kind
    assert sum(report.recoveries for report in reports) > SMALL_SEEDS / 2
    assert sum(report.crash_states for report in reports) > SMALL_SEEDS / 4


def test_a_world_without_faults_has_none_and_no_refusals() -> None:
    for seed in range(20):
        report = simulate(seed=seed, processes=2, writers=3, steps=30, faults=FaultPlan.none()).require_ok()
        assert (report.faults, report.recoveries, report.crash_states) == ({}, 0, 0)


def test_a_store_of_level_process_keeps_its_lesser_promise() -> None:
    for seed in range(30):
        simulate(seed=seed, processes=2, writers=3, steps=20, durability="process").require_ok()


@pytest.mark.parametrize("kind", [*KINDS])
def test_each_kind_of_fault_alone_strikes_and_is_survived(kind: str) -> None:
    plan = FaultPlan({kind: 0.15})
    struck = 0
    for seed in range(6):
        report = simulate(seed=seed, processes=2, writers=3, steps=30, faults=plan).require_ok()
        assert set(report.faults) <= {kind}
        struck += report.faults.get(kind, 0)
    assert struck > 0


def test_a_world_may_consist_of_one_process_with_one_writer() -> None:
    for seed in range(10):
        report = simulate(seed=seed, processes=1, writers=1, steps=12).require_ok()
        assert report.steps > 0  # checkpoints and modes are no calls of the history
