"""The store actor on a simulated machine: batches, turns, other processes, failures, cancellation."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.holds import holds
from kit.simulated_runtimes import LoneStore, fail_once, lone_store
from kit.simulated_stores import SimulatedStore
from strataflow.actors import Refresh
from strataflow.actors.limits import FOLLOW_SLICE
from strataflow.actors.store_actor import Phase
from strataflow.store import StoreError


async def outcome(store: LoneStore, number: int, results: dict[int, Any], **where: Any) -> None:
    """Patch, and keep what came of it."""
    results[number] = "cancelled"
    try:
        results[number] = (await store.patch(number, **where)).seq
    except StoreError as error:
        results[number] = error.code


@holds("Ours-2", "store 3.3.4")
async def test_everything_that_waits_is_appended_in_one_batch_in_its_order(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        results: dict[int, Any] = {}
        before = store.threads.calls["commit"]
        async with trio.open_nursery() as nursery:
            release = store.threads.hold("commit")
            for number in range(1, 41):
                nursery.start_soon(outcome, store, number, results)
                await wait_all_tasks_blocked()
            release.set()
        # The first went alone, the others had gathered behind it.
        assert store.threads.calls["commit"] - before == 2
        assert list(results.values()) == sorted(results.values())
        assert store.numbers() == set(range(1, 41))
        assert store.actor.statistics().rows == 40


@holds("design M3")
async def test_nobody_sees_a_value_before_it_is_durable(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        results: dict[int, Any] = {}
        for after in (False, True):
            release = store.threads.hold("commit", after=after)
            nursery.start_soon(outcome, store, int(after) + 1, results)
            await wait_all_tasks_blocked()
            assert (results[after + 1], int(after) + 1 in store.numbers()) == ("cancelled", False)
            release.set()
            await wait_all_tasks_blocked()
            assert (type(results[after + 1]), int(after) + 1 in store.numbers()) == (int, True)


async def test_a_refused_call_leaves_the_others_of_its_batch_alone(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        results: dict[int, Any] = {}
        release = store.threads.hold("commit")
        nursery.start_soon(outcome, store, 1, results)
        await wait_all_tasks_blocked()

        async def refused() -> None:
            with pytest.raises(StoreError) as caught:
                await store.patch(2, session_id="never opened", scope="session")
            results[2] = caught.value.code

        store.state.errors["--project--/never opened"] = StoreError("E_CORRUPT", "broken")
        nursery.start_soon(refused)
        nursery.start_soon(outcome, store, 3, results)
        await wait_all_tasks_blocked()
        release.set()
        await wait_all_tasks_blocked()
        assert results[2] == "E_CORRUPT"
        assert store.numbers() == {1, 3}


@holds("store 2.1.9")
async def test_whoever_leaves_before_staging_was_never_there(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        rival = store.machine.locks.of("rival").open(store.world.ground.layout.private("turn.lock"))
        assert rival.try_acquire()
        results: dict[int, Any] = {}
        scope = trio.CancelScope()

        async def leaves() -> None:
            with scope:
                await outcome(store, 1, results)

        nursery.start_soon(leaves)
        nursery.start_soon(outcome, store, 2, results)
        await trio.sleep(1)
        scope.cancel()
        await trio.sleep(1)
        rival.release()
        await trio.sleep(1)
        assert results[1] == "cancelled"
        assert store.numbers() == {2}


@holds("case store 51")
async def test_a_caller_who_leaves_during_the_append_goes_at_once_and_the_change_stays(
    autojump_clock: MockClock,
) -> None:
    async with lone_store() as store:
        release = store.threads.hold("commit")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.patch, 1)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert store.numbers() == set()
        release.set()
        await wait_all_tasks_blocked()
        assert store.numbers() == {1}
        assert store.actor.statistics().phase is Phase.IDLE


async def test_an_actor_cancelled_during_an_append_still_publishes_and_answers(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        results: dict[int, Any] = {}
        release = store.threads.hold("commit")
        nursery.start_soon(outcome, store, 1, results)
        await wait_all_tasks_blocked()
        store.life.cancel()
        await wait_all_tasks_blocked()
        assert not store.ended.is_set()
        release.set()
        await store.ended.wait()
        await wait_all_tasks_blocked()
        assert (type(results[1]), store.numbers()) == (int, {1})


@pytest.mark.parametrize("shared", [False, True])
async def test_an_actor_cancelled_with_the_turn_in_hand_gives_it_back(autojump_clock: MockClock, shared: bool) -> None:
    async with lone_store(share_with_pi=shared) as store, trio.open_nursery() as nursery:
        results: dict[int, Any] = {}
        store.state.stale.add("")  # so that it reads files with the turn in hand: there it is held up
        release = store.threads.hold("work", skip=int(shared))  # with Pi, the first call takes its lock
        nursery.start_soon(outcome, store, 1, results)
        await wait_all_tasks_blocked()
        assert (store.machine.disk.stat(store.world.ground.layout.pi_lock) is not None) or not shared
        rival = store.machine.locks.of("rival").open(store.world.ground.layout.private("turn.lock"))
        assert not rival.try_acquire()
        store.life.cancel()
        release.set()
        await store.ended.wait()
        assert rival.try_acquire()  # M5
        rival.release()
        assert store.machine.disk.stat(store.world.ground.layout.pi_lock) is None or not shared
        await wait_all_tasks_blocked()
        assert results[1] == "cancelled"
        store.mailbox.finish()
        await wait_all_tasks_blocked()
        assert results[1] == "E_CLOSED"


async def test_an_actor_cancelled_while_it_waits_for_the_turn_does_not_get_it(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        rival = store.machine.locks.of("rival").open(store.world.ground.layout.private("turn.lock"))
        assert rival.try_acquire()
        results: dict[int, Any] = {}
        nursery.start_soon(outcome, store, 1, results)
        await trio.sleep(1)
        store.life.cancel()
        await store.ended.wait()
        rival.release()
        await trio.sleep(1)
        assert not store.world.turn.is_held
        await store.live()  # what it had not begun with goes to the next life
        await trio.sleep(1)
        assert store.numbers() == {1}


@holds("Ours-3", "P9", "P18")
async def test_a_faster_process_makes_it_follow_and_stage_again(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        results: dict[int, Any] = {}
        other = SimulatedStore.open(store.machine, "other", session_id="theirs")
        release = store.threads.hold("commit")
        nursery.start_soon(outcome, store, 1, results)
        await wait_all_tasks_blocked()
        other.patch(global_={"working": {"other": 1000}})
        release.set()
        await wait_all_tasks_blocked()
        assert store.numbers() == {1, 1000}
        assert store.actor.statistics().repeated == 1
        assert results[1] == store.state.head
        other.abandon()
        store.machine.kill("other")


@holds("J3")
async def test_a_busy_journal_is_asked_again_after_a_pause(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        answers = iter([True] * 5 + [False] * 9)
        store.machine.journals.is_busy = lambda: next(answers)
        started = trio.current_time()
        receipt = await store.patch(1)
        assert receipt.seq == store.state.head
        assert trio.current_time() > started
        assert store.actor.statistics().repeated == 5


@holds("Ours-17")
async def test_a_full_disk_refuses_the_batch_and_the_next_call_finds_room(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        store.machine.disk.capacity_bytes = 0
        with pytest.raises(StoreError) as caught:
            await store.patch(1)
        assert caught.value.code == "E_DISK"
        assert store.numbers() == set()
        store.machine.disk.capacity_bytes = None
        await store.patch(2)
        assert store.numbers() == {2}
        assert not store.ended.is_set()


@holds("Ours-17", "design M4")
@pytest.mark.parametrize("survives", [False, True])
async def test_a_failed_sync_leaves_the_outcome_unknown_and_recovery_decides(
    autojump_clock: MockClock, survives: bool
) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        await store.patch(1)
        results: dict[int, Any] = {}
        store.machine.disk.before_operation = fail_once("sync_file", "journal.db-wal")
        release = store.threads.hold("commit")
        nursery.start_soon(outcome, store, 2, results)
        await wait_all_tasks_blocked()
        nursery.start_soon(outcome, store, 3, results)
        await wait_all_tasks_blocked()
        release.set()
        await store.ended.wait()
        await wait_all_tasks_blocked()
        assert (results[2], results[3]) == ("E_BROKEN", "cancelled")
        assert isinstance(store.failure, StoreError)
        assert store.numbers() == {1}  # reads go on from the last root
        if not survives:
            keeper = store.machine.journals.open("keeper", store.world.ground.layout, "power")
        await store.live()
        await wait_all_tasks_blocked()
        assert store.numbers() == ({1, 2, 3} if survives else {1, 3})
        assert type(results[3]) is int
        if not survives:
            keeper.close()


@holds("J9")
@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "turn.lock"])
async def test_replaced_files_are_noticed_before_the_answer_and_everything_is_kept_aside(
    autojump_clock: MockClock, name: str
) -> None:
    async with lone_store() as store:
        await store.patch(1)
        disk, layout = store.machine.disk, store.world.ground.layout
        content = disk.read(layout.private(name)) or b""
        disk.unlink(layout.private(name))
        disk.write_new(layout.private(name), content)
        with pytest.raises(StoreError) as caught:
            await store.patch(2)
        assert caught.value.code == "E_BROKEN"
        await store.ended.wait()
        assert store.numbers() == {1}
        assert store.events == ["journal-replaced"]
        folder = layout.private("superseded")
        kept = b"".join(disk.read(f"{folder}/{file}") or b"" for file in disk.list(folder) or ())
        assert b'"n1":1' in kept
        assert b'"n2":2' in kept
        await store.live()
        await store.patch(3)


@holds("J4", "Ours-2")
@pytest.mark.parametrize("ask", ["no-op", "change", "refresh"])
async def test_a_power_process_syncs_before_it_answers_on_rows_of_level_process(
    autojump_clock: MockClock, ask: str
) -> None:
    async with lone_store() as store:
        await store.patch(1)
        other = SimulatedStore.open(store.machine, "other", session_id="theirs", level="process")
        other.patch(global_={"working": {"other": 1000}})
        if ask == "no-op":
            assert not (await store.patch(1)).changed
        elif ask == "change":
            assert (await store.patch(2)).changed
        else:
            await store.ref.ask(Refresh())
        assert 1000 in store.numbers()
        # What it saw is there after a power cut now.
        found = store.machine.after_power_cut("lose")
        assert SimulatedStore.open(found, "later").read("global.working.other") == 1000
        other.abandon()
        store.machine.kill("other")


@holds("J4")
async def test_a_process_of_level_process_does_not_wait_for_syncs_of_its_own(autojump_clock: MockClock) -> None:
    async with lone_store(level="process") as store:
        synced: list[str] = []
        store.machine.disk.before_operation = lambda name, path: synced.append(name)
        for number in range(20):
            await store.patch(number)
        assert "sync_file" not in synced


async def test_a_process_far_behind_catches_up_without_the_turn(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        other = SimulatedStore.open(store.machine, "other", session_id="theirs")
        for number in range(5 * FOLLOW_SLICE):
            other.patch(global_={"working": {f"other{number}": 1000 + number}})
        journal, held = store.world.journal, []

        class Watched:
            def rows_since(self, seq: int, limit: int) -> Any:
                rows = journal.rows_since(seq, limit)
                held.append((store.world.turn.is_held, len(rows)))
                return rows

            def __getattr__(self, name: str) -> Any:
                return getattr(journal, name)

        store.world.journal = Watched()  # type: ignore[assignment]
        receipt = await store.patch(1)
        assert receipt.seq == store.state.head
        assert len(store.numbers()) == 5 * FOLLOW_SLICE + 1
        assert all(count < FOLLOW_SLICE for is_held, count in held[1:] if is_held)
        store.world.journal = journal
        other.abandon()
        store.machine.kill("other")


@holds("J1")
async def test_rows_that_were_pruned_meanwhile_are_read_from_the_files(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        await store.patch(1)
        other = SimulatedStore.open(store.machine, "other", session_id="theirs")
        for number in range(150):
            other.patch(global_={"working": {"other": number, f"o{number}": 1000 + number}})
        other.checkpoint()
        assert other.journal.view(0).pruned_through > store.state.head
        await store.patch(2)
        assert {1, 2, *range(1000, 1150)} <= store.numbers()
        other.follow()
        assert other.read("global.working.n2") == 2
        other.abandon()
        store.machine.kill("other")


@holds("J12", "Ours-3")
async def test_a_private_change_of_another_process_fences_the_session_until_it_is_opened_again(
    autojump_clock: MockClock,
) -> None:
    async with lone_store() as store:
        await store.patch(1, scope="session")
        other = SimulatedStore.open(store.machine, "other")
        other.patch(session={"working": {"other": 1000}})
        with pytest.raises(StoreError) as caught:
            await store.patch(2, scope="session")
        assert caught.value.code == "E_CHANGED"
        view = store.state.trio(store.address())[2]
        assert view.state is not None
        assert set(view.state.value["working"].values()) == {1}  # the view is kept
        await store.patch(3, session_id="other", scope="session")
        other.abandon()
        store.machine.kill("other")


@holds("J12")
async def test_the_fence_is_judged_after_a_reload_too(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        await store.patch(1, scope="session")
        store.life.cancel()
        await store.ended.wait()
        other = SimulatedStore.open(store.machine, "other")
        other.patch(session={"working": {"other": 1000}})
        other.checkpoint()
        await store.live()  # a new life reads everything anew
        with pytest.raises(StoreError) as caught:
            await store.patch(2, scope="session")
        assert caught.value.code == "E_CHANGED"
        other.abandon()
        store.machine.kill("other")


@holds("Ours-17", "J7")
async def test_a_commit_is_not_refused_because_a_failed_checkpoint_can_not_ask_for_the_size_of_the_journal(
    autojump_clock: MockClock,
) -> None:
    async with lone_store(share_with_pi=True) as store:
        fail_unlink = fail_once("unlink", ".state-flow-publication.lock")
        looks: list[str] = []

        def fail_twice(name: str, path: str) -> None:
            fail_unlink(name, path)
            if name == "stat" and path.endswith("journal.db"):
                looks.append(path)
                if len(looks) == 2:  # the first asks whether the journal is the one that was opened
                    raise OSError(errno.EIO, "injected")

        store.machine.disk.before_operation = fail_twice
        assert (await store.patch(1)).changed
        assert store.numbers() == {1}
        await trio.sleep(60)
        assert (await store.patch(2)).changed


@holds("Ours-17", "J7")
async def test_a_commit_is_not_refused_because_pis_lock_can_not_be_taken_away_afterwards(
    autojump_clock: MockClock,
) -> None:
    # It was told E_DISK, which means that nothing was stored, and was in the journal all the same.
    async with lone_store(share_with_pi=True) as store:
        path = f"{store.machine.root}/.state-flow-publication.lock"
        store.machine.disk.before_operation = fail_once("unlink", ".state-flow-publication.lock")
        receipt = await store.patch(1)
        assert receipt.changed
        assert store.numbers() == {1}
        assert path in store.machine.disk.contents()
        # The lock stays until a checkpoint could give it back; no commit is taken meanwhile.
        with pytest.raises(StoreError) as caught:
            await store.patch(2)
        assert caught.value.code == "E_DISK"
        await trio.sleep(60)
        assert path not in store.machine.disk.contents()
        assert (await store.patch(3)).changed
        assert store.numbers() == {1, 3}
