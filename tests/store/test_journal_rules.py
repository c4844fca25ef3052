"""The rules J1 to J9, J11 and J12 of the journal, one by one, each with what breaks without it.

What is about SQLite runs on SQLite; the order of steps is read from a trace of a simulated disk; what a rule promises
after a crash is tested at every point in ``tests/faults``.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.conformance_journal import fill, row
from kit.holds import holds
from kit.runtimes import opened
from kit.simulated_stores import SimulatedStore
from kit.stores import KnownProcesses, OpenedStore, leave_killed_process
from strataflow.runtime import StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import TURN_LOCK, Durability, FlockLocks, Layout, RealDisk, SqliteJournal


class Pauses:
    """Counts the pauses of a journal that waits for SQLite, and gives the lock back in one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.release: Any = None

    def __call__(self) -> None:
        self.count += 1
        if self.release is not None and self.count == 3:
            self.release()


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    found = Layout(str(tmp_path / "state-flow"))
    os.makedirs(found.private())
    turn = FlockLocks().open(found.private(TURN_LOCK))
    yield found
    turn.close()


def journal_at(layout: Layout, level: Durability = "power", pauses: Pauses | None = None) -> SqliteJournal:
    return SqliteJournal(RealDisk(), layout, level, pauses or Pauses())


def stranger(layout: Layout) -> sqlite3.Connection:
    """Another program with the database open."""
    return sqlite3.connect(layout.private("journal.db"), isolation_level=None, timeout=0)


@holds("J1", "J3")
def test_no_read_transaction_stays_open(layout: Layout) -> None:
    journal = journal_at(layout)
    fill(journal, row(1))
    for look in (lambda: journal.view(None), lambda: journal.rows_since(0, 9), lambda: journal.log(9), journal.sync):
        look()
        other = stranger(layout)
        busy, _, _ = other.execute("pragma wal_checkpoint(truncate)").fetchone()
        other.close()
        assert not busy
        fill(journal, row(2))
    journal.close()


@holds("J3")
def test_an_append_never_waits_inside_sqlite(layout: Layout) -> None:
    pauses = Pauses()
    journal = journal_at(layout, pauses=pauses)
    other = stranger(layout)
    other.execute("begin immediate")
    assert journal.append([row(1)], head=0) == "busy"
    assert pauses.count == 0  # the event loop decides how to wait, and can be cancelled
    assert journal.rows_since(0, 9) == []
    other.execute("rollback")
    assert journal.append([row(1)], head=0) == "appended"
    other.close()
    journal.close()


@holds("J3")
def test_upkeep_waits_for_sqlite_in_pauses_of_its_own(layout: Layout) -> None:
    pauses = Pauses()
    journal = journal_at(layout, pauses=pauses)
    fill(journal, row(1))
    other = stranger(layout)
    other.execute("begin immediate")
    pauses.release = lambda: other.execute("rollback")
    assert journal.sync() == 1
    assert pauses.count == 3
    other.execute("begin immediate")
    pauses.release = None
    with pytest.raises(StoreError) as caught:
        journal.sync()
    assert caught.value.code == "E_BUSY"
    other.close()
    journal.close()


@holds("J3")
def test_nothing_but_sqlite_opens_the_files_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Closing any other descriptor of them would drop SQLite's locks in this process.
    real_open, opened_paths = os.open, []

    def watch(path: Any, *rest: Any, **more: Any) -> int:
        opened_paths.append(os.fspath(path))
        return real_open(path, *rest, **more)

    with OpenedStore.open(tmp_path / "state-flow") as store:
        monkeypatch.setattr(os, "open", watch)
        store.patch(global_={"working": {"a": 1}})
        store.checkpoint()
        store.session("other")
        store.journal.size_bytes()
        assert store.journal.is_on_its_ground()
    assert opened_paths
    assert not [path for path in opened_paths if "journal.db" in str(path)]


