"""Real threads: what a cancellation may interrupt, and what it must wait for. Events instead of sleeping."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from strataflow.runtime.threads import SystemThreads, open_threads
from strataflow.store import FlockLocks, StoreError


class Held:
    """A blocking call that ends when it is let go, and says when it has begun."""

    def __init__(self) -> None:
        self.begun, self.go, self.has_ended = threading.Event(), threading.Event(), False

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(30)
        self.has_ended = True
        return "done"


def method(threads: SystemThreads, name: str) -> Callable[[Callable[[], Any]], Any]:
    found: Callable[[Callable[[], Any]], Any] = getattr(threads, name)
    return found


@pytest.mark.parametrize("name", ["commit", "work"])
async def test_a_cancelled_task_waits_for_the_end_of_its_call(name: str) -> None:
    async with open_threads(FlockLocks()) as threads, trio.open_nursery() as nursery:
        held, scope, results = Held(), trio.CancelScope(), []

        async def calls() -> None:
            with scope:
                results.append(await method(threads, name)(held))

        nursery.start_soon(calls)
        await trio.to_thread.run_sync(held.begun.wait)
        scope.cancel()
        for _ in range(5):
            await wait_all_tasks_blocked()
        assert results == []
        held.go.set()
        while not results:
            await trio.lowlevel.checkpoint()
        assert (results, held.has_ended) == (["done"], True)  # the outcome of what was begun is known


async def test_an_abandonable_call_is_left_to_itself_at_once() -> None:
    async with open_threads(FlockLocks()) as threads:
        held = Held()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(threads.work_abandonable, held)
            await trio.to_thread.run_sync(held.begun.wait)
            nursery.cancel_scope.cancel()
        assert not held.has_ended
        held.go.set()


@pytest.mark.parametrize("name", ["commit", "work"])
async def test_giving_up_lets_everybody_go_and_says_that_the_outcome_is_unknown(name: str) -> None:
    async with open_threads(FlockLocks()) as threads, trio.open_nursery() as nursery:
        held, codes = Held(), []

        async def calls() -> None:
            with pytest.raises(StoreError) as caught:
                await method(threads, name)(held)
            codes.append(caught.value.code)

        nursery.start_soon(calls)
        await trio.to_thread.run_sync(held.begun.wait)
        assert threads.give_up() == 1
        await wait_all_tasks_blocked()
        assert codes == ["E_BROKEN"]
        assert threads.give_up() == 0
        held.go.set()


async def test_giving_up_in_the_moment_of_an_answer_wakes_the_task_once() -> None:
    for passes in range(60):  # the moment lies a few passes of the loop after the call
        async with open_threads(FlockLocks()) as threads, trio.open_nursery() as nursery:
            outcomes = []

            async def calls(threads: SystemThreads = threads, outcomes: list[str] = outcomes) -> None:
                try:
                    outcomes.append(await threads.commit(lambda: "done"))
                except StoreError as error:
                    outcomes.append(error.code)

            nursery.start_soon(calls)
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            threads.give_up()
            while not outcomes:
                await trio.lowlevel.checkpoint()
            assert outcomes in (["done"], ["E_BROKEN"])


async def test_calls_of_the_append_thread_are_made_one_by_one_in_their_order() -> None:
    async with open_threads(FlockLocks()) as threads:
        made: list[tuple[int, int]] = []
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(threads.commit, lambda number=number: made.append((number, threading.get_ident())))
                await trio.lowlevel.checkpoint()
        assert len({thread for _, thread in made}) == 1
        assert [number for number, _ in made] == list(range(50))


async def test_what_a_call_raises_is_raised_in_the_task_that_waits() -> None:
    async with open_threads(FlockLocks()) as threads:
        for name in ("commit", "work", "work_abandonable"):
            with pytest.raises(ZeroDivisionError):
                await method(threads, name)(lambda: 1 // 0)


async def test_the_append_thread_ends_with_its_context() -> None:
    async with open_threads(FlockLocks()) as threads:
        assert threads._append.is_alive
    await trio.to_thread.run_sync(threads._append._thread.join, 30)
    assert not threads._append.is_alive


async def test_a_cancelled_wait_for_a_lock_neither_keeps_nor_loses_it(tmp_path: Path) -> None:
    locks = FlockLocks()
    mine, theirs = locks.open(f"{tmp_path}/lock"), locks.open(f"{tmp_path}/lock")
    async with open_threads(locks) as threads:
        assert theirs.try_acquire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(threads.wait_lock, mine)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert not mine.is_held
        theirs.release()
        await threads.wait_lock(mine)
        assert mine.is_held
        assert not theirs.try_acquire()
    mine.close()
    theirs.close()


async def test_a_wait_cancelled_in_the_moment_of_success_gives_the_lock_back(tmp_path: Path) -> None:
    # The thread has obtained the lock and the task is cancelled before it hears of it: nobody would release it.
    locks = FlockLocks()
    for _ in range(20):
        mine, theirs = locks.open(f"{tmp_path}/lock"), locks.open(f"{tmp_path}/lock")
        async with open_threads(locks) as threads:
            assert theirs.try_acquire()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(threads.wait_lock, mine)
                    await wait_all_tasks_blocked()
                    theirs.release()
                    scope.cancel()
            assert not mine.is_held
            # A thread that got it late gives it back by itself; the kernel then wakes whoever waits.
            await threads.wait_lock(theirs)
            assert theirs.is_held
        mine.close()
        theirs.close()


async def test_a_cancelled_wait_leaves_no_descriptor_behind_when_the_lock_is_free(tmp_path: Path) -> None:
    locks = FlockLocks()
    async with open_threads(locks) as threads:
        mine, theirs = locks.open(f"{tmp_path}/lock"), locks.open(f"{tmp_path}/lock")
        assert theirs.try_acquire()
        before = len(os.listdir("/proc/self/fd"))
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(threads.wait_lock, mine)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        theirs.release()
        while len(os.listdir("/proc/self/fd")) > before:
            await trio.lowlevel.checkpoint()
        assert mine.try_acquire()
        mine.close()
        theirs.close()


class InterruptedJobs:
    """A queue of jobs: Ctrl-C is pressed before or after the next one is put there."""

    def __init__(self, jobs: Any, moment: str) -> None:
        self.get, self._jobs, self._moment = jobs.get, jobs, moment

    def put(self, job: Any) -> None:
        moment, self._moment = self._moment, "never"
        if moment == "before":
            signal.raise_signal(signal.SIGINT)
        self._jobs.put(job)
        if moment == "after":
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_while_an_append_is_handed_over_comes_after_its_end(moment: str) -> None:
    results = []

    async def main() -> None:
        async with open_threads(FlockLocks()) as threads:
            threads._append._jobs = cast(Any, InterruptedJobs(threads._append._jobs, moment))
            results.append(await threads.commit(lambda: "done"))
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert results == ["done"]
