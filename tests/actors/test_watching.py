"""The hub: who is woken by what, and that nothing is lost or left behind."""

from __future__ import annotations

import gc

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.simulated_runtimes import lone_store
from strataflow.actors import Listener, WatchHub
from strataflow.store import StoreError


async def test_a_waiter_is_woken_by_a_change_of_its_scopes_alone() -> None:
    hub, asked = WatchHub(), list[int]()
    answers = iter([False, False, True])

    def check() -> bool:
        asked.append(len(asked))
        return next(answers)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.wait_until, check, ("", "--a--"))
        await wait_all_tasks_blocked()
        hub.change(("--b--",), None)
        await wait_all_tasks_blocked()
        assert len(asked) == 1
        hub.change(("--a--",), None)
        await wait_all_tasks_blocked()
        assert len(asked) == 2
        hub.change(("", "--b--"), None)
    assert len(asked) == 3
    assert not hub.is_waited_for


async def test_what_the_check_raises_ends_the_wait() -> None:
    hub, is_open = WatchHub(), [True]

    def check() -> bool:
        if not is_open[0]:
            raise StoreError("E_CLOSED", "closed")
        return False

    async def close() -> None:
        await wait_all_tasks_blocked()
        is_open[0] = False
        hub.wake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        with pytest.raises(StoreError, match="closed"):
            await hub.wait_until(check, ("",))


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    hub = WatchHub()
    with trio.move_on_after(0):
        await hub.wait_until(lambda: False, ("", "--a--"))
    assert not hub.is_waited_for
    assert not hub._by_scope


async def test_listeners_that_were_dropped_are_forgotten() -> None:
    hub = WatchHub()
    for number in range(1_000):
        hub.add(Listener(), (f"--{number}--",))
    gc.collect()
    hub.add(Listener(), ("",))
    hub.change(("--999--",), None)
    assert len(hub._by_scope) < 200


async def test_each_accepted_row_wakes_whoever_waits_for_its_scope(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        seen: list[set[int]] = []

        def check() -> bool:
            seen.append(store.numbers())
            return 2 in seen[-1]

        nursery.start_soon(store.world.hub.wait_until, check, ("",))
        await wait_all_tasks_blocked()
        await store.patch(1)
        await wait_all_tasks_blocked()
        await store.patch(1, scope="session")  # another scope
        await store.patch(2)
    assert seen == [set(), {1}, {1, 2}]
