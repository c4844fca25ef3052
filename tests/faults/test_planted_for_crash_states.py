"""Defects planted on purpose: the search for bad crash states finds each of them, and says where.

Goal: a search that finds nothing is worth something only if it would have found it.

Method: one rule of the store or of its disk is broken for the length of a test; a story is explored as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import pytest

from kit.crash_ledger import Ledger
from kit.crash_random import run_crash_states
from kit.crash_states import Story, Tally, explore
from kit.crash_stories import checkpoints, first_open, foreign_bytes, pruning, two_processes
from strataflow.runtime.simulation.disk import SimulatedDisk
from strataflow.runtime.simulation.journal import SimulatedJournal
from strataflow.runtime.simulation.journal_log import Database
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import StoreError, foreign, membership, renames, staged_files

Plant = Callable[[pytest.MonkeyPatch], None]


def skipped(method: str, part: str) -> Plant:
    """Calls of the disk for paths with this part in them are said to have been done."""
    real = getattr(SimulatedDisk, method)

    def call(disk: SimulatedDisk, path: str, *more: object) -> object:
        return None if part in path else real(disk, path, *more)

    return lambda patch: patch.setattr(SimulatedDisk, method, call)


def no_sync_of_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "_sync", lambda database, user: None)


def files_that_are_never_renamed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(renames, "carry_out", lambda disk, layout, prepared: renames.CarriedOut())


def staged_files_that_are_never_swept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(renames, "_sweep", lambda disk, layout: None)


def receipts_that_go_with_their_rows(patch: pytest.MonkeyPatch) -> None:
    prune = SimulatedJournal.prune
    patch.setattr(SimulatedJournal, "prune", lambda journal, keep, keep_requests=0: prune(journal, keep, 0))


def nothing_kept_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(foreign, "write_aside", lambda *arguments: None)


def a_revision_that_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    encode = staged_files.Staging.add

    def add(staging: staged_files.Staging, scope: str, found: object, files: Mapping[str, bytes]) -> None:
        files = {name: data.replace(b'"revision":2', b'"revision":3') for name, data in files.items()}
        encode(staging, scope, found, files)  # type: ignore[arg-type]

    patch.setattr(staged_files.Staging, "add", add)


def a_lock_that_stays_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(membership, "remove", lambda disk, layout, journal, table: True)


PLANTED: dict[str, tuple[Story, Plant]] = {
    "the journal is not synced": (first_open, no_sync_of_the_journal),
    "staged files are not synced": (checkpoints, skipped("sync_file", "/staged/")),
    "the folder of staged files is not synced": (checkpoints, skipped("sync_folder", "/staged")),
    "folders of scopes are not synced": (checkpoints, skipped("sync_folder", "/--")),
    "the root of the store is not synced": (first_open, skipped("sync_folder", "/agent")),
    "a prepared list counts as carried out": (checkpoints, files_that_are_never_renamed),
    "staged files stay": (checkpoints, staged_files_that_are_never_swept),
    "receipts go with their rows": (pruning, receipts_that_go_with_their_rows),
    "what gives way is not kept": (foreign_bytes, nothing_kept_aside),
    "a revision is written wrong": (two_processes, a_revision_that_is_counted_twice),
    "the lock towards Pi stays": (first_open, a_lock_that_stays_behind),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found_among_the_crash_states(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story, plant = PLANTED[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, StoreError)):
        explore(story, Tally())


def explore_seeds() -> None:
    for seed in range(20):
        run_crash_states(seed)


def test_a_planted_defect_is_found_by_a_random_story_that_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_sync_of_the_journal(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        explore_seeds()
    assert any("repeat it with: python tests/kit/crash_random.py " in note for note in caught.value.__notes__)


def test_two_machines_with_the_same_bytes_are_one_crash_state() -> None:
    tally, machine = Tally(), SimulatedMachine()
    machine.disk.plant(f"{machine.root}/a", "file", b"x")
    assert tally.is_new(machine, ("lose", 0), 0)
    assert not tally.is_new(machine.after_power_cut("torn", 5), ("torn", 5), 0)
    assert tally.is_new(machine, ("kill", 0), 0)
    assert tally.is_new(machine, ("lose", 0), 1)
    machine.disk.plant(f"{machine.root}/a", "file", b"y")
    assert tally.is_new(machine, ("lose", 0), 0)


def test_a_ledger_knows_what_may_be_found_after_a_kill_and_after_a_cut() -> None:
    ledger = Ledger()
    ledger.acknowledged = ledger.kept = 3
    ledger.certain = 1
    for is_cut, least in ((True, 1), (False, 3)):
        found = ledger.copy()
        found.crash(is_cut=is_cut)
        assert attrs.astuple(found, filter=attrs.filters.include("kept", "certain")) == (least, 1)
