"""Another process acts at every single step of a checkpoint, an opening and a closing; or dies there.

Goal: commits go on while files are written, a look at the files is never half old and half new, and a killed process
costs the others nothing (Ours-1, Ours-3, J5).

Method: the hook of a simulated disk lets a second process act at the n-th operation of the first, for every n.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kit.holds import holds
from kit.simulated_stores import LOOKS, SimulatedStore
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.simulation.threads import ProcessKilled


def at_operation(machine: SimulatedMachine, moment: int, act: Callable[[], None], dies: bool = False) -> list[str]:
    """Let somebody act right before the n-th operation. Returns a list that names it once it has happened.

    Nobody acts in the middle of a transaction of the journal, since its write lock keeps others out; one can die there.
    """
    happened: list[str] = []
    seen = itertools.count(1)

    def before(name: str, path: str) -> None:
        if (name in LOOKS) if dies else ("journal.db" in path):
            return
        if next(seen) == moment:
            machine.disk.before_operation = None
            happened.append(f"{name} {path}")
            act()

    machine.disk.before_operation = before
    return happened


def patch(store: SimulatedStore, number: int) -> None:
    change = {"working": {f"n{number}": number}}
    store.patch(global_=change, cwd=change, session=change)


@holds("Ours-1", "J5")
@pytest.mark.parametrize("act", ["commit", "open"])
def test_others_commit_and_open_at_every_step_of_a_checkpoint(act: str) -> None:
    for moment in itertools.count(1):
        machine = SimulatedMachine(moment)
        first = SimulatedStore.open(machine, "first", session_id="a")
        second = SimulatedStore.open(machine, "second", session_id="b")
        for number in range(3):
            patch(first, number)
        patch(second, 10)
        first.follow()

        def acts(machine: Any = machine, second: Any = second) -> None:
            if act == "commit":
                patch(second, 11)
                return
            # A look at half-renamed files by somebody who has never seen this store.
            third = SimulatedStore.open(machine, "third", session_id="c", finishes=False)
            assert set(third.read("global.working").values()) == {0, 1, 2, 10}
            assert set(third.read("cwd.working").values()) == {0, 1, 2, 10}
            third.close()
            machine.table.kill("third")

        happened = at_operation(machine, moment, acts)
        first.checkpoint()
        machine.disk.before_operation = None
        if not happened:
            return
        for store in (first, second):
            store.follow()
            patch(store, 20 + (store is first))
        for store in (first, second):
            store.follow()
            store.checkpoint()
            expected = {0, 1, 2, 10, 20, 21} | ({11} if act == "commit" else set())
            assert set(store.read("global.working").values()) == expected, happened
            assert set(store.read("cwd.working").values()) == expected, happened
            store.files_hold_the_present()
        assert not first.close().was_last
        assert second.close().pi_lock_removed


@holds("Ours-3", "J8")
@pytest.mark.parametrize("life", ["open", "patch", "checkpoint", "close"])
def test_a_process_killed_at_any_change_costs_the_living_nothing(life: str) -> None:
    for moment in itertools.count(1):
        machine = SimulatedMachine(moment)
        living = SimulatedStore.open(machine, "living", session_id="a")
        patch(living, 0)
        acknowledged = {0}
        dying = None if life == "open" else SimulatedStore.open(machine, "dying", session_id="b")
        if dying is not None:
            patch(dying, 1)
            acknowledged.add(1)

        def die(machine: Any = machine) -> None:
            machine.kill("dying")
            raise ProcessKilled

        happened = at_operation(machine, moment, die, dies=True)
        try:
            if dying is None:
                SimulatedStore.open(machine, "dying", session_id="b")
            elif life == "patch":
                patch(dying, 2)
            elif life == "checkpoint":
                dying.checkpoint()
            else:
                dying.close()
        except ProcessKilled:
            pass
        machine.disk.before_operation = None
        living.follow()
        patch(living, 3)
        seen = set(living.read("global.working").values())
        assert acknowledged | {3} <= seen <= acknowledged | {2, 3}, happened
        living.checkpoint()
        living.files_hold_the_present()
        later = SimulatedStore.open(machine, "later", session_id="c")
        assert {member.token for member in later.journal.members.participants()} <= {"living", "later", "dying"}
        later.close()
        report = living.close()
        if happened or life == "close":
            assert report.was_last, happened
            assert report.pi_lock_removed, happened
        if not happened:
            return
