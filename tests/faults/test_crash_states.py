"""Everything stops before any single change of the disk, in every story, and again while somebody recovers from it.

Goal: whatever was acknowledged is found again, whole, revisions exact, ids of requests remembered; nothing is found
that had not begun; the store goes on working, its files are read strictly and equal memory, and the doctor finds
nothing (M1, M2, Ours-1, Ours-2).

Method: see ``kit/crash_states.py``. Only states that differ are counted, by the bytes in their files.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest

from kit.crash_ledger import Author, Ledger
from kit.crash_random import run_crash_states
from kit.crash_runtimes import RUNTIME_STORIES, a_store_shared_with_pi
from kit.crash_states import Fate, Story, Tally, checked, every_change, explore, photograph
from kit.crash_stories import STORIES, everywhere, kept_aside, write_theirs
from kit.holds import holds
from kit.simulated_runtimes import fail_once
from kit.simulated_stores import LOOKS
from strataflow.runtime.simulation import PowerCut
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.simulation.threads import ProcessKilled
from strataflow.store import StoreError
from strataflow.store.layout import PI_LOCK

# How many states of each story are checked at least, and whether all of them are, or one of two.
LEAST = {
    "first_open": (140, 1),
    "first_open_at_level_process": (120, 1),
    "checkpoints": (370, 1),
    "checkpoints_at_level_process": (140, 2),
    "two_processes": (130, 2),
    "batches": (160, 1),
    "sessions": (160, 2),
    "pruning": (180, 1),
    "journal_removed": (260, 1),
    "journal_of_yesterday": (190, 2),
    "foreign_bytes": (260, 1),
    "life_of_a_runtime": (300, 1),
    "a_store_shared_with_pi": (140, 2),
    "journal_removed_while_open": (160, 2),
}
# One of so many states of this story has crashes at every step of its recovery too.
NESTED = {"checkpoints": 250}


@holds("Ours-1", "Ours-2", "J2", "J4", "J5", "J6", "J8", "J9")
@pytest.mark.slow
@pytest.mark.parametrize("story", [*STORIES, *RUNTIME_STORIES], ids=lambda story: story.__name__)
def test_every_crash_state_of_a_story_holds_what_was_acknowledged(story: Story) -> None:
    least, one_of = LEAST[story.__name__]  # type: ignore[attr-defined]
    nested = NESTED.get(story.__name__, 0)  # type: ignore[attr-defined]
    assert explore(story, Tally(), one_of=one_of, nested=nested) >= least


def test_all_stories_together_have_two_thousand_crash_states() -> None:
    assert {story.__name__ for story in (*STORIES, *RUNTIME_STORIES)} == LEAST.keys()
    assert sum(least for least, _ in LEAST.values()) >= 2_000


@holds("Ours-1", "Ours-17")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_stories_have_no_crash_state_that_loses_anything(seed: int) -> None:
    assert run_crash_states(seed) > 40


def die_before(machine: SimulatedMachine, stop: int) -> None:
    """The process called "first" is killed before this change of the disk."""
    seen = itertools.count(1)

    def before(name: str, _path: str) -> None:
        if name not in LOOKS and next(seen) == stop:
            machine.disk.before_operation = None
            machine.kill("first")
            raise ProcessKilled

    machine.disk.before_operation = before


def lose_power(author: Author) -> None:
    """All that is not promised goes; what was acknowledged is there."""
    known = author.ledger.copy()
    known.crash(is_cut=True)
    known.settle(Author.join(author.machine.after_power_cut("lose"), Ledger(), "later").store)


@holds("Ours-1", "J4", "J5")
@pytest.mark.parametrize("is_open", [False, True], ids=["opens-later", "is-open"])
def test_whoever_builds_on_what_a_dead_process_left_unsynced_syncs_it(is_open: bool) -> None:
    # Folders, files of the journal, staged files, renames: any of them may have been made a moment ago.
    for stop in itertools.count(1):
        machine, ledger = SimulatedMachine(stop), Ledger()
        living = Author.join(machine, ledger, "second") if is_open else None
        die_before(machine, stop)
        try:
            dying = Author.join(machine, ledger, "first")
            dying.patch(**everywhere(1))
            dying.checkpoint()
            dying.patch(**everywhere(2))
            dying.close()
        except ProcessKilled:
            has_died = True
        else:
            has_died = False
        machine.disk.before_operation = None
        author = living or Author.join(machine, ledger, "second")
        author.patch(**everywhere(3))
        lose_power(author)
        author.checkpoint()
        lose_power(author)
        if not has_died:
            assert stop > 60
            return


@holds("Ours-17", "J5")
@pytest.mark.parametrize("name", ["staged", ".strataflow", "", "--project--"])
def test_a_folder_whose_sync_was_refused_is_synced_before_anything_rests_on_it(name: str) -> None:
    machine, ledger = SimulatedMachine(), Ledger()
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    machine.disk.before_operation = fail_once("sync_folder", f"/{name}".rstrip("/") if name else "state-flow")
    with contextlib.suppress(StoreError):
        author.store.checkpoint()
    tally = Tally()
    pictures = photograph(
        lambda machine, ledger: author.checkpoint(), machine, ledger, tally, every_change(("lose", 0)), "again"
    )
    for picture in pictures:
        checked(picture, tally)
    lose_power(author)


@holds("J6", "design M1")
def test_a_folder_of_what_was_kept_aside_is_synced_also_after_a_refusal() -> None:
    machine, ledger = SimulatedMachine(), Ledger()
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    author.checkpoint()
    author.patch(**everywhere(2))
    write_theirs(machine)
    machine.disk.before_operation = fail_once("sync_folder", "/.strataflow")
    with pytest.raises(StoreError):
        author.store.checkpoint()

    def cut_before_staging(name: str, path: str) -> None:
        if name == "write_new" and "/staged/" in path:
            raise PowerCut

    machine.disk.before_operation = cut_before_staging
    with pytest.raises(PowerCut):
        author.store.checkpoint()
    assert kept_aside(machine.after_power_cut("lose")) == {"n2", "last"}


@holds("Ours-3", "J8")
def test_a_lock_that_was_given_back_to_pi_is_never_a_strangers_after_a_cut() -> None:
    tally, machine = Tally(), SimulatedMachine()
    fates: list[Fate] = [("torn", seed) for seed in range(6)]
    for picture in photograph(a_store_shared_with_pi, machine, Ledger(), tally, every_change(*fates), "shared"):
        lock = f"{machine.root}/{PI_LOCK}"
        if picture.machine.disk.stat(lock) is not None:
            Author.join(picture.machine, picture.ledger, "second")
