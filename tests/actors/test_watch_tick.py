"""The tick: when a process that waits for a change looks into the journal, and what it does when that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.simulated_runtimes import LoneStore, lone_store
from strataflow.actors.limits import BELL_LINGER_S, FOLLOW_SLICE, LOOK_PAUSE_S_MAX, POLL_BEAT_S, RING_ECHO_S
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import StoreError


@attrs.define(eq=False)
class HandBell:
    """A bell that a test rings."""

    trouble: str = ""
    beat_s: float = 1_000.0
    opened: int = 0
    closed: int = 0
    _rung: trio.Event = attrs.field(factory=trio.Event)

    def open(self) -> HandBell:
        self.opened += 1
        return self

    def ring(self) -> None:
        self._rung.set()

    async def wait_rung(self) -> None:
        await self._rung.wait()
        self._rung = trio.Event()

    def close(self) -> None:
        self.closed += 1


@attrs.define(eq=False)
class Looks:
    """When the journal of a store was looked into."""

    times: list[float] = attrs.field(factory=list)

    @classmethod
    def of(cls, store: LoneStore, monkeypatch: pytest.MonkeyPatch) -> Looks:
        looks, journal = cls(), store.world.journal
        rows_since = journal.rows_since

        def noted(seq: int, limit: int) -> Any:
            looks.times.append(trio.current_time())
            return rows_since(seq, limit)

        monkeypatch.setattr(journal, "rows_since", noted)
        return looks


def hand_bell(store: LoneStore, **options: Any) -> HandBell:
    bell = HandBell(**options)
    store.world.open_bell = bell.open
    return bell


def seen(store: LoneStore, number: int) -> Callable[[], bool]:
    return lambda: number in store.numbers()


async def wait_until(store: LoneStore, check: Callable[[], bool]) -> None:
    await store.world.hub.wait_until(check, ("",))


async def test_where_no_bell_rings_others_are_seen_within_a_beat(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with lone_store(machine) as mine, lone_store(machine, "second") as theirs, trio.open_nursery() as nursery:
        nursery.start_soon(wait_until, mine, seen(mine, 7))
        await trio.sleep(3.33)
        await theirs.patch(7)
        appended_s = trio.current_time()
        await wait_until(mine, seen(mine, 7))
        assert trio.current_time() - appended_s <= POLL_BEAT_S + 0.001


async def test_nobody_looks_while_nobody_waits(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lone_store() as store:
        bell, looks = hand_bell(store, beat_s=0.5), Looks.of(store, monkeypatch)
        await trio.sleep(100)
        assert (looks.times, bell.opened) == ([], 0)
        with trio.move_on_after(50):
            await wait_until(store, lambda: False)
        assert 90 <= len(looks.times) <= 110
        assert (bell.opened, bell.closed) == (1, 0)
        await trio.sleep(BELL_LINGER_S + 0.5)
        count = len(looks.times)
        await trio.sleep(100)
        assert len(looks.times) == count
        assert bell.closed == 1
        with trio.move_on_after(0.1):
            await wait_until(store, lambda: False)
        assert (bell.opened, len(looks.times)) == (2, count + 1)


async def test_a_ring_is_followed_by_looks_at_growing_pauses(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        bell, looks = hand_bell(store), Looks.of(store, monkeypatch)
        nursery.start_soon(wait_until, store, lambda: False)
        await trio.sleep(10)
        looks.times.clear()
        rung_s = trio.current_time()
        bell.ring()
        await trio.sleep(50)
        after = [time - rung_s for time in looks.times]
        assert after[0] < 0.001
        assert 10 < len(after) < 40
        # Whenever the rows become visible, they are seen soon after.
        for early, late in zip(after, [*after[1:], RING_ECHO_S], strict=True):
            assert late - early <= max(0.0011, min(early / 2 + 1e-9, LOOK_PAUSE_S_MAX + 1e-9))
        nursery.cancel_scope.cancel()


async def test_rings_without_end_make_nobody_look_without_end(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        bell, looks = hand_bell(store), Looks.of(store, monkeypatch)
        nursery.start_soon(wait_until, store, lambda: False)
        for _ in range(10_000):
            bell.ring()
            await trio.sleep(0.000_05)
        assert len(looks.times) <= 510
        nursery.cancel_scope.cancel()


async def test_while_an_append_is_under_way_the_journal_is_left_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        bell, looks = hand_bell(store), Looks.of(store, monkeypatch)
        nursery.start_soon(wait_until, store, seen(store, 1))
        await trio.sleep(10)
        release = store.threads.hold("commit")
        nursery.start_soon(store.patch, 1)
        await wait_all_tasks_blocked()
        looks.times.clear()
        bell.ring()
        await trio.sleep(2)
        assert looks.times == []
        release.set()
        await trio.sleep(2)
        assert looks.times
        assert 1 in store.numbers()


async def test_a_watcher_that_is_far_behind_catches_up_in_slices(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    count = 2 * FOLLOW_SLICE + 3
    async with lone_store(machine) as mine, lone_store(machine, "second") as theirs:
        for number in range(count):
            await theirs.patch(number)
        await wait_until(mine, seen(mine, count - 1))
        assert mine.numbers() == set(range(count))


async def test_a_journal_that_can_not_be_read_for_a_while_is_reported_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimulatedMachine()
    async with lone_store(machine) as mine, lone_store(machine, "second") as theirs, trio.open_nursery() as nursery:
        rows_since = mine.world.journal.rows_since

        def refused(seq: int, limit: int) -> Any:
            raise StoreError("E_DISK", "the disk does not answer")

        monkeypatch.setattr(mine.world.journal, "rows_since", refused)
        nursery.start_soon(wait_until, mine, seen(mine, 7))
        await trio.sleep(3)
        assert mine.events == ["watch-failed"]
        monkeypatch.setattr(mine.world.journal, "rows_since", rows_since)
        await theirs.patch(7)
    assert mine.failure is None


async def test_beside_pi_others_are_followed_in_rounds_that_keep_it_out(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with (
        lone_store(machine, share_with_pi=True) as mine,
        lone_store(machine, "second", share_with_pi=True) as theirs,
    ):
        rounds = mine.actor.statistics().rounds
        with trio.move_on_after(5):
            await wait_until(mine, lambda: False)
        assert mine.actor.statistics().rounds == rounds
        await theirs.patch(7)
        with trio.fail_after(3 * POLL_BEAT_S):
            await wait_until(mine, seen(mine, 7))
        assert mine.actor.statistics().rounds == rounds + 1
    assert mine.events == []


async def test_why_a_bell_can_not_ring_is_reported_once(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        hand_bell(store, trouble="too many files are watched", beat_s=0.1)
        for _ in range(3):
            with trio.move_on_after(1):
                await wait_until(store, lambda: False)
            await trio.sleep(10)
        assert store.events == ["watch-polls"]


async def test_a_watcher_on_removed_ground_ends_the_life_and_goes_on_in_the_next(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with lone_store(machine) as store, trio.open_nursery() as nursery:
        await store.patch(1)
        nursery.start_soon(wait_until, store, seen(store, 2))
        await trio.sleep(1)
        for name in ("journal.db", "journal.db-wal"):
            machine.disk.unlink(store.world.ground.layout.private(name))
        await store.ended.wait()
        assert isinstance(store.failure, StoreError)
        assert store.failure.code == "E_BROKEN"
        await store.live()
        await store.patch(2)
    assert 2 in store.numbers()


async def test_in_a_forked_child_whoever_waits_is_woken_and_finds_out(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        asked: list[bool] = []

        def check() -> bool:
            asked.append(store.world.member.lock.is_held)
            return not asked[-1]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_until, store, check)
            await trio.sleep(1)
            lock = store.world.member.lock
            store.world.member = attrs.evolve(store.world.member, lock=_Forked(lock))
            await trio.sleep(1)
        assert asked == [True, False]
        store.world.member = attrs.evolve(store.world.member, lock=lock)


@attrs.define
class _Forked:
    """A lock as a forked child sees it."""

    inner: Any
    is_held: bool = False


async def test_the_bell_is_closed_when_the_life_of_the_actor_ends(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        bell = hand_bell(store)
        nursery.start_soon(wait_until, store, lambda: False)
        await trio.sleep(1)
        store.life.cancel()
        await store.ended.wait()
        assert bell.closed == 1
        nursery.cancel_scope.cancel()
