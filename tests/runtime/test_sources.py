"""Sources of cards as files: the conformance suite on both forms, and what only real file systems do."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from kit.conformance_sources import Bench, SourcesConformance
from kit.holds import holds
from strataflow.runtime.simulation.sources import SimulatedSources
from strataflow.runtime.sources import (
    SOURCE_THREADS_MAX,
    SOURCES_SLICE,
    SOURCES_SLICE_S_MAX,
    FileSources,
    look_at,
)
from strataflow.store.artifacts import MISSING, Fingerprint, Seen, Unavailable


@attrs.define
class RealFiles:
    root: str
    _time_ns: int = 1_600_000_000_000_000_000

    def write(self, path: str, content: bytes, mtime_ns: int | None = None) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(content)
        self._time_ns += 1
        time_ns = self._time_ns if mtime_ns is None else mtime_ns
        os.utime(path, ns=(time_ns, time_ns))

    def remove(self, path: str) -> None:
        os.unlink(path)


class SimulatedFiles:
    root = "/world"

    def __init__(self, sources: SimulatedSources) -> None:
        self.write, self.remove = sources.write, sources.remove


class TestFileSources(SourcesConformance):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        return Bench(FileSources(), RealFiles(str(tmp_path)))


class TestSimulatedSources(SourcesConformance):
    @pytest.fixture
    def bench(self) -> Bench:
        sources = SimulatedSources()
        return Bench(sources, SimulatedFiles(sources))


# -- what only real file systems do ---------------------------------------------------------------------------------


@holds("A11", "A15", "Ours-13")
def test_a_link_is_unavailable_and_so_is_what_lies_behind_one_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "disk").symlink_to(tmp_path / "not-mounted")
    (tmp_path / "folder").mkdir()
    (tmp_path / "good").symlink_to(tmp_path / "folder")
    assert isinstance(look_at(str(tmp_path / "link")), Unavailable)
    assert isinstance(look_at(str(tmp_path / "disk")), Unavailable)
    for name in ("disk/file", "disk/deep/down/file"):
        assert isinstance(look_at(str(tmp_path / name)), Unavailable), name
    assert look_at(str(tmp_path / "good/none")) == MISSING
    assert look_at(str(tmp_path / "link/below")) == MISSING


@holds("A11", "Ours-13")
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_source_in_a_folder_that_may_not_be_entered_is_unavailable(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0)
    try:
        assert isinstance(look_at(str(folder / "file")), Unavailable)
    finally:
        folder.chmod(0o700)


@holds("A11", "Ours-13")
@pytest.mark.parametrize("code", ["EACCES", "EIO", "ELOOP", "ENAMETOOLONG", "ESTALE"])
async def test_every_other_error_of_a_file_system_is_unavailable_with_its_cause(code: str) -> None:
    def lstat(path: str) -> os.stat_result:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number), path)

    seen = (await FileSources(lstat).inspect(["/a"]))["/a"]
    assert isinstance(seen, Unavailable)
    assert seen.reason == os.strerror(getattr(errno, code)).lower()


@holds("A35")
async def test_a_pipe_and_a_link_are_not_hashed_and_nobody_waits_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with trio.fail_after(5):
        for name in ("pipe", "link"):
            digest = await FileSources().digest(str(tmp_path / name))
            assert digest.source_hash is None
            assert digest.problem


class HangingFiles:
    """A file system of which some paths do not answer until they are let go."""

    def __init__(self, *hanging: str) -> None:
        self.hanging = set(hanging)
        self.go = threading.Event()
        self.calls: list[str] = []

    def lstat(self, path: str) -> os.stat_result:
        self.calls.append(path)
        if path in self.hanging:
            self.go.wait(30)
        return os.stat_result((0o100600, 0, 0, 1, 0, 0, 7, 0, 0, 0))


@pytest.fixture
def hanging() -> Iterator[HangingFiles]:
    files = HangingFiles()
    yield files
    files.go.set()


async def moment() -> None:
    """Let threads get on, in real time; the clock of the loop stands still."""
    await trio.to_thread.run_sync(threading.Event().wait, 0.001)


async def silent(files: HangingFiles, clock: trio.testing.MockClock, *hanging: str) -> None:
    """As soon as these paths hang, let the time be over that they have."""
    for path in hanging:
        while path not in files.calls:
            await moment()
        clock.jump(SOURCES_SLICE_S_MAX)


async def look(
    sources: FileSources, paths: list[str], files: HangingFiles, clock: trio.testing.MockClock
) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(silent, files, clock, *(path for path in paths if path in files.hanging))
        found.update(await sources.inspect(paths))
        nursery.cancel_scope.cancel()
    return found


async def test_a_path_that_does_not_answer_holds_up_no_other_and_is_not_asked_twice(
    hanging: HangingFiles, mock_clock: trio.testing.MockClock
) -> None:
    hanging.hanging = {"/b"}
    sources = FileSources(hanging.lstat)
    assert (await look(sources, ["/a", "/b", "/c"], hanging, mock_clock)).keys() == {"/a", "/c"}
    assert (await sources.inspect(["/b", "/c"])).keys() == {"/c"}
    assert hanging.calls.count("/b") == 1
    assert (await sources.digest("/b")).source_hash is None


async def test_a_path_that_answers_again_is_looked_at_again(
    hanging: HangingFiles, mock_clock: trio.testing.MockClock
) -> None:
    hanging.hanging = {"/b"}
    sources = FileSources(hanging.lstat)
    assert await look(sources, ["/b"], hanging, mock_clock) == {}
    hanging.go.set()
    while sources._stuck:
        await moment()
    assert isinstance((await sources.inspect(["/b"]))["/b"], Fingerprint)


async def test_a_look_ends_also_when_every_thread_hangs(
    hanging: HangingFiles, mock_clock: trio.testing.MockClock
) -> None:
    paths = [f"/hang{number}" for number in range(SOURCE_THREADS_MAX)]
    hanging.hanging = set(paths)
    sources = FileSources(hanging.lstat)
    assert await look(sources, paths, hanging, mock_clock) == {}
    found: list[object] = []
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            found.append(await sources.inspect(["/other"]))

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(SOURCES_SLICE_S_MAX)
    assert found == [{}]
    assert "/other" not in hanging.calls


async def test_a_cancelled_look_leaves_at_once_and_its_thread_stops_after_the_path_it_is_at(
    hanging: HangingFiles,
) -> None:
    paths = [f"/f{number}" for number in range(4 * SOURCES_SLICE)]
    hanging.hanging = {"/f3"}
    sources = FileSources(hanging.lstat)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sources.inspect, paths)
            while "/f3" not in hanging.calls:
                await moment()
            scope.cancel()
    hanging.go.set()
    assert (await sources.inspect(["/f9"])).keys() == {"/f9"}
    assert len(hanging.calls) == 5
