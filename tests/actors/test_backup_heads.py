"""On which commit a backup builds that had to wait for another one."""

from __future__ import annotations

import pytest

from kit.holds import holds
from strataflow.actors.backup_step import head_to_build_on
from strataflow.store import BackupError
from strataflow.store.backup import BackupRecord
from strataflow.store.backup.heads import Head

NOTED = Head("refs/heads/main", "a" * 40)
OURS = BackupRecord(commit="b" * 40)


def test_a_backup_that_another_process_made_meanwhile_is_built_upon() -> None:
    found = Head("refs/heads/main", "b" * 40)
    assert head_to_build_on(NOTED, found, OURS) == found


def test_a_branch_where_nothing_happened_is_built_upon() -> None:
    assert head_to_build_on(NOTED, NOTED, OURS) == NOTED


@holds("case store 109", "store 5.2.4")
@pytest.mark.parametrize(
    "found",
    [
        Head("refs/heads/main", "c" * 40),
        Head("refs/heads/other", "b" * 40),
        Head("refs/heads/main", None),
        Head(None, "b" * 40),
    ],
    ids=["somebody's commit", "another branch", "no commit any more", "detached"],
)
def test_whatever_else_moved_the_branch_refuses_the_backup(found: Head) -> None:
    with pytest.raises(BackupError, match="moved or left"):
        head_to_build_on(NOTED, found, OURS)
