"""Which of our records a lock towards Pi belongs to, when two of them name one process id.

Goal: whoever puts another lock in its place keeps the record of the file that lies there, since a power cut may bring
that file back. Method: one lock, two records with its id, of which one knows the file.
"""

from __future__ import annotations

import pytest

from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.journal_types import PiLockRecord
from strataflow.store.pi_lock import look_at
from strataflow.store.ports import ProcessIdentity


@pytest.mark.parametrize("is_first", [True, False])
def test_the_record_that_knows_the_file_counts_before_one_that_knows_the_id(is_first: bool) -> None:
    machine = SimulatedMachine()
    ground = machine.ground("p")
    machine.disk.plant(ground.layout.pi_lock, "file", b"77\n")
    stat = machine.disk.stat(ground.layout.pi_lock)
    assert stat is not None
    of_file = PiLockRecord(stat.device, stat.inode, ProcessIdentity(77, 5, "boot-2"))
    older = PiLockRecord(stat.device, stat.inode + 1, ProcessIdentity(77, 5, "boot-1"))
    records = [of_file, older] if is_first else [older, of_file]
    state = look_at(machine.disk, ground.layout, records, ground.table)
    assert (state.kind, state.record) == ("ours", of_file)
