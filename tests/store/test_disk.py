"""The real and the simulated disk against one suite, then what only the real one has."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.conformance_disk import OPERATIONS, DiskConformance, calls, refused
from strataflow.runtime.simulation import SimulatedDisk
from strataflow.runtime.simulation.disk import ShortWrite
from strataflow.store import RealDisk, StoreError, resolve_root
from strataflow.store.disk_paths import mount_type

NOBODY = 65_534
# The call of the system that each operation is there for.
CALLS = {
    "read": "read",
    "stat": "lstat",
    "list": "listdir",
    "make_folder": "mkdir",
    "write_new": "write",
    "append": "write",
    "sync_file": "fsync",
    "sync_folder": "fsync",
    "rename": "rename",
    "link": "link",
    "unlink": "unlink",
    "remove_folder": "rmdir",
}
# Python itself repeats these when a signal interrupts them (PEP 475): what is interrupted is below its calls.
REPEATED_BY_PYTHON = ("read", "write", "fsync")


class RealWorld:
    def __init__(self, root: str) -> None:
        self.disk = RealDisk()
        self.root = root

    def symlink(self, path: str, target: str) -> None:
        os.symlink(target, path)

    def pipe(self, path: str) -> None:
        os.mkfifo(path)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    @contextlib.contextmanager
    def unprivileged(self) -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.chown(self.root, NOBODY, -1)
        for name in os.listdir(self.root):
            os.chown(f"{self.root}/{name}", NOBODY, -1, follow_symlinks=False)
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    @contextlib.contextmanager
    def trouble(self, operation: str, code: int, *, times: int = 1, taken: int = 0) -> Iterator[None]:
        name, left = CALLS[operation], times
        real = getattr(os, name)

        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            if left <= 0 or (code == errno.EINTR and name in REPEATED_BY_PYTHON):
                return real(*arguments, **more)
            if name == "write" and taken and len(arguments[1]) > 1000 - taken:
                return real(arguments[0], arguments[1][: taken - 1000 + len(arguments[1])])
            left -= 1
            raise OSError(code, os.strerror(code))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, name, call)
            yield


class SimulatedWorld:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.root = "/agent/state-flow"
        self.disk.plant(self.root)

    def symlink(self, path: str, target: str) -> None:
        self.disk.plant(path, "symlink", target.encode())

    def pipe(self, path: str) -> None:
        self.disk.plant(path, "other")

    def chmod(self, path: str, mode: int) -> None:
        self.disk.change_mode(path, mode)

    def unprivileged(self) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def trouble(self, operation: str, code: int, *, times: int = 1, taken: int = 0) -> Iterator[None]:
        left = times

        def before(name: str, _path: str) -> None:
            nonlocal left
            if name == operation and left > 0:
                left -= 1
                raise ShortWrite(code, taken) if taken else OSError(code, os.strerror(code))

        self.disk.before_operation = before
        yield
        self.disk.before_operation = None


class TestRealDisk(DiskConformance):
    @pytest.fixture
    def world(self) -> Iterator[RealWorld]:
        # Not tmp_path: its upper folders are closed to the user that a privileged test turns into.
        root = os.path.realpath(tempfile.mkdtemp())
        yield RealWorld(root)
        shutil.rmtree(root)


class TestSimulatedDisk(DiskConformance):
    @pytest.fixture
    def world(self) -> SimulatedWorld:
        return SimulatedWorld()


# The real disk


def test_a_failed_new_file_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write

    def short_then_full(descriptor: int, data: memoryview) -> int:
        if len(data) <= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_write(descriptor, data[:3])

    monkeypatch.setattr(os, "write", short_then_full)
    path = f"{tmp_path}/a"
    with refused("E_DISK", path) as caught:
        RealDisk().write_new(path, b"0123456789")
    monkeypatch.undo()
    assert caught.value.data["errno"] == "ENOSPC"
    assert "free some space" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_short_writes_and_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, real_read = os.write, os.read
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:7]))
    monkeypatch.setattr(os, "read", lambda descriptor, size: real_read(descriptor, min(size, 5)))
    data = random.Random(1).randbytes(1000)
    RealDisk().write_new(f"{tmp_path}/a", data)
    RealDisk().append(f"{tmp_path}/a", data)
    assert RealDisk().read(f"{tmp_path}/a") == data + data


def test_a_read_or_sync_that_fails_is_never_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = f"{tmp_path}/a"
    disk = RealDisk()
    disk.write_new(path, b"x")
    for name, call, named_path in (
        ("read", disk.read, path),
        ("fsync", disk.sync_file, path),
        ("fsync", disk.sync_folder, str(tmp_path)),
        ("lstat", disk.stat, f"{tmp_path}"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(StoreError) as caught:
                call(named_path)
        assert (caught.value.code, caught.value.data["errno"]) == ("E_DISK", "EIO")


def test_a_storm_of_signals_disturbs_no_operation(tmp_path: Path) -> None:
    rung: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda number, _frame: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for count, operation in enumerate(itertools.cycle(OPERATIONS)):
            world = RealWorld(f"{tmp_path}/{count}")
            world.disk.make_folder(world.root)
            assert calls(world)[operation]() is not False
            if len(rung) > 40:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_no_descriptor_stays_open_after_any_outcome(tmp_path: Path) -> None:
    disk, root = RealDisk(), str(tmp_path)
    before = len(os.listdir("/dev/fd"))
    disk.write_new(f"{root}/a", b"x")
    disk.make_folder(f"{root}/f")
    os.mkfifo(f"{root}/p")
    for _ in range(3):
        disk.read(f"{root}/a")
        disk.list(root)
        for path in (f"{root}/f", f"{root}/p"):
            with pytest.raises(StoreError):
                disk.read(path)
        with pytest.raises(StoreError):
            disk.write_new(f"{root}/a", b"")
    assert len(os.listdir("/dev/fd")) == before


def test_links_above_the_root_are_resolved_and_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real" / "agent").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    root = resolve_root(f"{tmp_path}/link/agent")
    assert root == f"{tmp_path}/real/agent"
    assert resolve_root(f"{tmp_path}/link/new/agent") == f"{tmp_path}/real/new/agent"
    below_a_link = RealDisk(root=f"{tmp_path}/link/agent")
    below_a_link.write_new(f"{tmp_path}/link/agent/a", b"x")
    assert below_a_link.read(f"{tmp_path}/link/agent/a") == b"x"
    with refused("E_CORRUPT", f"{tmp_path}/link"):
        RealDisk().read(f"{tmp_path}/link/agent/a")


def test_a_loop_of_links_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with refused("E_DISK", f"{tmp_path}/a/agent") as caught:
        resolve_root(f"{tmp_path}/a/agent")
    assert caught.value.data["errno"] == "ELOOP"


def test_a_relative_root_counts_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_root("x/y") == f"{tmp_path}/x/y"


def test_the_longest_mount_point_gives_the_type() -> None:
    table = "\n".join(
        (
            r"1 0 8:1 / / rw - ext4 /dev/a rw",
            r"2 1 8:2 / /data\040dir rw,x shared:5 - xfs /dev/b rw",
            r"3 2 0:9 / /data\040dir/net rw - nfs4 host:/x rw",
            r"4 1 0:8 / /database rw - tmpfs none rw",
            r"5 1 0:7 / /database rw - overlay none rw",
        )
    )
    assert mount_type(table, "/data", "") == "ext4"
    assert mount_type(table, "/data dir/a", "") == "xfs"
    assert mount_type(table, "/data dir/net", "") == "nfs4"
    assert mount_type(table, "/database/x", "") == "overlay"  # the later mount lies on top
    assert mount_type(table, "/data dir/net/x", "8:2") == "xfs"  # hidden by a later mount of its upper folder
    assert mount_type("", "/", "") == ""
