"""Closing that does not end in time: its thread goes on alone, and nobody else comes in between."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.faulty_disk import FaultyDisk
from kit.holds import holds
from kit.runtimes import opened_in
from strataflow.runtime import Runtime, StoreError
from strataflow.store import FlockLocks


@holds("J8")
async def test_closing_keeps_the_open_lock_until_its_thread_has_ended(tmp_path: Path) -> None:
    locks, is_writing, go_on = FlockLocks(), threading.Event(), threading.Event()

    def write_slowly() -> None:
        is_writing.set()
        assert go_on.wait(10)

    disk = FaultyDisk()
    async with opened_in(tmp_path / "state-flow", disk=disk) as runtime:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(cwd={"working": {"a": 1}})
        disk.before("rename", f"{runtime.store_path}/meta.json", write_slowly)
        disk.before("rename", f"{runtime.store_path}/--project--/meta.json", write_slowly)
        report = await runtime.aclose(deadline=1)
        assert report.left_behind
        assert is_writing.is_set()
        lock = locks.open(f"{runtime.store_path}/.strataflow/open.lock")
        assert not lock.try_acquire()
        go_on.set()
        assert await trio.to_thread.run_sync(lock.acquire_blocking, locks.attempt())
        lock.close()
    assert not (tmp_path / "state-flow/.state-flow-publication.lock").exists()
    assert not [*(tmp_path / "state-flow/.strataflow/open").iterdir()]


@pytest.mark.parametrize("way", ["closed by hand", "the body ends", "the body is cancelled"])
async def test_a_checkpoint_that_closing_gave_up_is_reported_and_not_raised(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime.aclose, "__defaults__", (0.2,))
    disk, is_writing, go_on, told = FaultyDisk(), trio.Event(), threading.Event(), []

    def write_slowly() -> None:
        trio.from_thread.run_sync(is_writing.set)
        assert go_on.wait(10)

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with opened_in(tmp_path / "state-flow", disk=disk) as runtime:
                session = await runtime.open_session("/project", mode="active")
                await session.patch_state(cwd={"working": {"a": 1}})
                disk.before("rename", f"{runtime.store_path}/--project--/meta.json", write_slowly)

                async def write() -> None:
                    with pytest.raises(StoreError) as given_up:
                        await runtime.checkpoint()
                    told.append(given_up.value.code)

                nursery.start_soon(write)
                await is_writing.wait()
                if way == "closed by hand":
                    report = await runtime.aclose()
                    assert any("given up" in line for line in report.left_behind)
                elif way == "the body is cancelled":
                    scope.cancel()
                    await trio.sleep_forever()
        assert scope.cancelled_caught == (way == "the body is cancelled")
        go_on.set()
    assert told == ["E_BROKEN"]
    async with opened_in(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project")
        assert (await session.read_state("cwd.working")).value == {"a": 1}


async def test_closing_gives_up_what_hangs_also_if_the_loop_comes_round_after_its_deadline(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    disk, is_writing, go_on, reports = FaultyDisk(), trio.Event(), threading.Event(), []

    def hang() -> None:
        trio.from_thread.run_sync(is_writing.set)
        assert go_on.wait(10)

    async with opened_in(tmp_path / "state-flow", disk=disk) as runtime, trio.open_nursery() as nursery:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(cwd={"working": {"a": 1}})
        disk.before("rename", f"{runtime.store_path}/--project--/meta.json", hang)

        async def write() -> None:
            with pytest.raises(StoreError):
                await runtime.checkpoint()

        async def close() -> None:
            reports.append(await runtime.aclose())
            assert not go_on.is_set()
            go_on.set()

        nursery.start_soon(write)
        await is_writing.wait()
        nursery.start_soon(close)
        await wait_all_tasks_blocked()
        mock_clock.jump(60)
    assert any("hang in a system call" in line for line in reports[0].left_behind)
    # What was given up stays open as long as its process. Tests that come later must not be told of it.
    world = runtime._world
    world.journal.close()
    for lock in (world.member.lock, world.turn, world.checkpoint_lock, world.queue_lock, world.open_lock):
        lock.close()
