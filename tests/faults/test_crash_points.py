"""The power fails, or the process is killed, before every single change of the disk.

Goal: whatever is acknowledged is found again, whole, and nothing else than that plus whole transitions that were under
way (M1, M2).

Method: a story is run again and again, each time stopped one change later, until a run completes untouched. Journal
and files lie on one simulated disk and lose, keep or tear together what was not synced. Then the store is opened on
what was found, compared with the list of what was acknowledged, closed, and its canonical files are read strictly,
also without the journal. The power may fail once more, at a random moment, during that recovery.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kit.holds import holds
from kit.simulated_stores import LOOKS, Notes, SimulatedStore, every_stop
from strataflow.runtime.simulation import PowerCut
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Durability

FATES = [("lose", 0), ("keep", 0), ("torn", 1), ("torn", 2)]


def patch(store: SimulatedStore, notes: Notes, number: int, **where: Any) -> None:
    """One transition over all three scopes; noted when begun and when acknowledged."""
    notes.append(("begun", number))
    change = {"working": {f"n{number}": {"text": "x" * (200 * (number % 3)), "n": number}, "last": number}}
    store.patch(global_=change, cwd=change, session=change, **where)
    notes.append(("acknowledged", number))


def first_open_and_checkpoints(level: Durability) -> Any:
    def story(machine: SimulatedMachine, notes: Notes) -> None:
        store = SimulatedStore.open(machine, level=level, history_limit=2)
        patch(store, notes, 1)
        patch(store, notes, 2)
        store.checkpoint()
        notes.append(("certain", 2))
        patch(store, notes, 3)
        store.respond("done")
        for number in (4, 5):
            patch(store, notes, number)
        store.checkpoint()
        store.files_hold_the_present()
        notes.append(("certain", 5))
        patch(store, notes, 6)
        store.close()

    return story


def check(machine: SimulatedMachine, notes: Notes, least: int, writer: str) -> None:
    """Open what was found, and hold it against the notes."""
    begun = max((number for what, number in notes if what == "begun"), default=0)
    store = SimulatedStore.open(machine, writer, level="power", history_limit=2)
    state = store.memory.image("").state
    count = state.value["working"]["last"] if state and state.value else 0
    assert least <= count <= begun
    for _, scope in store.default.scopes():  # all of a transition or nothing of it, in every scope
        found = store.memory.image(scope).state
        working = {} if found is None else found.value.get("working", {})
        assert {key for key in working if key != "last"} == {f"n{number}" for number in range(1, count + 1)}
        assert working.get("last", 0) == count
        assert all(working[f"n{number}"]["n"] == number for number in range(1, count + 1))
    if count > 1:
        # The answer after the third one is a transition of its own.
        is_answered = count == 3 and "response" in store.memory.image(store.default.scope("session")).state.value
        assert store.read(f"global[{1 + is_answered}].working.last") == count - 1
    step = store.memory.image(store.default.scope("session")).run
    assert (step.step if step else 0) >= count
    patch(store, [], count + 1)
    report = store.close()
    assert report.was_last
    assert report.pi_lock_removed, report
    store.files_hold_the_present()
    assert machine.disk.list(store.ground.layout.private("staged")) in (None, [])
    forget_journal(machine)
    again = SimulatedStore.open(machine, writer + "-again", history_limit=2)
    again.files_hold_the_present()
    assert again.read("effective.working.last") == count + 1


def forget_journal(machine: SimulatedMachine) -> None:
    """Take the private folder away: a clone, where the canonical files are the whole truth (J9)."""
    for path in [path for path in machine.disk.contents() if path.startswith(f"{machine.root}/.strataflow/")]:
        machine.disk.unlink(path)


def crash_in_recovery(machine: SimulatedMachine, seed: int) -> SimulatedMachine:
    """Open the store on the machine and let the power fail again on the way, or soon after."""
    chance = random.Random(seed)
    left = [chance.randrange(1, 25)]

    def before(name: str, _path: str) -> None:
        left[0] -= name not in LOOKS
        if not left[0]:
            raise PowerCut

    machine.disk.before_operation = before
    try:
        SimulatedStore.open(machine, "dies-too", history_limit=2).checkpoint()
    except PowerCut:
        return machine.after_power_cut("torn", seed)
    machine.disk.before_operation = None
    machine.kill("dies-too")
    return machine


@holds("Ours-1", "Ours-2", "J4", "J5")
@pytest.mark.parametrize("level", ["power", "process"])
def test_every_power_cut_leaves_what_was_acknowledged_and_whole_transitions(level: Durability) -> None:
    stops = 0
    for stop, machine, notes in every_stop(first_open_and_checkpoints(level)):
        stops += 1
        sure = "acknowledged" if level == "power" else "certain"
        least = max((number for what, number in notes if what == sure), default=0)
        for mode, seed in FATES:
            found = machine.after_power_cut(mode, seed)
            if mode == "torn":
                found = crash_in_recovery(found, 100 * stop + seed)
            try:
                check(found, notes, least, "second")
            except BaseException as error:
                error.add_note(f"stopped before change {stop}, fate {mode} {seed}, notes {notes}")
                raise
    assert stops > 80


@holds("Ours-1", "Ours-2")
@pytest.mark.parametrize("level", ["power", "process"])
def test_every_kill_leaves_all_that_was_acknowledged_at_either_level(level: Durability) -> None:
    for stop, machine, notes in every_stop(first_open_and_checkpoints(level), kill=True):
        least = max((number for what, number in notes if what == "acknowledged"), default=0)
        try:
            check(machine, notes, least, "second")
        except BaseException as error:
            error.add_note(f"killed before change {stop}, notes {notes}")
            raise
