"""Closing that does not end in time: its thread goes on alone, and nobody else comes in between."""

from __future__ import annotations

import threading
from pathlib import Path

import trio

from kit.faulty_disk import FaultyDisk
from kit.holds import holds
from kit.runtimes import opened_in
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
        report = await runtime.aclose(deadline=0.1)
        assert report.left_behind
        assert is_writing.is_set()
        lock = locks.open(f"{runtime.store_path}/.strataflow/open.lock")
        assert not lock.try_acquire()
        go_on.set()
        assert await trio.to_thread.run_sync(lock.acquire_blocking, locks.attempt())
        lock.close()
    assert not (tmp_path / "state-flow/.state-flow-publication.lock").exists()
    assert not [*(tmp_path / "state-flow/.strataflow/open").iterdir()]
