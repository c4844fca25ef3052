"""Pruning deletes row by row or empties the table and puts back what stays: nobody can tell which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.conformance_journal import fill, finished, row
from strataflow.store import TURN_LOCK, FlockLocks, Layout, RealDisk, SqliteJournal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    (tmp_path / ".strataflow").mkdir()
    layout = Layout(str(tmp_path))
    turn = FlockLocks().open(layout.private(TURN_LOCK))
    opened = SqliteJournal(RealDisk(), layout, "power", lambda: None)
    yield opened
    opened.close()
    turn.close()


@pytest.mark.parametrize("keep_newest", [0, 1, 5, 20, 29])
def test_what_stays_after_pruning_is_unchanged_whichever_way_it_was_done(
    journal: SqliteJournal, keep_newest: int
) -> None:
    fill(journal, *[row(n, "global" if n % 3 else "cwd", more={"note": "x" * n * 50}) for n in range(1, 41)])
    journal.prepare(finished(40))
    journal.finish(finished(40))
    before = {found.seq: found for found in journal.rows_since(0, 99)}
    count = journal.prune(keep_newest)
    after = {found.seq: found for found in journal.rows_since(0, 99)}
    assert after == {seq: before[seq] for seq in after}
    assert len(after) == 40 - count
    assert journal.view(0).pruned_through == max(before.keys() - after.keys(), default=0)
    assert journal.quick_check() == []


def test_appending_goes_on_with_the_next_number_after_an_emptied_table(journal: SqliteJournal) -> None:
    fill(journal, *[row(n) for n in range(1, 31)])
    journal.prepare(finished(30))
    journal.finish(finished(30))
    assert journal.prune(0) == 29
    assert journal.append([row(31)], head=30) == "appended"
    assert [found.seq for found in journal.rows_since(0, 99)] == [30, 31]
