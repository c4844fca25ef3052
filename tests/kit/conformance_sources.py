"""What every form of ``Sources`` must do. The bench says how files come and go in its world."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import attrs

from kit.holds import holds
from strataflow.actors import Sources
from strataflow.store.artifacts import MISSING, Fingerprint, Seen, Unavailable


class Files(Protocol):
    """Files below ``root``."""

    root: str

    def write(self, path: str, content: bytes, mtime_ns: int | None = None) -> None: ...

    def remove(self, path: str) -> None: ...


@attrs.frozen
class Bench:
    sources: Sources
    files: Files

    def path(self, name: str) -> str:
        return f"{self.files.root}/{name}"

    async def look(self, path: str) -> Seen:
        return (await self.sources.inspect([path]))[path]


MakeBench = Callable[[], Bench]


class SourcesConformance:
    """Derive, and give a fixture ``bench``."""

    @holds("A11", "case agent 150")
    async def test_a_regular_file_is_seen_by_size_and_signed_nanoseconds(self, bench: Bench) -> None:
        bench.files.write(bench.path("a"), b"12345", 1_700_000_000_123_456_789)
        assert await bench.look(bench.path("a")) == Fingerprint(5, 1_700_000_000_123_456_789)
        bench.files.write(bench.path("a"), b"12345", -1_000_000_001)
        assert await bench.look(bench.path("a")) == Fingerprint(5, -1_000_000_001)

    @holds("A11")
    async def test_nothing_at_a_path_is_seen_as_missing(self, bench: Bench) -> None:
        bench.files.write(bench.path("file"), b"x")
        for name in ("none", "no/folder/here", "file/below"):
            if name != "file/below" or bench.files.root != "/world":
                assert await bench.look(bench.path(name)) == MISSING, name
        bench.files.remove(bench.path("file"))
        assert await bench.look(bench.path("file")) == MISSING

    @holds("A11", "Ours-13")
    async def test_a_folder_and_a_path_of_another_spelling_are_unavailable(self, bench: Bench) -> None:
        bench.files.write(bench.path("folder/file"), b"x")
        for path in (bench.path("folder"), "file", bench.path("folder/../folder/file"), bench.path("folder/file/")):
            assert isinstance(await bench.look(path), Unavailable), path

    @holds("A11")
    async def test_every_path_of_a_look_is_answered_and_no_other(self, bench: Bench) -> None:
        paths = [bench.path(f"f{number}") for number in range(700)]
        for path in paths[::2]:
            bench.files.write(path, path.encode())
        seen = await bench.sources.inspect(paths)
        assert list(seen) == paths
        for number, path in enumerate(paths):
            assert (seen[path] == MISSING) == bool(number % 2)
        assert await bench.sources.inspect([]) == {}

    @holds("A27")
    async def test_a_hash_is_that_of_the_bytes_with_the_metadata_of_their_file(self, bench: Bench) -> None:
        content = bytes(range(256)) * 4096
        bench.files.write(bench.path("skill"), content)
        digest = await bench.sources.digest(bench.path("skill"))
        assert digest.source_hash == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert digest.fingerprint == await bench.look(bench.path("skill"))
        assert digest.problem == ""

    @holds("A35")
    async def test_what_can_not_be_hashed_is_told_in_words(self, bench: Bench) -> None:
        bench.files.write(bench.path("folder/file"), b"x")
        for path in (bench.path("none"), bench.path("folder"), "relative"):
            digest = await bench.sources.digest(path)
            assert digest.source_hash is None
            assert digest.problem

    async def test_a_write_that_keeps_the_size_shows_all_the_same(self, bench: Bench) -> None:
        bench.files.write(bench.path("a"), b"one")
        before = await bench.look(bench.path("a"))
        bench.files.write(bench.path("a"), b"two")
        assert await bench.look(bench.path("a")) != before
