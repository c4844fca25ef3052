"""The journal's file format over the versions of this program: one golden database for each.

Each ``golden/journal-v*.db`` was written by that version: a store without canonical files, in which session ``main``
of ``/project`` was activated and made two changes; since version 2 some calls have request ids, one of them in a row
that was pruned. Make one for a new version with ``make_golden``; never touch it again.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kit.holds import holds
from kit.stores import OpenedStore, reader_of
from strataflow.store import StoreError, read
from strataflow.store import journal_schema as schema

GOLDEN = Path(__file__).parent / "golden"
EVERY = ["journal-v1.db", "journal-v2.db"]
PRESENT = EVERY[-1]
TABLES = "select name, sql from sqlite_schema where name not like 'sqlite%' order by name"


def make_golden(folder: Path) -> Path:
    """The database that the present version writes."""
    store = OpenedStore.open(folder / "state-flow", "golden")
    store.patch(global_={"working": {"never": None}}, request_id="pruned")
    store.checkpoint()
    store.set_mode("active")
    assert store.journal.prune(0) == 1
    change = {"global_": {"working": {"kept": [1, 2.5, "ü", True]}}, "session": {"intents": {"ship": "1.2"}}}
    store.patch(**change, request_id="kept")
    store.patch(cwd={"working": {"build": "green"}})
    store.abandon()
    return folder / "state-flow" / ".strataflow" / "journal.db"


def planted(tmp_path: Path, name: str = PRESENT) -> Path:
    """A store that has nothing but a golden journal."""
    private = tmp_path / "state-flow" / ".strataflow"
    private.mkdir(parents=True)
    return Path(shutil.copy(GOLDEN / name, private / "journal.db"))


@holds("Ours-1", "J1", "J2")
@pytest.mark.parametrize("name", EVERY)
def test_a_journal_of_any_version_gives_all_that_was_accepted(tmp_path: Path, name: str) -> None:
    path = planted(tmp_path, name)
    with OpenedStore.open(tmp_path / "state-flow", "reader") as store:
        assert store.read("effective") == {
            "working": {"kept": [1, 2.5, "ü", True], "build": "green"},
            "intents": {"ship": "1.2"},
        }
        assert store.memory.revision(store.default) == "g1c1s1"
        assert store.read("cwd[1]") == {}
        assert store.patch(cwd={"working": {"build": "red"}}, request_id="new").step == 3
        assert store.outcome("new") == store.patch(request_id="new", cwd={"working": {"build": "blue"}})
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(GOLDEN / PRESENT)) as new:
        assert old.execute("pragma user_version").fetchone() == (schema.SCHEMA_VERSION,)
        assert old.execute(TABLES).fetchall() == new.execute(TABLES).fetchall()


@holds("Ours-12")
def test_a_journal_of_version_2_remembers_its_requests(tmp_path: Path) -> None:
    planted(tmp_path, "journal-v2.db")
    with OpenedStore.open(tmp_path / "state-flow", "reader") as store:
        kept, pruned = store.outcome("kept"), store.outcome("pruned")
        assert kept is not None
        assert pruned is not None
        assert (kept.changed, kept.revision, kept.step, kept.seq) == (True, "g1c0s1", 1, 3)
        assert (pruned.changed, pruned.scopes, pruned.seq) == (False, ("global",), 1)
        assert [item.path for item in pruned.missing_deletions] == ["/global/working/never"]
        assert store.patch(global_={"working": {"kept": None}}, request_id="kept") == kept
        assert store.patch(global_={"working": {"kept": None}}, request_id="pruned") == pruned
        assert store.read("global.working.kept") == [1, 2.5, "ü", True]


@holds("J10")
@pytest.mark.parametrize("name", EVERY)
def test_a_reader_understands_a_journal_of_any_version_and_leaves_it_as_it_is(tmp_path: Path, name: str) -> None:
    path = planted(tmp_path, name)
    before = path.read_bytes()
    reader = reader_of(tmp_path / "state-flow", tmp_path / "scratch")
    assert read(reader.view("/project", "main"), {"path": "cwd.working.build"}).value == "green"
    assert [entry.request_id for entry in reader.log(9)] == ["kept" if name != EVERY[0] else None, None]
    assert path.read_bytes() == before


def test_the_golden_journal_is_what_this_version_writes(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(make_golden(tmp_path))) as new,
        closing(sqlite3.connect(GOLDEN / PRESENT)) as old,
    ):
        assert new.execute(TABLES).fetchall() == old.execute(TABLES).fetchall()
        for pragma in ("application_id", "user_version", "journal_mode"):
            assert new.execute(f"pragma {pragma}").fetchone() == old.execute(f"pragma {pragma}").fetchone()


def test_an_older_journal_is_brought_forward_in_one_step_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path)
    steps = {
        schema.SCHEMA_VERSION: "create table more (n integer) strict",
        schema.SCHEMA_VERSION + 1: "insert into more values (1); insert into more values (2)",
    }
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS | steps)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 2)
    with OpenedStore.open(tmp_path / "state-flow", "migrator") as store:
        assert store.read("cwd.working.build") == "green"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (schema.SCHEMA_VERSION,)
        assert database.execute("select n from more").fetchall() == [(1,), (2,)]


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, present = planted(tmp_path), schema.SCHEMA_VERSION
    step = {present: "create table more (n integer) strict; insert into nowhere values (1)"}
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS | step)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", present + 1)
    with pytest.raises(StoreError, match="nowhere") as caught:
        OpenedStore.open(tmp_path / "state-flow")
    assert caught.value.code == "E_DISK"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (present,)
        assert database.execute("select count(*) from sqlite_schema where name = 'more'").fetchone() == (0,)


def test_a_journal_of_a_newer_version_is_refused_and_kept(tmp_path: Path) -> None:
    path = planted(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"pragma user_version = {schema.SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer") as caught:
        OpenedStore.open(tmp_path / "state-flow")
    assert caught.value.code == "E_UNSUPPORTED"
    assert caught.value.data["version"] == schema.SCHEMA_VERSION + 1
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_by_name(tmp_path: Path) -> None:
    private = tmp_path / "state-flow" / ".strataflow"
    private.mkdir(parents=True)
    with closing(sqlite3.connect(private / "journal.db")) as database:
        database.execute("create table theirs (n integer)")
    with pytest.raises(StoreError, match="another program") as caught:
        OpenedStore.open(tmp_path / "state-flow")
    assert caught.value.code == "E_CORRUPT"


@holds("Ours-1")
def test_a_damaged_journal_is_refused_and_names_the_remedy(tmp_path: Path) -> None:
    path = planted(tmp_path)
    path.write_bytes(b"not a database at all, " * 400)
    with pytest.raises(StoreError, match="doctor --rebuild") as caught:
        OpenedStore.open(tmp_path / "state-flow")
    assert caught.value.code == "E_CORRUPT"
