"""The journal's file format over the versions of this program: one golden database for each.

``golden/journal-v1.db`` was written by version 1: a store without canonical files, in which session ``main`` of
``/project`` was activated and made two changes. Make one for a new version with ``make_golden``; never touch it again.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kit.holds import holds
from kit.stores import OpenedStore
from strataflow.store import StoreError
from strataflow.store import journal_schema as schema

GOLDEN = Path(__file__).parent / "golden"


def make_golden(folder: Path) -> Path:
    """The database that the present version writes."""
    store = OpenedStore.open(folder / "state-flow", "golden")
    store.set_mode("active")
    store.patch(global_={"working": {"kept": [1, 2.5, "ü", True]}}, session={"intents": {"ship": "1.2"}})
    store.patch(cwd={"working": {"build": "green"}})
    store.abandon()
    return folder / "state-flow" / ".strataflow" / "journal.db"


def planted(tmp_path: Path, name: str = "journal-v1.db") -> Path:
    """A store that has nothing but a golden journal."""
    private = tmp_path / "state-flow" / ".strataflow"
    private.mkdir(parents=True)
    return Path(shutil.copy(GOLDEN / name, private / "journal.db"))


@holds("Ours-1", "J1", "J2")
def test_a_journal_of_version_1_gives_all_that_was_accepted(tmp_path: Path) -> None:
    planted(tmp_path)
    with OpenedStore.open(tmp_path / "state-flow", "reader") as store:
        assert store.read("effective") == {
            "working": {"kept": [1, 2.5, "ü", True], "build": "green"},
            "intents": {"ship": "1.2"},
        }
        assert store.memory.revision(store.default) == "g1c1s1"
        assert store.read("cwd[1]") == {}
        assert store.patch(cwd={"working": {"build": "red"}}).step == 3


def test_the_golden_journal_is_what_this_version_writes(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(make_golden(tmp_path))) as new,
        closing(sqlite3.connect(GOLDEN / "journal-v1.db")) as old,
    ):
        tables = "select name, sql from sqlite_schema where name not like 'sqlite%' order by name"
        assert new.execute(tables).fetchall() == old.execute(tables).fetchall()
        for pragma in ("application_id", "user_version", "journal_mode"):
            assert new.execute(f"pragma {pragma}").fetchone() == old.execute(f"pragma {pragma}").fetchone()


def test_an_older_journal_is_brought_forward_in_one_step_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(
        schema,
        "MIGRATIONS",
        {1: "create table more (n integer) strict", 2: "insert into more values (1); insert into more values (2)"},
    )
    with OpenedStore.open(tmp_path / "state-flow", "migrator") as store:
        assert store.read("cwd.working.build") == "green"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (3,)
        assert database.execute("select n from more").fetchall() == [(1,), (2,)]


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(
        schema, "MIGRATIONS", {1: "create table more (n integer) strict; insert into nowhere values (1)"}
    )
    with pytest.raises(StoreError, match="nowhere") as caught:
        OpenedStore.open(tmp_path / "state-flow")
    assert caught.value.code == "E_DISK"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (1,)
        assert database.execute("select count(*) from sqlite_schema where name = 'more'").fetchone() == (0,)


def test_a_journal_of_a_newer_version_is_refused_and_kept(tmp_path: Path) -> None:
    path = planted(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma user_version = 2")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer") as caught:
        OpenedStore.open(tmp_path / "state-flow")
    assert caught.value.code == "E_UNSUPPORTED"
    assert caught.value.data["version"] == 2
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
