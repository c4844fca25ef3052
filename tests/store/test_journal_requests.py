"""The memory of accepted requests in the real journal: how many, how fast, and what a damaged text does to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit.conformance_journal import asked, fill, finished, row
from kit.holds import holds
from kit.stores import OpenedStore, reader_of
from strataflow.store import (
    REQUESTS_KEPT,
    TURN_LOCK,
    FlockLocks,
    Layout,
    RealDisk,
    SqliteJournal,
    Stamp,
    StoreError,
    diagnose,
    rebuild,
)


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    (tmp_path / ".strataflow").mkdir()
    found = Layout(str(tmp_path))
    turn = FlockLocks().open(found.private(TURN_LOCK))
    yield found
    turn.close()


@pytest.fixture
def journal(layout: Layout) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(RealDisk(), layout, "process", lambda: None)
    yield opened
    opened.close()


def ask(journal: SqliteJournal, first: int, last: int) -> None:
    """Append a call with a request id for each number, many at once."""
    for start in range(first, last + 1, 250):
        rows = [asked(n, f"request-{n}") for n in range(start, min(start + 250, last + 1))]
        assert journal.append(rows, head=start - 1) == "appended"
    journal.prepare(finished(last))
    journal.finish(finished(last))


@holds("Ours-12")
def test_the_last_ten_thousand_requests_are_remembered_and_no_more_when_their_rows_are_gone(
    journal: SqliteJournal,
) -> None:
    assert REQUESTS_KEPT == 10_000
    ask(journal, 1, 10_300)
    assert journal.prune(100) == 10_199  # a hundred stay, and the newest row of all
    forgotten = 10_199 - REQUESTS_KEPT
    for number in (1, 2, forgotten - 1, forgotten):
        assert journal.outcome_of(f"request-{number}") is None
    for number in (forgotten + 1, forgotten + 2, 5_000, 10_200, 10_201, 10_300):
        assert journal.outcome_of(f"request-{number}") == {"changed": True, "seq": number}
    ask(journal, 10_301, 10_400)
    assert journal.prune(100) == 100
    assert journal.outcome_of("request-299") is None
    assert journal.outcome_of("request-300") == {"changed": True, "seq": 300}


@holds("Ours-12")
def test_the_journal_does_not_grow_with_requests_that_are_forgotten(layout: Layout, journal: SqliteJournal) -> None:
    pages = []
    for turn in range(8):
        ask(journal, turn * 1_000 + 1, (turn + 1) * 1_000)
        journal.prune(100, 500)
        with closing(sqlite3.connect(layout.private("journal.db"))) as other:
            pages.append(other.execute("pragma page_count").fetchone()[0])
    print(pages)
    assert pages[-1] <= 1.1 * pages[1]


def test_a_request_is_looked_up_by_index_and_other_rows_are_not_in_it(layout: Layout, journal: SqliteJournal) -> None:
    fill(journal, row(1), asked(2, "r"), row(3))
    with closing(sqlite3.connect(layout.private("journal.db"))) as other:
        for table, column in (("rows", "body"), ("requests", "receipt")):
            question = f"explain query plan select {column} from {table} where request_id = 'r'"
            plan = other.execute(question).fetchone()[3]
            assert plan.startswith("SEARCH"), plan
        is_there = "select name from sqlite_schema where name = 'rows_by_request' and sql like '%is not null'"
        assert other.execute(is_there).fetchone()


@pytest.mark.parametrize("text", ["{", "[]", "", '{"receipt": 3}', '{"receipt": {"changed": true}}'])
def test_a_request_whose_receipt_was_damaged_is_not_carried_out_again(tmp_path: Path, text: str) -> None:
    with OpenedStore.open(tmp_path / "state-flow") as store:
        store.patch(global_={"working": {"n": 1}}, request_id="r")
        with store.journal._upkeep.transaction() as sqlite:
            sqlite.execute("update rows set body = ? where request_id = 'r'", (text,))
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                store.patch(global_={"working": {"n": 2}}, request_id="r")
            assert caught.value.code == "E_CORRUPT"
            assert store.read("global.working.n") == 1
            # The same once its row is pruned.
            with store.journal._upkeep.transaction() as sqlite:
                sqlite.execute("update facts set value = 1 where name = 'checkpointed_through'")
            store.patch(cwd={"working": {"newest": store.memory.head}})
            store.journal.prune(0)
        store.abandon()


@holds("Ours-12", "J11")
def test_requests_outlive_checkpoints_and_reopening_but_not_a_journal_that_is_set_aside(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    with OpenedStore.open(root) as store:
        first = store.patch(global_={"working": {"n": 1}}, request_id="r")
        nothing = store.patch(global_={"working": {"n": 1}}, request_id="nothing")
        answer = store.respond("done", request_id="answer")
        assert (first.changed, nothing.changed, answer.changed) == (True, False, True)
        store.checkpoint()
        store.patch(global_={"working": {"n": 2}})
    for name in ("writer-2", "writer-3"):
        with OpenedStore.open(root, name) as store:
            assert store.patch(global_={"working": {"n": 3}}, request_id="r") == first
            assert store.patch(session={"working": {"n": 3}}, request_id="nothing") == nothing
            assert store.respond("something else", request_id="answer") == answer
            assert store.read("effective.working.n") == 2
            assert store.journal.prune(0) in (0, store.memory.head - 1)
    reader = reader_of(root, tmp_path / "scratch")
    assert diagnose(reader.ground, reader.journal).is_clean
    assert rebuild(reader.ground, reader.journal, Stamp("rebuilder", "power", 1, "id")).aside is not None
    with OpenedStore.open(root, "writer-4") as store:
        assert store.outcome("r") is None
        assert store.patch(global_={"working": {"n": 4}}, request_id="r").changed


def test_the_doctor_finds_a_request_that_was_carried_out_twice(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    with OpenedStore.open(root) as store:
        store.patch(global_={"working": {"n": 1}}, request_id="r")
        store.patch(global_={"working": {"n": 2}}, request_id="s")
    reader = reader_of(root, tmp_path / "scratch")
    assert diagnose(reader.ground, reader.journal).is_clean
    with closing(sqlite3.connect(root / ".strataflow/journal.db")) as other, other:
        other.execute("update rows set request_id = 'r'")
    assert [finding.severity for finding in diagnose(reader.ground, reader.journal).of("row-order")] == ["problem"]
