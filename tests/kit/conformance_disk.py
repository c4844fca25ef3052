"""What every ``Disk`` must do, real or simulated. A test class inherits the checks and gives a ``world``."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import pytest

from strataflow.store import Disk, StoreError


class DiskWorld(Protocol):
    """A disk with an empty folder ``root`` on it, and ways to put there what a ``Disk`` would never make."""

    disk: Disk
    root: str

    def symlink(self, path: str, target: str) -> None: ...

    def pipe(self, path: str) -> None: ...

    def chmod(self, path: str, mode: int) -> None: ...

    def unprivileged(self) -> AbstractContextManager[None]:
        """A block in which the modes of files count, also for a test that runs as root."""

    def trouble(self, operation: str, code: int, *, times: int = 1, taken: int = 0) -> AbstractContextManager[None]:
        """A block in which the system refuses what this operation is there for with an ``errno`` code, so many times.

        Of what is to be written ``taken`` bytes are taken before it refuses.
        """


def refused(code: str, path: str) -> pytest.RaisesExc[StoreError]:
    """Expect a StoreError with this code that names the path in its data and in its text."""

    def names_the_path(error: StoreError) -> bool:
        return error.code == code and error.data["path"] == path and path in str(error)

    return pytest.RaisesExc(StoreError, check=names_the_path)


CODES = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)


def calls(world: DiskWorld) -> dict[str, Callable[[], object]]:
    """One call of each operation that succeeds once, on a disk with the files ``a`` and ``b`` and a folder ``f``."""
    root, disk = world.root, world.disk
    for name in "ab":
        disk.write_new(f"{root}/{name}", name.encode() * 600)
    disk.make_folder(f"{root}/f")
    return {
        "read": lambda: disk.read(f"{root}/a"),
        "stat": lambda: disk.stat(f"{root}/a"),
        "list": lambda: disk.list(f"{root}"),
        "make_folder": lambda: disk.make_folder(f"{root}/new"),
        "write_new": lambda: disk.write_new(f"{root}/new", b"new"),
        "append": lambda: disk.append(f"{root}/a", b"more"),
        "sync_file": lambda: disk.sync_file(f"{root}/a"),
        "sync_folder": lambda: disk.sync_folder(f"{root}"),
        "rename": lambda: disk.rename(f"{root}/a", f"{root}/b"),
        "link": lambda: disk.link(f"{root}/a", f"{root}/new"),
        "unlink": lambda: disk.unlink(f"{root}/a"),
        "remove_folder": lambda: disk.remove_folder(f"{root}/f"),
    }


OPERATIONS = (
    "read stat list make_folder write_new append sync_file sync_folder rename link unlink remove_folder".split()
)


def tree(world: DiskWorld) -> dict[str, bytes | None]:
    """All that lies in the folder: a file's content, None for a folder."""
    found: dict[str, bytes | None] = {}
    for name in world.disk.list(world.root) or ():
        stat = world.disk.stat(f"{world.root}/{name}")
        assert stat is not None
        found[name] = world.disk.read(f"{world.root}/{name}") if stat.kind == "file" else None
    return found


