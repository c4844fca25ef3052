"""The bells: inotify on real files, and the one that leaves all to its beat."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from kit.conformance_bell import PATIENCE_S, BellConformance
from kit.conformance_journal import row
from kit.runtimes import opened, real_journal
from strataflow.actors import JournalBell, PollingBell
from strataflow.runtime import bell as bells
from strataflow.store import FlockLocks, Ground, Journal, Layout, RealDisk, RealProcessTable, make_folders

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is a call of Linux")


def ground_at(root: Path) -> Ground:
    ground = Ground(RealDisk(), FlockLocks(), RealProcessTable(), Layout(str(root)))
    make_folders(ground)
    ground.locks.open(ground.layout.private("turn.lock")).close()
    return ground


@attrs.define(eq=False)
class RealWorld:
    """A store on the disk: one connection writes, another looks."""

    ground: Ground
    writer: Journal
    reader: Journal

    def open_bell(self) -> JournalBell:
        return bells.open_bell(self.ground)

    def append(self) -> None:
        count = self.appended()
        assert self.writer.append([row(count + 1)], head=count) == "appended"

    def appended(self) -> int:
        return len(self.reader.rows_since(0, 100))

    def open_files(self) -> list[str]:
        return sorted(os.readlink(f"/proc/self/fd/{name}") for name in _fds())


def _fds() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")]


@pytest.fixture
def real_world(tmp_path: Path) -> Iterator[RealWorld]:
    ground = ground_at(tmp_path / "state-flow")
    world = RealWorld(ground, real_journal(ground, "process"), real_journal(ground, "process"))
    yield world
    world.reader.close()
    world.writer.close()


@linux_only
class TestInotifyBell(BellConformance):
    @pytest.fixture
    def world(self, real_world: RealWorld) -> RealWorld:
        return real_world


@attrs.define(eq=False)
class PolledWorld:
    """Whatever is appended is there at once; no bell rings."""

    count: int = 0

    def open_bell(self) -> JournalBell:
        return PollingBell()

    def append(self) -> None:
        self.count += 1

    def appended(self) -> int:
        return self.count

    def open_files(self) -> list[str]:
        return []


class TestPollingBell(BellConformance):
    @pytest.fixture
    def world(self, autojump_clock: MockClock) -> PolledWorld:
        return PolledWorld()


@linux_only
async def test_writes_of_other_files_do_not_ring(real_world: RealWorld) -> None:
    bell = real_world.open_bell()
    assert isinstance(bell, bells.InotifyBell)
    Path(real_world.ground.layout.private("staged-file")).write_text("not the journal")
    assert bell._take() is False
    real_world.append()
    assert bell._take() is True
    assert bell._take() is False
    bell.close()


@linux_only
@pytest.mark.parametrize("how", ["removed", "moved"])
async def test_a_folder_that_goes_away_makes_the_bell_leave_all_to_its_beat(tmp_path: Path, how: str) -> None:
    ground = ground_at(tmp_path / "state-flow")
    bell = bells.open_bell(ground)
    folder = Path(ground.layout.private())
    shutil.rmtree(folder) if how == "removed" else folder.rename(tmp_path / "elsewhere")
    with trio.fail_after(PATIENCE_S):
        await bell.wait_rung()
    assert "removed or moved" in bell.trouble
    assert bell.beat_s == PollingBell().beat_s
    with trio.move_on_after(0) as scope:
        await bell.wait_rung()
    assert scope.cancelled_caught
    bell.close()


@linux_only
async def test_a_queue_that_can_not_be_read_makes_the_bell_leave_all_to_its_beat(
    real_world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = real_world.open_bell()
    real_world.append()

    def failing(fd: int, count: int) -> bytes:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(bells.os, "read", failing)
    with trio.fail_after(PATIENCE_S):
        await bell.wait_rung()
    assert "input/output error" in bell.trouble


@linux_only
async def test_an_overflowing_queue_is_a_ring(real_world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    bell = real_world.open_bell()
    overflow = bells._EVENT.pack(-1, bells._OVERFLOW, 0, 0)
    monkeypatch.setattr(bells.os, "read", lambda fd, count: overflow)
    assert isinstance(bell, bells.InotifyBell)
    assert bell._take() is True
    bell.close()


@pytest.mark.parametrize(
    "code, words",
    [
        (errno.ENOSPC, "fs.inotify.max_user_watches"),
        (errno.EMFILE, "fs.inotify.max_user_instances"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "open files"),
        (errno.EACCES, "denied"),
    ],
)
@pytest.mark.parametrize("call", ["inotify_init1", "inotify_add_watch"])
def test_where_the_system_refuses_polling_takes_over_and_says_why(
    real_world: RealWorld, monkeypatch: pytest.MonkeyPatch, code: int, words: str, call: str
) -> None:
    real = bells._call

    def refusing(name: str, *arguments: Any) -> int:
        if name == call:
            raise OSError(code, os.strerror(code))
        return real(name, *arguments)

    before = real_world.open_files()
    monkeypatch.setattr(bells, "_call", refusing)
    bell = real_world.open_bell()
    assert isinstance(bell, PollingBell)
    assert words in bell.trouble
    assert real_world.open_files() == before


@pytest.mark.parametrize("missing", ["the library", "the function"])
def test_a_system_without_inotify_is_polled(
    real_world: RealWorld, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def library() -> Any:
        if missing == "the library":
            raise OSError("no such library")
        return object()

    monkeypatch.setattr(bells, "_library", library)
    bell = real_world.open_bell()
    assert isinstance(bell, PollingBell)
    assert "no inotify" in bell.trouble


def test_a_failing_call_of_the_library_raises_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def inotify_init1(self, flags: int) -> int:
            ctypes.set_errno(errno.EMFILE)
            return -1

    monkeypatch.setattr(bells, "_library", Library)
    with pytest.raises(OSError, match="many open files"):
        bells._call("inotify_init1", 0)


@linux_only
async def test_in_a_forked_child_the_queue_of_the_parent_is_left_alone(
    real_world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = real_world.open_bell()
    real_world.append()
    with monkeypatch.context() as patched:
        patched.setattr(bells.os, "getpid", lambda: -1)
        with trio.move_on_after(0.01) as scope:
            await bell.wait_rung()
        assert scope.cancelled_caught
    with trio.fail_after(PATIENCE_S):
        await bell.wait_rung()
    bell.close()


async def test_a_watcher_lives_through_the_removal_of_the_whole_private_folder(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.wait_for, "global.working.n", lambda value: value == 1)
            await trio.testing.wait_all_tasks_blocked(0.01)
            shutil.rmtree(root / ".strataflow")
            # The watcher itself makes the runtime notice, and lets others in.
            with trio.fail_after(PATIENCE_S):
                # Once it has begun anew it has read everything anew, and says so.
                await runtime.hub.wait_until(lambda: "journal-replaced" in {e.name for e in runtime.events}, ("",))
                async with opened(root) as second:
                    other = await second.open_session("/project", "other", "active")
                    await other.patch_state(global_={"working": {"n": 1}})
