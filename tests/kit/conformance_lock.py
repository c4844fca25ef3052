"""What every kernel lock and every process table must do, real or simulated.

No check sleeps: where a thread waits for a lock, both orders of "it waits already" and "it does not yet" must have the
same outcome, so that none of them needs to be arranged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol

import attrs
import pytest

from strataflow.store import KernelLock, LockAttempt, Locks, ProcessTable, StoreError

PATIENCE_S = 30.0  # how long a thread may take that must end by itself; only reached when a check fails


class LockWorld(Protocol):
    """Two processes of one machine, and a folder that both see."""

    first: Locks
    second: Locks
    root: str

    def symlink(self, path: str, target: str) -> None: ...

    def make_folder(self, path: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def file_identity(self, path: str) -> tuple[int, int]: ...


class Waiting:
    """A thread that waits for a lock."""

    def __init__(self, lock: KernelLock, attempt: LockAttempt) -> None:
        self._outcome: bool | BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(lock, attempt), daemon=True)
        self._thread.start()

    def _run(self, lock: KernelLock, attempt: LockAttempt) -> None:
        try:
            self._outcome = lock.acquire_blocking(attempt)
        except BaseException as error:
            # Whatever it is, it is raised again in the thread that asks for the outcome.
            self._outcome = error

    def outcome(self) -> bool:
        """What the wait returned, once it has ended."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the wait did not end"
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


@attrs.frozen
class Pair:
    """The lock on one file as two processes opened it."""

    one: KernelLock
    two: KernelLock
    path: str


