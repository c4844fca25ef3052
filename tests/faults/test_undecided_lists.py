"""A checkpoint's list whose storing failed with unknown outcome may be found later, and then its files must be there.

Goal: C4. Method: the sync of the transaction that stores the list fails; what was written is on the disk all the same
when the power is back, with or without another process at work in between.
"""

from __future__ import annotations

import contextlib
import errno

import pytest

from kit.holds import holds
from kit.simulated_stores import SimulatedStore
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import StoreError


def patched(machine: SimulatedMachine) -> SimulatedStore:
    """A store with files, and newer rows."""
    store = SimulatedStore.open(machine)
    for number in (1, 2):
        store.patch(**{name: {"working": {f"n{number}": number}} for name in ("global_", "cwd", "session")})
        if number == 1:
            store.checkpoint()
    return store


def fail_to_store_the_list(machine: SimulatedMachine, store: SimulatedStore) -> None:
    """Checkpoint; the sync of the transaction that stores the list is refused, and the last word of this process."""

    def before(name: str, path: str) -> None:
        if name == "sync_file" and path.endswith("-wal"):
            raise OSError(errno.EIO, "injected")

    machine.disk.before_operation = before
    with pytest.raises(StoreError) as caught:
        store.checkpoint()
    assert caught.value.code == "E_BROKEN"
    machine.disk.before_operation = None


def everything_is_there(machine: SimulatedMachine) -> None:
    found = SimulatedStore.open(machine, "later")
    for scope in ("global", "cwd", "session"):
        assert found.read(f"{scope}.working") == {"n1": 1, "n2": 2}
    found.checkpoint()
    assert found.close().pi_lock_removed
    found.files_hold_the_present()


@holds("J5", "Ours-17")
@pytest.mark.parametrize("mode", ["keep", "lose", "torn"])
def test_a_list_of_unknown_outcome_finds_its_staged_files_after_a_power_cut(mode: str) -> None:
    machine = SimulatedMachine(3)
    fail_to_store_the_list(machine, patched(machine))
    for seed in range(60):
        everything_is_there(machine.after_power_cut(mode, seed))  # type: ignore[arg-type]


@holds("J5", "Ours-17")
def test_another_process_sweeps_staged_files_only_when_the_list_can_not_come_back() -> None:
    machine = SimulatedMachine(3)
    store = patched(machine)
    other = SimulatedStore.open(machine, "second", session_id="other")
    fail_to_store_the_list(machine, store)
    store.abandon()
    machine.kill("first")
    seen: list[SimulatedMachine] = []

    def before(name: str, path: str) -> None:
        # Any operation of the other one's next checkpoint may be the last before a cut.
        for _ in range(8):
            seen.append(machine.after_power_cut("torn", len(seen)))

    machine.disk.before_operation = before
    for _ in range(2):  # the first one may be told that an earlier sync has failed
        with contextlib.suppress(StoreError):
            other.checkpoint()
    machine.disk.before_operation = None
    assert len(seen) > 10
    for found in seen:
        everything_is_there(found)