@holds("J4")
@pytest.mark.parametrize("level, number", [("power", 2), ("process", 1)])
def test_levels_are_full_and_normal_and_upkeep_is_always_full(layout: Layout, level: Durability, number: int) -> None:
    journal = journal_at(layout, level)
    for connection in (journal._commits, journal._upkeep):
        assert connection._sqlite.execute("pragma synchronous").fetchone() == (number,)
    with journal._upkeep.transaction() as sqlite:
        assert sqlite.execute("pragma synchronous").fetchone() == (2,)
    with pytest.raises(ZeroDivisionError), journal._upkeep.transaction():
        raise ZeroDivisionError
    assert journal._upkeep._sqlite.execute("pragma synchronous").fetchone() == (number,)
    assert journal._commits._sqlite.execute("pragma journal_mode").fetchone() == ("wal",)
    journal.close()


@holds("J4")
def test_names_of_a_journal_made_by_a_dying_process_are_synced_by_the_next() -> None:
    machine = SimulatedMachine()
    trace = traced(machine)
    SimulatedStore.open(machine, "first").abandon()
    names = [path for name, path in trace if name == "sync_folder"]
    assert f"{machine.root}/.strataflow" in names
    assert machine.root in names


def traced(machine: SimulatedMachine) -> list[tuple[str, str]]:
    """Every change of the disk from now on, with short paths."""
    trace: list[tuple[str, str]] = []

    def note(name: str, path: str) -> None:
        if name not in ("read", "stat", "list"):
            trace.append((name, path))

    machine.disk.before_operation = note
    return trace


def places(trace: list[tuple[str, str]], operation: str, part: str) -> list[int]:
    return [place for place, (name, path) in enumerate(trace) if name == operation and part in path]


@holds("J5")
@pytest.mark.parametrize("level", ["power", "process"])
def test_a_list_is_durable_before_the_first_rename_and_done_after_the_last_folder_sync(level: Durability) -> None:
    machine = SimulatedMachine()
    store = SimulatedStore.open(machine, level=level)
    store.patch(global_={"working": {"a": 1}}, session={"working": {"a": 1}})
    trace = traced(machine)
    store.checkpoint()
    staged, staged_syncs = places(trace, "write_new", "/staged/"), places(trace, "sync_file", "/staged/")
    log, renames = places(trace, "sync_file", "journal.db-wal"), places(trace, "rename", "")
    folder_syncs = [place for place in places(trace, "sync_folder", "") if place > renames[0]]
    assert len(staged) == len(staged_syncs) == len(renames) > 0
    prepared = min(log)
    assert max(staged_syncs) < prepared < min(renames)
    assert places(trace, "sync_folder", "/staged")[0] < prepared
    finished = min(place for place in log if place > renames[0])
    for place in renames:
        folder = trace[place][1].rpartition("/")[0]
        assert any(trace[sync][1] == folder and place < sync < finished for sync in folder_syncs), folder
    # The run record is the pointer to everything else: it goes last.
    assert trace[renames[-1]][1].endswith("runtime.json")


@holds("J5")
def test_rows_are_deleted_only_after_the_list_is_done() -> None:
    machine = SimulatedMachine()
    store = SimulatedStore.open(machine)
    for number in range(130):
        store.patch(global_={"working": {"a": number}})
    machine.disk.before_operation = refuse_after("rename", "sync_folder")
    with pytest.raises(StoreError):
        store.checkpoint()
    assert store.journal.view(0).pruned_through == 0
    machine.disk.before_operation = None
    store.checkpoint()
    store.patch(global_={"working": {"a": 130}})
    store.checkpoint()
    assert store.journal.view(0).pruned_through > 0


def refuse_after(first: str, then: str) -> Any:
    seen = []

    def before(name: str, _path: str) -> None:
        if name == first:
            seen.append(name)
        if seen and name == then:
            raise OSError(errno.EIO, "injected")

    return before


