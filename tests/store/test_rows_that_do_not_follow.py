"""A journal that was tampered with: the scope that a row does not follow is refused, by name; the others go on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kit.holds import holds
from kit.stores import OpenedStore, reader_of
from strataflow.store import StoreError, read


@pytest.fixture
def tampered(tmp_path: Path) -> Path:
    root = tmp_path / "state-flow"
    store = OpenedStore.open(root)
    store.set_mode("active")
    store.patch(cwd={"working": {"n": 1}}, global_={"working": {"kept": True}})
    store.patch(cwd={"working": {"n": 2}})
    store.abandon()
    with closing(sqlite3.connect(root / ".strataflow" / "journal.db")) as database:
        database.execute("""update rows set body = replace(body, '"revision":2', '"revision":7') where seq = 3""")
        database.commit()
    return root


@holds("Ours-18")
def test_opening_names_the_row_and_keeps_the_other_scopes_readable(tampered: Path) -> None:
    store = OpenedStore.open(tampered, "second")
    with pytest.raises(StoreError, match="row 3") as caught:
        store.patch(cwd={"working": {"n": 3}})
    assert caught.value.code == "E_CORRUPT"
    assert store.read("global.working.kept") is True
    store.abandon()


@holds("Ours-18")
def test_a_reader_names_the_row_and_reads_the_other_scopes(tampered: Path, tmp_path: Path) -> None:
    view = reader_of(tampered, tmp_path / "scratch").view("/project", "main", 7)
    assert read(view, {"path": "global.working.kept"}).value is True
    with pytest.raises(StoreError, match="row 3"):
        read(view, {"path": "cwd"})


def test_a_checkpoint_writes_the_other_scopes_and_keeps_the_rows(tampered: Path) -> None:
    store = OpenedStore.open(tampered, "second")
    report = store.checkpoint()
    assert set(report.blocked) == {"--project--"}
    assert "" in report.scopes
    assert report.through < 3
    store.abandon()
