"""The real and the seeded forms of Clock and Ids keep the same promises."""

from __future__ import annotations

import sys
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from strataflow.actors.ports import Clock, Ids
from strataflow.runtime.simulation.clock import START_MS_MAX, START_MS_MIN, SeededClock
from strataflow.runtime.simulation.ids import SeededIds
from strataflow.runtime.world import RandomIds, SystemClock


@pytest.fixture(params=["system", "seeded"])
def clock(request: pytest.FixtureRequest) -> Clock:
    ticks = iter(range(1, 1000))
    return SystemClock() if request.param == "system" else SeededClock(1, lambda: next(ticks) / 3)


@pytest.fixture(params=["random", "seeded"])
def ids(request: pytest.FixtureRequest) -> Ids:
    return RandomIds() if request.param == "random" else SeededIds(1)


def test_wall_time_is_whole_milliseconds_of_this_century(clock: Clock) -> None:
    assert type(clock.wall_ms()) is int
    assert START_MS_MIN <= clock.wall_ms() <= START_MS_MAX + 10_000


def test_monotonic_time_never_decreases(clock: Clock) -> None:
    readings = [clock.monotonic_s() for _ in range(100)]
    assert readings == sorted(readings)


def test_ids_are_distinct_canonical_uuids(ids: Ids) -> None:
    made = [ids.new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(str(uuid.UUID(text)) == text and uuid.UUID(text).version == 4 for text in made)


def test_several_threads_draw_ids_at_the_same_time() -> None:
    ids, made, failed = RandomIds(), list[str](), list[Exception]()

    def draw() -> None:
        try:
            for _ in range(10_000):
                made.append(ids.new_id())
        except ValueError as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    assert len(set(made)) == len(made) == 40_000


@given(seed=st.integers())
def test_equal_seeds_give_equal_worlds(seed: int) -> None:
    one, two = SeededClock(seed, lambda: 7.0), SeededClock(seed, lambda: 9.0)
    assert one.wall_ms() == two.wall_ms()
    first, second = SeededIds(seed), SeededIds(seed)
    assert [first.new_id() for _ in range(5)] == [second.new_id() for _ in range(5)]


def test_different_seeds_give_different_worlds() -> None:
    assert len({SeededClock(seed, lambda: 0.0).wall_ms() for seed in range(20)}) == 20
    assert len({SeededIds(seed).new_id() for seed in range(20)}) == 20


def test_a_jump_moves_wall_time_only() -> None:
    clock = SeededClock(3, lambda: 0.0)
    before = clock.wall_ms()
    clock.jump_wall(-5000)
    assert clock.wall_ms() == before - 5000
    assert clock.monotonic_s() == 0.0


async def test_the_seeded_clock_follows_virtual_time(mock_clock: MockClock) -> None:
    clock = SeededClock(3)
    before = clock.wall_ms()
    mock_clock.jump(1.5)
    assert clock.monotonic_s() == pytest.approx(1.5)
    assert clock.wall_ms() - before in (1499, 1500)