@holds("J6")
@pytest.mark.parametrize("level", ["power", "process"])
def test_parts_that_give_way_are_kept_aside_durably_before_the_journal_marks_them(level: Durability) -> None:
    machine = SimulatedMachine()
    store = SimulatedStore.open(machine, level=level)
    store.patch(global_={"working": {"a": 1}}, cwd={"working": {"a": 1}})
    store.checkpoint()
    store.patch(global_={"working": {"a": 2}}, cwd={"working": {"a": 2}})
    path = f"{machine.root}/checkpoint.json"
    machine.disk.unlink(path)
    machine.disk.plant(path, "file", b'{"working":{"theirs":1}}\n')
    trace = traced(machine)
    report = store.checkpoint()
    machine.disk.before_operation = None
    assert report.superseded == ("",)
    written = places(trace, "sync_file", "/superseded/")[0]
    named = places(trace, "sync_folder", "/superseded")[0]
    marked = places(trace, "sync_file", "journal.db-wal")[0]
    assert written < named < marked
    store.follow()
    store.session()
    assert store.read("global.working.theirs") == 1
    assert store.read("cwd.working.a") == 2  # other scopes' parts of the same row stay in force
    assert [sorted(item.superseded) for item in store.journal.rows_since(0, 99) if item.superseded] == [["global"]]


@holds("J8")
def test_a_lock_towards_pi_is_recorded_durably_before_it_can_be_seen() -> None:
    machine = SimulatedMachine()
    trace = traced(machine)
    store = SimulatedStore.open(machine)
    made, linked = places(trace, "sync_file", "/pi.lock.")[0], places(trace, "link", ".state-flow-publication.lock")[0]
    assert [place for place in places(trace, "sync_file", "journal.db-wal") if made < place < linked]
    inode = machine.disk.stat(f"{machine.root}/.state-flow-publication.lock")
    assert inode is not None
    assert [record.inode for record in store.journal.members.pi_locks()] == [inode.inode]


@holds("J8")
def test_the_leaving_holder_names_a_participant_that_stays() -> None:
    machine = SimulatedMachine()
    first = SimulatedStore.open(machine, "first", session_id="a")
    second = SimulatedStore.open(machine, "second", session_id="b")
    path = f"{machine.root}/.state-flow-publication.lock"

    def named() -> int:
        return int(machine.disk.contents()[path])

    assert named() == machine.table.running["first"].pid
    assert not first.close().was_last
    assert named() == machine.table.running["second"].pid
    assert second.close().pi_lock_removed
    assert path not in machine.disk.contents()


@holds("J8", "Ours-3")
@pytest.mark.parametrize("reused", [False, True])
def test_a_lock_of_a_dead_process_of_ours_is_taken_over_also_if_its_id_was_given_again(reused: bool) -> None:
    machine = SimulatedMachine()
    SimulatedStore.open(machine, "first").patch(global_={"working": {"a": 1}})
    pid = machine.table.running["first"].pid
    machine.kill("first")
    if reused:
        machine.table.start("somebody else", pid=pid)
    store = SimulatedStore.open(machine, "second")
    assert store.read("global.working.a") == 1
    assert store.close().pi_lock_removed


@holds("J8")
def test_a_dead_stranger_s_lock_is_refused_and_left_alone() -> None:
    machine = SimulatedMachine()
    path = f"{machine.root}/.state-flow-publication.lock"
    machine.disk.plant(path, "file", b"77\n")
    with pytest.raises(StoreError) as caught:
        SimulatedStore.open(machine)
    assert caught.value.code == "E_LOCK"
    assert "77" in str(caught.value)
    assert machine.disk.contents()[path] == b"77\n"


