"""The journal on SQLite and the simulated one against one suite, then what only one of them has."""

from __future__ import annotations

import errno
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.conformance_journal import JournalConformance, fill, row
from strataflow.runtime.simulation import PowerCut
from strataflow.runtime.simulation.journal import SimulatedJournal
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import (
    TURN_LOCK,
    Durability,
    FlockLocks,
    Layout,
    RealDisk,
    SqliteJournal,
    StoreError,
    make_folders,
)


class SqliteWorld:
    def __init__(self, root: Path) -> None:
        self.disk = RealDisk()
        self.layout = Layout(str(root))
        (root / ".strataflow").mkdir()
        # As in a runtime it stays open: else the number of its inode could be given to the file that replaces it.
        self.turn = FlockLocks().open(self.layout.private(TURN_LOCK))

    def open(self, level: Durability = "power") -> SqliteJournal:
        return SqliteJournal(self.disk, self.layout, level, lambda: None)


class SimulatedWorld:
    def __init__(self, machine: SimulatedMachine | None = None) -> None:
        self.machine = machine or SimulatedMachine()
        ground = self.machine.ground("tester")
        make_folders(ground)
        ground.locks.open(ground.layout.private(TURN_LOCK)).close()
        self.disk, self.layout = ground.disk, ground.layout

    def open(self, level: Durability = "power") -> SimulatedJournal:
        return self.machine.journals.open("tester", self.layout, level)


class TestSqlite(JournalConformance):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[SqliteWorld]:
        world = SqliteWorld(tmp_path)
        yield world
        world.turn.close()

    def test_a_database_of_another_program_is_refused_untouched(self, world: SqliteWorld) -> None:
        path = world.layout.private("journal.db")
        other = sqlite3.connect(path)
        other.execute("create table theirs (a)")
        other.close()
        before = Path(path).read_bytes()
        with pytest.raises(StoreError) as caught:
            world.open()
        assert caught.value.code == "E_CORRUPT"
        assert Path(path).read_bytes()[100:] == before[100:]

    def test_a_newer_version_is_refused_by_name(self, world: SqliteWorld) -> None:
        world.open().close()
        path = world.layout.private("journal.db")
        other = sqlite3.connect(path)
        other.execute("pragma user_version = 3")
        other.close()
        with pytest.raises(StoreError) as caught:
            world.open()
        assert caught.value.code == "E_UNSUPPORTED"
        assert "version 3" in str(caught.value)

    def test_a_damaged_database_is_corrupt_and_names_the_remedy(self, world: SqliteWorld) -> None:
        path = Path(world.layout.private("journal.db"))
        path.write_bytes(b"not a database, but long enough to look at" * 50)
        with pytest.raises(StoreError) as caught:
            world.open()
        assert caught.value.code == "E_CORRUPT"
        assert "doctor --rebuild" in str(caught.value)

    def test_the_files_of_a_new_journal_are_for_their_owner_only(self, world: SqliteWorld) -> None:
        journal = world.open()
        fill(journal, row(1))
        for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            stat = world.disk.stat(world.layout.private(name))
            assert stat is not None
            assert stat.mode == 0o600
        journal.close()


class TestSimulated(JournalConformance):
    @pytest.fixture
    def world(self) -> SimulatedWorld:
        return SimulatedWorld()

    @pytest.mark.parametrize("mode", ["lose", "torn"])
    def test_what_is_full_survives_a_power_cut(self, world: SimulatedWorld, mode: str) -> None:
        journal = world.open("power")
        for seed in range(20):
            fill(journal, row(seed + 1))
            again = SimulatedWorld(world.machine.after_power_cut(mode, seed)).open()
            assert again.view(0).head == seed + 1

    @given(st.lists(st.sampled_from(["power", "process"]), max_size=12), st.integers(0, 2**20))
    def test_a_cut_takes_a_suffix_of_what_was_appended_after_the_last_full_one(self, levels: list, seed: int) -> None:
        world = SimulatedWorld(SimulatedMachine(seed))
        journals = {level: world.open(level) for level in ("power", "process")}
        certain = 0
        for number, level in enumerate(levels, 1):
            journals[level].append([row(number)], head=number - 1)
            certain = number if level == "power" else certain
        found = SimulatedWorld(world.machine.after_power_cut("torn", seed)).open()
        rows = found.rows_since(0, 99)
        assert [item.seq for item in rows] == list(range(1, len(rows) + 1))
        assert certain <= len(rows) <= len(levels)

    def test_a_full_disk_refuses_and_later_rows_count(self, world: SimulatedWorld) -> None:
        journal = world.open()
        fill(journal, row(1))
        world.machine.disk.capacity_bytes = 0
        with pytest.raises(StoreError) as caught:
            journal.append([row(2)], head=1)
        assert (caught.value.code, journal.view(0).head) == ("E_DISK", 1)
        world.machine.disk.capacity_bytes = None
        fill(journal, row(2), row(3))
        again = SimulatedWorld(world.machine.after_power_cut("lose")).open()
        assert [item.content.position for item in again.rows_since(0, 9)] == [1, 2, 3]

    def test_the_outcome_of_a_failed_sync_is_open_until_the_log_is_read_again(self, world: SimulatedWorld) -> None:
        outcomes = set()
        for closes in (True, False):
            machine = SimulatedMachine(int(closes))
            world = SimulatedWorld(machine)
            journal = world.open()
            fill(journal, row(1))
            machine.disk.fail_operation(machine.disk.operations + 3, errno.EIO)
            with pytest.raises(StoreError) as caught:
                journal.append([row(2)], head=1)
            assert caught.value.code == "E_BROKEN"
            assert journal.view(0).head == 1
            if closes:
                journal.close()
            reopened = world.open()
            outcomes.add(head := reopened.view(0).head)
            fill(reopened, row(head + 1))
            for seed in range(20):  # and what came after it is durable whatever became of it
                found = SimulatedWorld(machine.after_power_cut("torn", seed)).open()
                assert found.view(0).head == head + 1
        assert outcomes == {1, 2}

    def test_a_busy_moment_appends_nothing(self, world: SimulatedWorld) -> None:
        journal = world.open()
        chance = random.Random(1)
        world.machine.journals.is_busy = lambda: chance.random() < 0.5
        answers = [journal.append([row(1)], head=journal.view(0).head) for _ in range(40)]
        assert answers.count("busy") + journal.view(0).head == 40
        assert {*answers} == {"busy", "appended"}

    def test_a_power_cut_in_the_middle_ends_the_process(self, world: SimulatedWorld) -> None:
        journal = world.open()
        world.machine.disk.cut_power_before(world.machine.disk.operations + 2)
        with pytest.raises(PowerCut):
            journal.append([row(1)], head=0)
