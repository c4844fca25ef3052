"""Unlocking: only what a dead stranger left goes, and only if nobody can be using the store (Ours-3, J8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.holds import holds
from kit.stores import KnownProcesses, OpenedStore, all_bytes, reader_of
from strataflow.store import StoreError
from strataflow.store.unlock import UnlockReport, unlock

PI_LOCK = ".state-flow-publication.lock"
DEAD = KnownProcesses(living=(1,), own_pid=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that the original program made: it has no private folder of ours."""
    root = tmp_path / "state-flow"
    root.mkdir(mode=0o700)
    (root / "checkpoint.json").write_bytes(b"{}\n")
    return root


def unlocked(root: Path, table: KnownProcesses = DEAD, later_ms: int = 10_000) -> UnlockReport:
    """Unlock some time after the lock was made."""
    reader = reader_of(root, root.parent / "scratch", table)
    lock = root / PI_LOCK
    made_ms = lock.lstat().st_mtime_ns // 1_000_000 if lock.is_symlink() or lock.exists() else 0
    return unlock(reader.ground, reader.journal, made_ms + later_ms)


@holds("Ours-3")
@pytest.mark.parametrize("content", [b"77\n", b"77", b"nonsense", b"0\n", b"-1\n", b"\xff"])
def test_a_lock_that_nobody_alive_stands_behind_is_removed_and_named(root: Path, content: bytes) -> None:
    (root / PI_LOCK).write_bytes(content)
    report = unlocked(root)
    assert report.is_removed
    assert report.content == content.decode("utf-8", "replace")
    assert content.decode("utf-8", "replace").strip() in report.words
    assert not (root / PI_LOCK).exists()
    with OpenedStore.open(root.parent / "other", table=DEAD):
        pass
    assert (root / "checkpoint.json").read_bytes() == b"{}\n"


def test_without_a_lock_nothing_is_made_or_removed(root: Path) -> None:
    before = all_bytes(root)
    assert not unlocked(root).is_removed
    assert not unlocked(root.parent / "nowhere").is_removed
    assert all_bytes(root) == before
    assert not (root.parent / "nowhere").exists()


@holds("Ours-3", "store 2.1.4")
def test_the_lock_of_a_living_process_is_refused_and_stays(root: Path) -> None:
    (root / PI_LOCK).write_bytes(b"77\n")
    with pytest.raises(StoreError, match="77 lives") as caught:
        unlocked(root, KnownProcesses(living=(1, 77), own_pid=1))
    assert (caught.value.code, caught.value.data["pid"]) == ("E_LOCK", 77)
    assert (root / PI_LOCK).read_bytes() == b"77\n"


@pytest.mark.parametrize(
    "later_ms, is_young", [(0, True), (1_999, True), (-500, True), (2_000, False), (-5_000, False)]
)
def test_an_empty_lock_is_removed_only_when_its_maker_must_be_dead(root: Path, later_ms: int, is_young: bool) -> None:
    (root / PI_LOCK).touch()
    if is_young:
        with pytest.raises(StoreError, match="being made") as caught:
            unlocked(root, later_ms=later_ms)
        assert caught.value.code == "E_BUSY"
    else:
        assert unlocked(root, later_ms=later_ms).is_removed
    assert (root / PI_LOCK).exists() is is_young


@pytest.mark.parametrize("kind", ["folder", "symlink"])
def test_what_is_no_lock_file_is_refused_and_stays(root: Path, kind: str) -> None:
    lock = root / PI_LOCK
    if kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(root / "checkpoint.json")
    with pytest.raises(StoreError, match=kind) as caught:
        unlocked(root)
    assert caught.value.code == "E_LOCK"
    assert lock.is_symlink() or lock.is_dir()


def test_our_own_dead_lock_is_left_to_whoever_opens_the_store_next(root: Path) -> None:
    OpenedStore.open(root.parent / "ours", table=KnownProcesses()).abandon()
    report = unlocked(root.parent / "ours")
    assert not report.is_removed
    assert "ours" in report.words
    assert (root.parent / "ours" / PI_LOCK).exists()
    with OpenedStore.open(root.parent / "ours", "writer-2", table=DEAD) as store:
        store.patch(cwd={"working": {"n": 1}})
    assert not (root.parent / "ours" / PI_LOCK).exists()


def test_a_store_that_a_process_of_ours_has_open_is_refused(root: Path) -> None:
    with OpenedStore.open(root.parent / "ours", share_with_pi=True, table=DEAD):
        (root.parent / "ours" / PI_LOCK).write_bytes(b"77\n")
        with pytest.raises(StoreError, match="has it open") as caught:
            unlocked(root.parent / "ours")
        assert caught.value.code == "E_LOCK"
        assert (root.parent / "ours" / PI_LOCK).read_bytes() == b"77\n"
    assert unlocked(root.parent / "ours").is_removed


def test_a_store_that_is_being_opened_is_refused_for_the_moment(root: Path) -> None:
    OpenedStore.open(root.parent / "ours", table=DEAD).close()
    (root.parent / "ours" / PI_LOCK).write_bytes(b"77\n")
    reader = reader_of(root.parent / "ours", root.parent / "scratch", DEAD)
    gate = reader.ground.locks.open(reader.ground.layout.private("open.lock"))
    try:
        assert gate.try_acquire()
        with pytest.raises(StoreError, match="ask again") as caught:
            unlocked(root.parent / "ours")
        assert caught.value.code == "E_BUSY"
    finally:
        gate.close()


def test_a_damaged_journal_does_not_stand_in_the_way(root: Path) -> None:
    OpenedStore.open(root.parent / "ours", table=DEAD).close()
    (root.parent / "ours" / ".strataflow" / "journal.db").write_bytes(b"x" * 9_000)
    (root.parent / "ours" / PI_LOCK).write_bytes(b"77\n")
    assert unlocked(root.parent / "ours").is_removed


def test_after_unlocking_the_store_can_be_opened_again(root: Path) -> None:
    with OpenedStore.open(root.parent / "ours", table=DEAD) as store:
        store.patch(cwd={"working": {"n": 1}})
    (root.parent / "ours" / PI_LOCK).write_bytes(b"77\n")
    with pytest.raises(StoreError, match="unlock"):
        OpenedStore.open(root.parent / "ours", table=DEAD)
    assert unlocked(root.parent / "ours").is_removed
    with OpenedStore.open(root.parent / "ours", table=DEAD) as store:
        assert store.read("effective.working.n") == 1
