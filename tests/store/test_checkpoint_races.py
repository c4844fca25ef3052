"""Commits that arrive while a checkpoint chooses, stages and renames: none of them may count as written (M1, J5)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from kit.stores import OpenedStore, reader_of
from strataflow.store import JournalView, SqliteJournal


@pytest.mark.parametrize("look", range(6))
def test_a_row_that_comes_between_two_looks_of_a_checkpoint_stays_in_the_journal(tmp_path: Path, look: int) -> None:
    """Goal: no row is marked as written that no file holds. Method: another session commits before the n-th look."""
    root = tmp_path / "state-flow"
    with OpenedStore.open(root) as store, OpenedStore.open(root, "writer-2", session_id="other") as other:
        store.patch(session={"working": {"n": 1}})
        view, looks = SqliteJournal.view, 0

        def view_late(self: SqliteJournal, after: int | None, scopes: Collection[str] = ()) -> JournalView:
            nonlocal looks
            if self is store.journal:
                looks += 1
                if looks == look + 1:
                    other.patch(cwd={"working": {"o": 2}}, session={"working": {"n": 2}})
            return view(self, after, scopes)

        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(SqliteJournal, "view", view_late)
            store.checkpoint()
        assert looks > look
        seen = reader_of(root, tmp_path / "scratch").look("/project", "other")
        assert seen.revision == other.memory.revision(other.default) == "g0c1s1"
        other.patch(session={"working": {"n": 3}})
        store.checkpoint()
        seen = reader_of(root, tmp_path / "scratch").look("/project", "other")
        assert seen.revision == "g0c1s2"
        other.abandon()
        store.abandon()
    with OpenedStore.open(root, "writer-3", session_id="other") as again:
        assert again.read("effective") == {"working": {"o": 2, "n": 3}}
