"""Reading a range of a file and cutting its end off: the real disk and the simulated one do the same."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kit.conformance_disk import refused
from strataflow.runtime.simulation import SimulatedDisk
from strataflow.store import Disk, FileParts, RealDisk, RealFileParts


class FilePartsConformance:
    """What every ``FileParts`` must do; ``world`` is one with its disk and a folder."""

    def test_any_range_of_a_file_is_read_and_none_beyond_its_end(self, world: tuple[Disk, FileParts, str]) -> None:
        disk, parts, root = world
        disk.write_new(f"{root}/a", b"0123456789")
        assert parts.read_part(f"{root}/a", 0, 10) == b"0123456789"
        assert parts.read_part(f"{root}/a", 3, 4) == b"3456"
        assert parts.read_part(f"{root}/a", 8, 100) == b"89"
        assert parts.read_part(f"{root}/a", 50, 1) == b""
        assert parts.read_part(f"{root}/a", 0, 0) == b""
        assert parts.read_part(f"{root}/none", 0, 1) is None
        assert parts.read_part(f"{root}/none/below", 0, 1) is None

    def test_a_cut_takes_the_end_away_and_never_makes_a_file_longer(self, world: tuple[Disk, FileParts, str]) -> None:
        disk, parts, root = world
        disk.write_new(f"{root}/a", b"0123456789")
        parts.cut(f"{root}/a", 4)
        assert disk.read(f"{root}/a") == b"0123"
        parts.cut(f"{root}/a", 9)
        assert disk.read(f"{root}/a") == b"0123"
        disk.append(f"{root}/a", b"x")
        disk.sync_file(f"{root}/a")
        assert disk.read(f"{root}/a") == b"0123x"
        with refused("E_DISK", f"{root}/none"):
            parts.cut(f"{root}/none", 0)

    def test_what_is_no_file_is_refused_by_both(self, world: tuple[Disk, FileParts, str]) -> None:
        disk, parts, root = world
        disk.make_folder(f"{root}/f")
        for call in (lambda: parts.read_part(f"{root}/f", 0, 1), lambda: parts.cut(f"{root}/f", 0)):
            with refused("E_CORRUPT", f"{root}/f"):
                call()


class TestRealFileParts(FilePartsConformance):
    @pytest.fixture
    def world(self, tmp_path: Path) -> tuple[Disk, FileParts, str]:
        return RealDisk(), RealFileParts(), os.path.realpath(tmp_path)


class TestSimulatedFileParts(FilePartsConformance):
    @pytest.fixture
    def world(self) -> tuple[Disk, FileParts, str]:
        disk = SimulatedDisk()
        disk.plant("/disk")
        return disk, disk, "/disk"


def test_short_reads_of_the_system_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.path.realpath(tmp_path / "a")
    RealDisk().write_new(path, b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, start: real(descriptor, min(size, 3), start))
    assert RealFileParts().read_part(path, 1, 8) == b"12345678"


def test_a_symlink_is_not_followed_by_either(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    RealDisk().write_new(f"{root}/a", b"0123")
    os.symlink(f"{root}/a", f"{root}/link")
    for call in (
        lambda: RealFileParts().read_part(f"{root}/link", 0, 1),
        lambda: RealFileParts().cut(f"{root}/link", 0),
    ):
        with refused("E_CORRUPT", f"{root}/link"):
            call()
    assert RealDisk().read(f"{root}/a") == b"0123"


def test_a_cut_that_was_not_synced_may_come_undone_as_a_whole() -> None:
    found = set()
    for seed in range(40):
        disk = SimulatedDisk(seed)
        disk.plant("/disk/a", "file", b"0123456789")
        disk.cut("/disk/a", 4)
        found.add(disk.crash("torn").contents()["/disk/a"])
        assert disk.crash("lose", seed).contents()["/disk/a"] == b"0123456789"
        assert disk.crash("keep", seed).contents()["/disk/a"] == b"0123"
        disk.sync_file("/disk/a")
        assert disk.crash("lose", seed).contents()["/disk/a"] == b"0123"
    assert found == {b"0123", b"0123456789"}


def test_the_simulated_disk_counts_and_refuses_them_as_its_others() -> None:
    disk = SimulatedDisk()
    disk.plant("/disk/a", "file", b"0123456789")
    disk.fail_operation(1, errno.EIO)
    with refused("E_DISK", "/disk/a"):
        disk.read_part("/disk/a", 0, 1)
    disk.is_read_only = True
    with refused("E_DISK", "/disk/a"):
        disk.cut("/disk/a", 0)
    assert disk.operations == 2
