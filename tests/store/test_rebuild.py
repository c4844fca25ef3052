"""Rebuilding: a journal is set aside, nothing readable is lost, and nothing goes before its copy is safe (J11)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.stores import DiedError, KnownProcesses, OpenedStore, all_bytes, reader_of
from strataflow.store import RealDisk, Stamp, StoreError, read
from strataflow.store.doctor import diagnose
from strataflow.store.rebuild import RebuildReport, rebuild

PRIVATE = ".strataflow"
PI_LOCK = ".state-flow-publication.lock"
STAMP = Stamp("rebuilder", "power", 1_800_000_000_000, "rebuild-1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state-flow"


def rebuilt(root: Path, table: KnownProcesses | None = None, stamp: Stamp = STAMP) -> RebuildReport:
    reader = reader_of(root, root.parent / "scratch", table)
    report = rebuild(reader.ground, reader.journal, stamp)
    assert json.loads(json.dumps(report.to_json()))["rows_kept"] == report.rows_kept
    assert report.lines()
    return report


def crashed(root: Path, table: KnownProcesses | None = None) -> Path:
    """A store with one change in its files and two that are only in the journal, left by a dead process."""
    store = OpenedStore.open(root, table=table)
    store.patch(cwd={"working": {"n": 1}})
    store.checkpoint()
    store.patch(cwd={"working": {"n": 2}})
    store.patch(session={"working": {"s": 3}})
    return store.crash_into(root.parent / "crashed")


def kept_rows(report: RebuildReport) -> list[Any]:
    assert report.kept is not None
    return [json.loads(line) for line in Path(report.kept).read_text().splitlines()]


def damage(database: Path, page: int) -> None:
    """Overwrite one page (counted from 1)."""
    data = bytearray(database.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    database.write_bytes(data)


@holds("J11", "Ours-1")
def test_rows_outside_the_files_are_kept_and_the_files_are_the_truth(root: Path) -> None:
    store = crashed(root)
    canonical = {name: data for name, data in all_bytes(store).items() if not name.startswith(PRIVATE)}
    old = {path.name: path.read_bytes() for path in (store / PRIVATE).glob("journal.db*")}
    report = rebuilt(store)
    assert (report.rows_kept, report.rows_unreadable, report.cause) == (2, 0, "")
    assert [row["parts"] for row in kept_rows(report)] == [
        {"cwd": {"record": {"working": {"n": 2}}, "revision": 2, "floor": 0}},
        {"session": {"record": {"working": {"s": 3}}, "revision": 1, "floor": 0}},
    ]
    assert report.aside is not None
    aside = {path.name: path.read_bytes() for path in Path(report.aside).glob("journal.db*")}
    assert (aside["journal.db"], aside["journal.db-wal"]) == (old["journal.db"], old["journal.db-wal"])
    assert not list((store / PRIVATE).glob("journal.db*"))
    assert {name: data for name, data in all_bytes(store).items() if not name.startswith(PRIVATE)} == {
        name: data for name, data in canonical.items() if name != PI_LOCK
    }
    with OpenedStore.open(store, "writer-2") as opened:
        assert opened.read("effective") == {"working": {"n": 1}}
        opened.patch(cwd={"working": {"n": 9}})
    reader = reader_of(store, root.parent / "scratch")
    found = diagnose(reader.ground, reader.journal)
    assert found.is_clean
    assert found.of("superseded")
    assert found.of("kept-aside")


def test_without_a_journal_there_is_nothing_to_do(root: Path) -> None:
    assert rebuilt(root) == RebuildReport()
    assert not root.exists()
    (root / PRIVATE).mkdir(parents=True)
    assert rebuilt(root) == RebuildReport()


@holds("J11")
@pytest.mark.parametrize("renames", range(5))
def test_a_prepared_list_is_finished_before_anything_is_removed(root: Path, renames: int) -> None:
    store = OpenedStore.open(root)
    store.patch(cwd={"working": {"n": 1}})
    store.checkpoint()
    store.patch(global_={"contract": {"c": 2}}, cwd={"working": {"n": 2}})
    store.die_in_checkpoint(renames)
    report = rebuilt(root)
    assert sorted(report.finished) == ["", "--project--", "--project--/main"]
    assert (report.lost, report.rows_kept) == ((), 0)
    assert list((root / PRIVATE / "staged").iterdir()) == []
    with OpenedStore.open(root, "writer-2") as opened:
        assert opened.read("effective") == {"contract": {"c": 2}, "working": {"n": 2}}


def test_a_scope_of_a_prepared_list_that_others_changed_is_left_and_its_row_kept(root: Path) -> None:
    store = OpenedStore.open(root)
    store.patch(cwd={"working": {"n": 1}})
    store.checkpoint()
    store.patch(global_={"contract": {"c": 2}}, cwd={"working": {"n": 2}})
    store.die_in_checkpoint(0)
    theirs = b'{"working":{"theirs":1}}\n'
    (root / "--project--" / "checkpoint.json").write_bytes(theirs)
    report = rebuilt(root)
    assert report.lost == ("--project--",)
    assert (root / "--project--" / "checkpoint.json").read_bytes() == theirs
    assert [set(row["parts"]) for row in kept_rows(report)] == [{"global", "cwd"}]


def test_what_a_damaged_page_holds_is_lost_and_the_rows_around_it_are_kept(root: Path) -> None:
    store = OpenedStore.open(root)
    for number in range(60):
        store.patch(cwd={"working": {"n": number, "text": f"{number:04}" * 250}})
    store.abandon()
    database = root / PRIVATE / "journal.db"
    sqlite = sqlite3.connect(database)
    (pages,) = sqlite.execute("pragma page_count").fetchone()
    sqlite.close()
    damage(database, pages // 2)
    with pytest.raises(StoreError, match="rebuild"):
        OpenedStore.open(root, "writer-2")
    report = rebuilt(root)
    assert report.rows_unreadable >= 1
    assert 40 <= report.rows_kept < 60
    seqs = [row["seq"] for row in kept_rows(report)]
    assert seqs == sorted(seqs)
    assert (seqs[0], seqs[-1]) == (1, 60)
    with OpenedStore.open(root, "writer-3") as opened:
        assert opened.read("effective") == {}


@pytest.mark.parametrize("data", [b"x" * 9_000, b"SQLite format 3\0" + b"x" * 9_000, b"short"])
def test_a_journal_of_which_nothing_can_be_read_is_kept_as_it_is(root: Path, data: bytes) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    (root / PRIVATE / "journal.db").write_bytes(data)
    report = rebuilt(root)
    assert report.cause
    assert report.aside is not None
    assert (Path(report.aside) / "journal.db").read_bytes() == data
    with OpenedStore.open(root, "writer-2") as opened:
        assert opened.read("effective") == {"working": {"n": 1}}


@holds("J11")
def test_a_store_that_is_open_is_not_rebuilt(root: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
        before = set(all_bytes(root))
        with pytest.raises(StoreError, match="has it open") as caught:
            rebuilt(root)
        assert caught.value.code == "E_LOCK"
        assert set(all_bytes(root)) == before


def test_a_store_that_is_being_opened_is_not_rebuilt(root: Path) -> None:
    OpenedStore.open(root).close()
    gate = reader_of(root, root.parent / "scratch").ground.locks.open(str(root / PRIVATE / "open.lock"))
    try:
        assert gate.try_acquire()
        with pytest.raises(StoreError, match="ask again") as caught:
            rebuilt(root)
        assert caught.value.code == "E_BUSY"
    finally:
        gate.close()


def test_a_journal_of_a_newer_program_is_not_touched(root: Path) -> None:
    OpenedStore.open(root).close()
    sqlite = sqlite3.connect(root / PRIVATE / "journal.db")
    sqlite.execute("pragma user_version = 99")
    sqlite.close()
    before = all_bytes(root)
    with pytest.raises(StoreError, match="newer") as caught:
        rebuilt(root)
    assert caught.value.code == "E_UNSUPPORTED"
    assert all_bytes(root) == before


def test_our_own_lock_goes_with_the_journal_and_a_strangers_stays(root: Path) -> None:
    OpenedStore.open(root, table=KnownProcesses()).abandon()
    dead = KnownProcesses(living=(1,), own_pid=1)
    assert (root / PI_LOCK).exists()
    assert rebuilt(root, dead).is_pi_lock_removed
    assert not (root / PI_LOCK).exists()
    OpenedStore.open(root, table=KnownProcesses()).close()
    (root / PI_LOCK).write_bytes(b"77\n")
    assert not rebuilt(root, dead, Stamp("rebuilder", "power", 2, "rebuild-2")).is_pi_lock_removed
    assert (root / PI_LOCK).read_bytes() == b"77\n"


@holds("J11")
@pytest.mark.slow
def test_a_rebuild_that_dies_at_any_step_can_be_done_again(root: Path) -> None:
    """Goal: no step loses a row. Method: die before the n-th call that changes the disk, then rebuild in peace."""
    original = crashed(root)
    for step in range(200):
        store = root.parent / f"round-{step}" / "state-flow"
        shutil.copytree(original, store)
        is_done = dying_at(step, store)
        again = Stamp("rebuilder", "power", 1_800_000_000_000, "rebuild-2")
        rebuilt(store, stamp=again)
        assert not list((store / PRIVATE).glob("journal.db*"))
        kept = [line for path in (store / PRIVATE / "superseded").iterdir() for line in path.read_text().splitlines()]
        assert {json.loads(line)["seq"] for line in kept} == {2, 3}
        view = reader_of(store, root.parent / "scratch").view("/project", "main")
        assert read(view, {"path": "effective"}).value == {"working": {"n": 1}}
        if is_done:
            assert step > 10
            return
    pytest.fail("the rebuild never came to its end")


def dying_at(step: int, store: Path) -> bool:
    """Rebuild and die at a step. True if the rebuild ended before it."""
    left = step
    names = ("make_folder", "write_new", "sync_file", "sync_folder", "rename", "unlink", "remove_folder")
    originals = {name: getattr(RealDisk, name) for name in names}

    def wrapped(name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            if not left:
                raise DiedError
            left -= 1
            return originals[name](*arguments, **keywords)

        return call

    with pytest.MonkeyPatch.context() as patching:
        for name in names:
            patching.setattr(RealDisk, name, wrapped(name))
        try:
            rebuilt(store)
        except DiedError:
            return False
    return True