@holds("J8")
def test_participants_that_died_before_or_after_they_were_recorded_leave_nothing(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    leave_killed_process(root, "store.patch(global_={'working': {'a': 1}})")
    (root / ".strataflow/open/never-recorded").touch()
    (root / ".strataflow/pi.lock.never-recorded").touch()
    with OpenedStore.open(root) as store:
        assert os.listdir(root / ".strataflow/open") == [store.writer]
        assert not [name for name in os.listdir(root / ".strataflow") if name.startswith("pi.lock.")]
        assert [member.token for member in store.journal.members.participants()] == [store.writer]


@holds("J9")
@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "turn.lock"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_real_journal_whose_files_are_moved_acknowledges_nothing(tmp_path: Path, name: str, how: str) -> None:
    root = tmp_path / "state-flow"
    async with opened(root, durability="power") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(global_={"working": {"a": 1}})
        path = root / ".strataflow" / name
        content = path.read_bytes() if name == "turn.lock" else b""
        path.rename(tmp_path / "taken away")
        if how == "replaced":
            path.write_bytes(content)
        # An open connection would go on inserting into the file that is gone, and report success.
        with pytest.raises(StoreError) as caught:
            await session.patch_state(global_={"working": {"b": 2}})
        assert caught.value.code == "E_BROKEN"
        aside = b"".join(file.read_bytes() for file in (root / ".strataflow/superseded").iterdir())
        assert b'"a":1' in aside
        assert b'"b":2' in aside
        assert "journal-replaced" in [event.name for event in runtime.events]


@holds("J9")
def test_a_copied_store_forgets_participants_and_replaces_the_copied_lock(tmp_path: Path) -> None:
    root, copy = tmp_path / "state-flow", tmp_path / "copy"
    table = KnownProcesses((1000, 2000))
    with OpenedStore.open(root, table=table) as store:
        store.patch(global_={"working": {"a": 1}})
        store.checkpoint()
        shutil.copytree(root, copy)
        lock = copy / ".state-flow-publication.lock"
        before = lock.stat().st_ino
        with OpenedStore.open(copy, "writer-2", table=KnownProcesses((1000, 2000), 2000)) as copied:
            assert [member.token for member in copied.journal.members.participants()] == ["writer-2"]
            assert copied.read("global.working.a") == 1
            assert lock.stat().st_ino != before
            assert lock.read_text() == "2000\n"
            copied.patch(global_={"working": {"a": 2}})
        assert not lock.exists()
        assert (root / ".state-flow-publication.lock").read_text() == "1000\n"
        assert store.read("global.working.a") == 1


@holds("J9")
def test_without_a_journal_the_canonical_files_are_the_whole_truth(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    with OpenedStore.open(root) as store:
        store.patch(global_={"working": {"a": 1}})
    shutil.rmtree(root / ".strataflow")
    with OpenedStore.open(root, "writer-2") as store:
        assert store.read("global.working.a") == 1
        store.patch(global_={"working": {"b": 2}})
    with OpenedStore.open(root, "writer-3") as store:
        assert store.read("global.working") == {"a": 1, "b": 2}


@holds("J12", "Ours-4")
def test_a_floor_moves_with_an_accepted_change_only_and_never_back(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    with OpenedStore.open(root, history_limit=7) as store:
        for number in range(6):
            store.patch(global_={"working": {"a": number}})
    with OpenedStore.open(root, "writer-2", history_limit=1) as store:
        assert store.read("global[1].working.a") == 4
        store.checkpoint()  # opening, reading and writing files hide nothing for others
    with OpenedStore.open(root, "writer-3", history_limit=7) as store:
        assert store.read("global[5].working.a") == 0
    with OpenedStore.open(root, "writer-4", history_limit=1) as store:
        store.patch(global_={"working": {"a": 6}})
    for again in ("writer-5", "writer-6"):
        with OpenedStore.open(root, again, history_limit=7) as store:
            assert store.read("global[1].working.a") == 5
            with pytest.raises(Exception, match="retained") as caught:
                store.read("global[2].working.a")
            assert caught.value.code == "E_HISTORY_ORIGIN"  # type: ignore[attr-defined]
            assert b'"a":4' not in (root / "patches.jsonl").read_bytes()  # folded with the next checkpoint


@holds("J12")
def test_the_last_writer_of_a_private_scope_is_never_pruned(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path / "state-flow") as store:
        store.patch(session={"working": {"a": 1}})
        seq = store.memory.head
        for number in range(150):
            store.patch(store.session("other"), global_={"working": {"a": number}})
        store.checkpoint()
        assert store.journal.view(0).pruned_through > 0
        base = store.journal.view(0, ["--project--/main"]).bases["--project--/main"]
        assert (base.last_writer, base.last_seq) == (store.writer, seq)