class LockConformance:
    @pytest.fixture
    def pair(self, world: LockWorld) -> Iterator[Pair]:
        path = f"{world.root}/turn.lock"
        both = Pair(world.first.open(path), world.second.open(path), path)
        yield both
        both.one.close()
        both.two.close()

    def test_opening_takes_nothing_and_keeps_the_file(self, pair: Pair) -> None:
        assert not pair.one.is_held
        assert pair.two.try_acquire()
        pair.two.release()
        assert pair.one.identity() == pair.two.identity()

    def test_a_held_lock_is_refused_until_it_is_given_back(self, pair: Pair) -> None:
        assert pair.one.try_acquire()
        assert (pair.one.is_held, pair.two.is_held) == (True, False)
        assert not pair.two.try_acquire()
        pair.one.release()
        assert pair.two.try_acquire()
        assert (pair.one.is_held, pair.two.is_held) == (False, True)

    def test_closing_gives_the_lock_back(self, pair: Pair) -> None:
        assert pair.one.try_acquire()
        pair.one.close()
        pair.one.close()
        assert not pair.one.is_held
        assert pair.two.try_acquire()

    def test_releasing_what_is_not_held_does_nothing(self, pair: Pair) -> None:
        assert pair.one.try_acquire()
        pair.two.release()
        pair.two.close()
        pair.two.release()
        assert pair.one.is_held

    def test_a_closed_lock_refuses_to_be_used(self, world: LockWorld, pair: Pair) -> None:
        pair.one.close()
        for call in (pair.one.try_acquire, lambda: pair.one.acquire_blocking(world.first.attempt())):
            with pytest.raises(StoreError, match="open the store anew") as caught:
                call()
            assert (caught.value.code, caught.value.data["path"]) == ("E_CLOSED", pair.path)

    def test_asking_while_holding_is_a_programming_error(self, pair: Pair) -> None:
        assert pair.one.try_acquire()
        with pytest.raises(AssertionError):
            pair.one.try_acquire()

    def test_the_identity_is_that_of_the_file(self, world: LockWorld, pair: Pair) -> None:
        other = world.first.open(f"{world.root}/other.lock")
        assert pair.one.identity() == world.file_identity(pair.path)
        assert other.identity() != pair.one.identity()
        other.close()

    def test_waiting_for_a_free_lock_gets_it(self, world: LockWorld, pair: Pair) -> None:
        attempt = world.first.attempt()
        assert pair.one.acquire_blocking(attempt) is True
        assert pair.one.is_held
        assert not pair.two.try_acquire()
        assert attempt.abandon() is False  # too late: the caller holds it
        assert pair.one.is_held

    def test_a_waiter_gets_the_lock_when_it_is_given_back(self, world: LockWorld, pair: Pair) -> None:
        assert pair.one.try_acquire()
        waiting = Waiting(pair.two, world.second.attempt())
        pair.one.release()
        assert waiting.outcome() is True
        assert pair.two.is_held
        pair.two.release()
        assert pair.one.try_acquire()

    def test_a_waiter_gets_the_lock_when_its_holder_closes(self, world: LockWorld, pair: Pair) -> None:
        assert pair.one.try_acquire()
        waiting = Waiting(pair.two, world.second.attempt())
        pair.one.close()
        assert waiting.outcome() is True

    def test_an_attempt_abandoned_early_never_takes_the_lock(self, world: LockWorld, pair: Pair) -> None:
        attempt = world.first.attempt()
        assert attempt.abandon() is True
        assert pair.one.acquire_blocking(attempt) is False
        assert pair.two.try_acquire()

    def test_an_abandoned_wait_gives_the_lock_back_by_itself(self, world: LockWorld, pair: Pair) -> None:
        assert pair.one.try_acquire()
        attempt = world.second.attempt()
        waiting = Waiting(pair.two, attempt)
        assert attempt.abandon() is True
        assert attempt.abandon() is True
        pair.one.release()
        assert waiting.outcome() is False
        assert not pair.two.is_held
        assert pair.one.try_acquire()

    def test_an_abandoned_wait_never_frees_a_later_success(self, world: LockWorld, pair: Pair) -> None:
        assert pair.one.try_acquire()
        attempt = world.second.attempt()
        late = Waiting(pair.two, attempt)
        attempt.abandon()
        pair.one.release()
        assert pair.two.acquire_blocking(world.second.attempt()) is True
        # Each try lets the other thread run, which would now free what it does not own.
        assert not any(pair.one.try_acquire() for _ in range(1000))
        assert pair.two.is_held
        pair.two.release()
        assert late.outcome() is False
        assert pair.one.try_acquire()

    def test_closing_ends_a_wait_that_nobody_abandoned(self, world: LockWorld, pair: Pair) -> None:
        assert pair.one.try_acquire()
        waiting = Waiting(pair.two, world.second.attempt())
        pair.two.close()
        pair.one.release()
        outcome: bool | str
        try:
            outcome = waiting.outcome()
        except StoreError as error:  # it was closed before the thread came to wait
            outcome = error.code
        assert outcome in (False, "E_CLOSED")
        assert pair.one.acquire_blocking(world.first.attempt()) is True

    def test_a_replaced_file_is_another_lock(self, world: LockWorld, pair: Pair) -> None:
        assert pair.one.try_acquire()
        world.unlink(pair.path)
        fresh = world.second.open(pair.path)
        assert fresh.try_acquire()
        assert fresh.identity() != pair.one.identity()
        with pytest.raises(StoreError, match="replaced") as caught:
            pair.two.acquire_blocking(world.second.attempt())
        assert (caught.value.code, caught.value.data["path"]) == ("E_LOCK", pair.path)
        fresh.close()

    def test_a_link_or_folder_is_no_lock_file(self, world: LockWorld) -> None:
        world.symlink(f"{world.root}/link", f"{world.root}/elsewhere")
        world.make_folder(f"{world.root}/folder")
        for path in (f"{world.root}/link", f"{world.root}/folder"):
            with pytest.raises(StoreError) as caught:
                world.first.open(path)
            assert (caught.value.code, caught.value.data["path"]) == ("E_CORRUPT", path)

    def test_many_threads_that_give_up_at_times_exclude_each_other(self, world: LockWorld) -> None:
        path, inside, entered = f"{world.root}/turn.lock", [], []

        def work(number: int) -> None:
            lock = (world.first if number % 2 else world.second).open(path)
            for turn in range(30):
                attempt = world.first.attempt()
                if (number + turn) % 3 == 0:
                    waiting = Waiting(lock, attempt)
                    if attempt.abandon():
                        waiting.outcome()
                        continue
                    assert waiting.outcome() is True
                else:
                    assert lock.acquire_blocking(attempt) is True
                inside.append(number)
                entered.append(list(inside))
                inside.remove(number)
                lock.release()
            lock.close()

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert len(entered) >= 80
        assert all(len(present) == 1 for present in entered)


class ProcessTableConformance:
    def test_a_process_is_alive_to_itself(self, table: ProcessTable) -> None:
        own = table.own()
        assert own == table.own()
        assert table.is_alive(own)
        assert table.pid_exists(own.pid)

    def test_the_same_id_with_another_start_is_dead(self, table: ProcessTable) -> None:
        assert not table.is_alive(attrs.evolve(table.own(), start_time=table.own().start_time + 1))

    def test_the_same_process_before_a_reboot_is_dead(self, table: ProcessTable) -> None:
        assert not table.is_alive(attrs.evolve(table.own(), boot_id="another boot"))

    def test_an_id_that_nobody_has_is_dead(self, table: ProcessTable) -> None:
        for pid in (0, -1, -table.own().pid, 2**40):
            assert not table.pid_exists(pid)
            assert not table.is_alive(attrs.evolve(table.own(), pid=pid))