class DiskConformance:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_an_operation_that_is_refused_tells_why_and_changes_nothing(self, world: DiskWorld, operation: str) -> None:
        call = calls(world)[operation]
        before = tree(world)
        for code in CODES:
            with world.trouble(operation, code), pytest.raises(StoreError) as caught:
                call()
            assert (caught.value.code, caught.value.data["errno"]) == ("E_DISK", errno.errorcode[code])
            assert caught.value.data["path"] in str(caught.value)
            assert tree(world) == before
        call()

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_an_operation_that_a_signal_interrupts_is_repeated_unseen(self, world: DiskWorld, operation: str) -> None:
        call = calls(world)[operation]
        with world.trouble(operation, errno.EINTR, times=3):
            assert call() is not False

    @pytest.mark.parametrize("taken", [1, 511, 512, 700])
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
    def test_a_write_that_ends_early_leaves_a_part_of_a_record_but_no_part_of_a_file(
        self, world: DiskWorld, code: int, taken: int
    ) -> None:
        world.disk.write_new(f"{world.root}/log", b"old")
        data = bytes(index % 251 for index in range(1000))
        with world.trouble("append", code, taken=taken), refused("E_DISK", f"{world.root}/log"):
            world.disk.append(f"{world.root}/log", data)
        assert world.disk.read(f"{world.root}/log") == b"old" + data[:taken]
        with world.trouble("write_new", code, taken=taken), refused("E_DISK", f"{world.root}/new"):
            world.disk.write_new(f"{world.root}/new", data)
        assert world.disk.list(world.root) == ["log"]
        world.disk.write_new(f"{world.root}/new", data)

    def test_what_was_written_is_read_whole(self, world: DiskWorld) -> None:
        for size in (0, 1, 511, 512, 513, 70_000):
            data = bytes(index % 251 for index in range(size))
            world.disk.write_new(f"{world.root}/{size}", data)
            assert world.disk.read(f"{world.root}/{size}") == data

    def test_a_missing_file_is_none_and_not_an_error(self, world: DiskWorld) -> None:
        for path in (f"{world.root}/none", f"{world.root}/none/below"):
            assert world.disk.read(path) is None
            assert world.disk.stat(path) is None
            assert world.disk.list(path) is None
            assert world.disk.unlink(path) is False
            assert world.disk.remove_folder(path) is False

    def test_a_new_file_has_mode_0600_or_the_mode_asked_for(self, world: DiskWorld) -> None:
        world.disk.write_new(f"{world.root}/a", b"")
        world.disk.append(f"{world.root}/b", b"")
        for mode in (0o644, 0o666, 0o640):  # a umask takes nothing away from a mode that a replaced file had
            world.disk.write_new(f"{world.root}/{mode}", b"", mode=mode)
            assert self._mode(world, str(mode)) == mode
        assert (self._mode(world, "a"), self._mode(world, "b")) == (0o600, 0o600)

    def test_a_new_folder_has_mode_0700_and_is_made_once(self, world: DiskWorld) -> None:
        assert world.disk.make_folder(f"{world.root}/f") is True
        assert world.disk.make_folder(f"{world.root}/f") is False
        assert self._mode(world, "f") == 0o700

    def test_a_present_file_is_never_written_over(self, world: DiskWorld) -> None:
        path = f"{world.root}/a"
        world.disk.write_new(path, b"first")
        with refused("E_DISK", path) as caught:
            world.disk.write_new(path, b"second")
        assert caught.value.data["errno"] == "EEXIST"
        assert world.disk.read(path) == b"first"

    def test_append_creates_and_adds_at_the_end(self, world: DiskWorld) -> None:
        for part in (b"one", b"", b"two"):
            world.disk.append(f"{world.root}/a", part)
        assert world.disk.read(f"{world.root}/a") == b"onetwo"

    def test_append_keeps_the_mode_of_the_file(self, world: DiskWorld) -> None:
        world.disk.write_new(f"{world.root}/a", b"", mode=0o644)
        world.disk.append(f"{world.root}/a", b"x")
        assert self._mode(world, "a") == 0o644

    def test_a_folder_lists_its_names_sorted(self, world: DiskWorld) -> None:
        for name in ("b", "a", "ä", ".c"):
            world.disk.write_new(f"{world.root}/{name}", b"")
        assert world.disk.list(world.root) == [".c", "a", "b", "ä"]

    def test_stat_tells_kind_size_and_identity(self, world: DiskWorld) -> None:
        world.disk.write_new(f"{world.root}/a", b"12345")
        world.symlink(f"{world.root}/s", f"{world.root}/a")
        world.pipe(f"{world.root}/p")
        stats = {name: world.disk.stat(f"{world.root}/{name}") for name in ("a", "s", "p")}
        kinds = {name: found.kind for name, found in stats.items() if found is not None}
        assert kinds == {"a": "file", "s": "symlink", "p": "other"}
        found, folder = stats["a"], world.disk.stat(world.root)
        assert found is not None
        assert folder is not None
        assert (found.size_bytes, folder.kind) == (5, "folder")
        assert found.device == folder.device
        assert found.inode != folder.inode

    def test_rename_replaces_and_keeps_the_inode(self, world: DiskWorld) -> None:
        world.disk.make_folder(f"{world.root}/f")
        world.disk.write_new(f"{world.root}/f/new", b"new")
        world.disk.write_new(f"{world.root}/old", b"old")
        before = world.disk.stat(f"{world.root}/f/new")
        world.disk.rename(f"{world.root}/f/new", f"{world.root}/old")
        after = world.disk.stat(f"{world.root}/old")
        assert before is not None
        assert after is not None
        assert after.inode == before.inode
        assert world.disk.read(f"{world.root}/old") == b"new"
        assert world.disk.list(f"{world.root}/f") == []

    def test_a_link_is_a_second_name_and_replaces_nothing(self, world: DiskWorld) -> None:
        first, second, third = (f"{world.root}/{name}" for name in "abc")
        world.disk.write_new(first, b"x")
        world.disk.write_new(third, b"kept")
        assert world.disk.link(first, second) is True
        assert world.disk.link(first, third) is False
        one, two = world.disk.stat(first), world.disk.stat(second)
        assert one is not None
        assert two is not None
        assert one.inode == two.inode
        assert world.disk.unlink(first) is True
        assert (world.disk.read(second), world.disk.read(third)) == (b"x", b"kept")

    def test_moving_or_syncing_what_is_missing_is_refused(self, world: DiskWorld) -> None:
        path = f"{world.root}/none"
        calls: tuple[Callable[[], object], ...] = (
            lambda: world.disk.rename(path, f"{world.root}/b"),
            lambda: world.disk.link(path, f"{world.root}/b"),
            lambda: world.disk.sync_file(path),
            lambda: world.disk.sync_folder(path),
        )
        for call in calls:
            with refused("E_DISK", path) as caught:
                call()
            assert caught.value.data["errno"] == "ENOENT"

    def test_writing_below_a_missing_folder_is_refused(self, world: DiskWorld) -> None:
        path = f"{world.root}/none/a"
        for call in (world.disk.write_new, world.disk.append):
            with refused("E_DISK", path) as caught:
                call(path, b"")
            assert caught.value.data["errno"] == "ENOENT"

    def test_only_an_empty_folder_is_removed(self, world: DiskWorld) -> None:
        folder = f"{world.root}/f"
        world.disk.make_folder(folder)
        world.disk.write_new(f"{folder}/a", b"")
        with refused("E_DISK", folder) as caught:
            world.disk.remove_folder(folder)
        assert caught.value.data["errno"] == "ENOTEMPTY"
        world.disk.unlink(f"{folder}/a")
        assert world.disk.remove_folder(folder) is True
        assert world.disk.stat(folder) is None

    @pytest.mark.parametrize("kind", ["symlink", "folder", "pipe"])
    def test_what_is_no_file_is_refused_and_left_alone(self, world: DiskWorld, kind: str) -> None:
        outside, path, other = f"{world.root}/outside", f"{world.root}/a", f"{world.root}/b"
        world.disk.write_new(outside, b"untouched")
        world.disk.write_new(other, b"other")
        if kind == "symlink":
            world.symlink(path, outside)
        elif kind == "folder":
            world.disk.make_folder(path)
        else:
            world.pipe(path)
        calls: tuple[Callable[[], object], ...] = (
            lambda: world.disk.read(path),
            lambda: world.disk.write_new(path, b"x"),
            lambda: world.disk.append(path, b"x"),
            lambda: world.disk.sync_file(path),
            lambda: world.disk.unlink(path),
            lambda: world.disk.rename(path, other),
            lambda: world.disk.rename(other, path),
            lambda: world.disk.link(path, f"{world.root}/c"),
        )
        for call in calls:
            with refused("E_CORRUPT", path):
                call()
        assert world.disk.read(outside) == b"untouched"
        assert world.disk.list(world.root) == ["a", "b", "outside"]

    @pytest.mark.parametrize("kind", ["symlink", "file", "pipe"])
    def test_what_is_no_folder_is_refused_as_folder(self, world: DiskWorld, kind: str) -> None:
        real, path = f"{world.root}/real", f"{world.root}/f"
        world.disk.make_folder(real)
        if kind == "symlink":
            world.symlink(path, real)
        elif kind == "file":
            world.disk.write_new(path, b"")
        else:
            world.pipe(path)
        calls: tuple[Callable[[], object], ...] = (
            lambda: world.disk.list(path),
            lambda: world.disk.make_folder(path),
            lambda: world.disk.sync_folder(path),
            lambda: world.disk.remove_folder(path),
            lambda: world.disk.read(f"{path}/a"),
            lambda: world.disk.stat(f"{path}/a"),
            lambda: world.disk.write_new(f"{path}/a", b""),
            lambda: world.disk.append(f"{path}/a", b""),
            lambda: world.disk.unlink(f"{path}/a"),
        )
        for call in calls:
            with refused("E_CORRUPT", path):
                call()
        assert world.disk.list(real) == []

    def test_an_unreadable_file_is_an_error_and_not_missing(self, world: DiskWorld) -> None:
        path = f"{world.root}/a"
        world.disk.write_new(path, b"secret")
        world.chmod(path, 0)
        with world.unprivileged(), refused("E_DISK", path) as caught:
            world.disk.read(path)
        assert caught.value.data["errno"] == "EACCES"
        with world.unprivileged(), refused("E_DISK", path):
            world.disk.append(path, b"x")

    def test_a_closed_folder_is_an_error_and_not_missing(self, world: DiskWorld) -> None:
        folder = f"{world.root}/f"
        world.disk.make_folder(folder)
        world.chmod(folder, 0)
        with world.unprivileged():
            with refused("E_DISK", folder):
                world.disk.list(folder)
            for call in (world.disk.read, world.disk.stat, world.disk.unlink):
                with refused("E_DISK", f"{folder}/a") as caught:
                    call(f"{folder}/a")
                assert caught.value.data["errno"] == "EACCES"
        world.chmod(folder, 0o700)

    @pytest.mark.parametrize("tail", ["", "/../a", "/./a", "//a", "/a\0b", "/\ud800"])
    def test_a_path_that_is_no_name_is_refused(self, world: DiskWorld, tail: str) -> None:
        path = world.root[1:] if tail == "" else world.root + tail
        for call in (world.disk.read, world.disk.stat, world.disk.list, world.disk.make_folder, world.disk.unlink):
            with pytest.raises(StoreError, match="absolute path") as caught:
                call(path)
            assert caught.value.code == "E_DISK"
            assert caught.value.data["path"] == path

    def test_a_name_of_300_characters_is_refused_by_name(self, world: DiskWorld) -> None:
        path = f"{world.root}/{'n' * 300}"
        for call in (world.disk.read, world.disk.make_folder):
            with refused("E_DISK", path) as caught:
                call(path)
            assert caught.value.data["errno"] == "ENAMETOOLONG"

    def test_syncing_changes_nothing_that_is_seen(self, world: DiskWorld) -> None:
        world.disk.append(f"{world.root}/a", b"x")
        world.disk.sync_file(f"{world.root}/a")
        world.disk.sync_folder(world.root)
        assert world.disk.read(f"{world.root}/a") == b"x"

    def test_the_file_system_has_a_type(self, world: DiskWorld) -> None:
        assert isinstance(world.disk.file_system_type(world.root), str)

    @staticmethod
    def _mode(world: DiskWorld, name: str) -> int:
        found = world.disk.stat(f"{world.root}/{name}")
        assert found is not None
        return found.mode
