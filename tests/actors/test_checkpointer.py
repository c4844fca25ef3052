"""When the canonical files are written, and what happens while they can not be (Ours-1, Ours-17)."""

from __future__ import annotations

import errno
import itertools

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.holds import holds
from kit.simulated_runtimes import LoneStore, fail_once, lone_store
from kit.simulated_stores import SimulatedStore
from strataflow.actors import Checkpoint
from strataflow.actors.limits import CHECKPOINT_IDLE_S, CHECKPOINT_LATEST_S, CHECKPOINT_RETRY_S_MAX
from strataflow.store import StoreError


def written(store: LoneStore) -> bytes:
    """The tail of the global scope as the canonical files hold it."""
    return store.machine.disk.contents().get(f"{store.machine.root}/patches.jsonl", b"")


@holds("Ours-1")
async def test_files_are_written_two_seconds_after_the_last_work(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        for number in range(5):
            await store.patch(number)
            await trio.sleep(CHECKPOINT_IDLE_S - 0.1)
            assert written(store) == b""
        await trio.sleep(0.2)
        assert b'"n4":4' in written(store)
        await trio.sleep(60)
        assert not store.state.pending


@holds("Ours-1")
async def test_files_are_written_after_thirty_seconds_of_work_without_a_pause(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        started, number = trio.current_time(), 0
        while written(store) == b"":
            number += 1
            await store.patch(number)
            await trio.sleep(1)
        assert trio.current_time() - started == pytest.approx(CHECKPOINT_LATEST_S, abs=1.1)


@holds("Ours-1")
async def test_files_are_written_after_four_mebibytes_of_rows(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        started = trio.current_time()
        for number in range(6):
            message = store.commit(number)
            big = {"global": {"working": {f"n{number}": number, f"big{number}": "x" * (1 << 20)}}}
            await store.ref.ask(type(message)(lambda draft, big=big: draft.stage_patch(store.address(), big)))
        await trio.sleep(0.01)
        assert trio.current_time() - started < 0.1
        assert written(store) != b""


@holds("Ours-17")
async def test_a_checkpoint_that_fails_is_reported_and_tried_again_ever_later(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        moments: list[float] = []

        def before(name: str, path: str) -> None:
            if name == "write_new" and "/staged/" in path:
                moments.append(trio.current_time())
                raise OSError(errno.ENOSPC, "injected")

        store.machine.disk.before_operation = before
        await store.patch(1)
        await trio.sleep(600)
        pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
        assert pauses[:4] == pytest.approx([2, 4, 8, 16])
        assert max(pauses) == pytest.approx(CHECKPOINT_RETRY_S_MAX)
        assert set(store.events) == {"checkpoint-failed"}
        await store.patch(2)  # nothing is lost and commits go on
        store.machine.disk.before_operation = None
        await trio.sleep(CHECKPOINT_RETRY_S_MAX + 1)
        assert b'"n2":2' in written(store)
        await trio.sleep(300)
        assert len(moments) == len(pauses) + 1


@holds("Ours-17")
async def test_beyond_the_bound_commits_are_refused_until_a_checkpoint_succeeds(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strataflow.actors.checkpointer.JOURNAL_BYTES_MAX", 10)
    async with lone_store() as store:
        store.machine.disk.before_operation = fail_once("write_new", "-0", errno.ENOSPC)
        await store.patch(1)
        with pytest.raises(StoreError):
            await store.ref.ask(Checkpoint())
        with pytest.raises(StoreError) as caught:
            await store.patch(2)
        assert caught.value.code == "E_DISK"
        assert store.numbers() == {1}
        assert not (await store.patch(1)).changed  # what changes nothing is answered
        await store.ref.ask(Checkpoint())
        await store.patch(2)
        assert store.numbers() == {1, 2}


@holds("Ours-1")
async def test_commits_go_on_while_a_checkpoint_is_under_way(autojump_clock: MockClock) -> None:
    async with lone_store() as store, trio.open_nursery() as nursery:
        await store.patch(1)
        release = store.threads.hold("work", after=True)
        nursery.start_soon(store.ref.ask, Checkpoint())
        await wait_all_tasks_blocked()
        for number in range(2, 6):
            await store.patch(number)
        release.set()
        await wait_all_tasks_blocked()
        assert [row.content.position for row in store.state.pending] != []
        await trio.sleep(CHECKPOINT_IDLE_S + 1)
        assert b'"n5":5' in written(store)


async def test_a_checkpoint_whose_asker_left_still_frees_its_lock(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        await store.patch(1)
        release = store.threads.hold("work")
        with trio.move_on_after(1):
            await store.ref.ask(Checkpoint())
        store.life.cancel()
        release.set()
        await store.ended.wait()
        assert not store.world.checkpoint_lock.is_held


@holds("Ours-17")
async def test_a_scope_that_was_left_out_is_tried_again_and_reported_once(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        await store.patch(1, scope="session")
        folder = f"{store.machine.root}/--project--/main"
        store.machine.disk.plant(folder, "folder", mode=0o500)
        await trio.sleep(200)
        assert store.events == ["checkpoint-blocked"]
        await store.patch(2, session_id="other", scope="session")  # trouble of one session is its own
        await trio.sleep(CHECKPOINT_RETRY_S_MAX + 1)
        assert f"{store.machine.root}/--project--/other/patches.jsonl" in store.machine.disk.contents()
        assert f"{folder}/patches.jsonl" not in store.machine.disk.contents()
        store.machine.disk.change_mode(folder, 0o700)
        await trio.sleep(CHECKPOINT_RETRY_S_MAX + 1)
        assert b'"n1":1' in store.machine.disk.contents()[f"{folder}/patches.jsonl"]
        assert store.events == ["checkpoint-blocked"]
        assert not store.state.pending


@holds("Ours-1", "J5")
async def test_a_process_behind_the_files_that_others_wrote_checkpoints_without_a_gap(
    autojump_clock: MockClock,
) -> None:
    # What it has in memory is older than the files, and the rows in between count as written.
    async with lone_store() as store:
        await store.patch(1)
        other = SimulatedStore.open(store.machine, "other", session_id="theirs")
        for number in range(20, 25):
            other.patch(global_={"working": {f"n{number}": number}})
        other.checkpoint()
        other.patch(global_={"working": {"n30": 30}})
        assert store.state.head < other.memory.head
        assert not (await store.ref.ask(Checkpoint())).blocked
        await store.patch(2)
        assert not (await store.ref.ask(Checkpoint())).blocked
        assert store.numbers() == {1, 2, 20, 21, 22, 23, 24, 30}
        other.follow()
        other.files_hold_the_present()
        other.abandon()
        store.machine.kill("other")


@holds("Ours-17")
async def test_a_checkpoint_that_can_not_even_take_pis_lock_is_tried_again_ever_later(
    autojump_clock: MockClock,
) -> None:
    # Shared with Pi, on a disk that can only be read: it failed before it began, and was begun again at once, for ever.
    async with lone_store(share_with_pi=True) as store:
        await store.patch(1)
        store.machine.disk.is_read_only = True
        links: list[float] = []

        def before(name: str, _path: str) -> None:
            if name == "link":
                links.append(trio.current_time())
                assert len(links) < 100, "it does not pause"

        store.machine.disk.before_operation = before
        await trio.sleep(600)
        pauses = [later - earlier for earlier, later in itertools.pairwise(links)]
        assert 5 <= len(links) <= 20
        assert min(pauses) >= CHECKPOINT_IDLE_S
        assert max(pauses) == CHECKPOINT_RETRY_S_MAX
        store.machine.disk.is_read_only = False
        await trio.sleep(CHECKPOINT_RETRY_S_MAX)
        assert not store.state.pending
        await store.patch(2)
