"""A write that is cut short has not arrived whole, however many bytes were let through."""

from __future__ import annotations

import errno
import random

import pytest

from strataflow.runtime.simulation.disk import ShortWrite, SimulatedDisk
from strataflow.runtime.simulation.journal_log import Database, State
from strataflow.store import StoreError

LOG = "/store/journal.db-wal"


def _disk() -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(1))
    disk.plant("/store")
    disk.write_new(LOG, b"")
    return disk


def _cut_short(disk: SimulatedDisk, taken_bytes: int) -> None:
    def hook(name: str, path: str) -> None:
        if name == "append":
            disk.before_operation = None
            raise ShortWrite(errno.EIO, taken_bytes)

    disk.before_operation = hook


@pytest.mark.parametrize("taken_bytes, kept", [(0, b""), (2, b"ab"), (3, b"abc"), (4, b"abc"), (100, b"abc")])
def test_a_short_write_never_takes_everything(taken_bytes: int, kept: bytes) -> None:
    disk = _disk()
    _cut_short(disk, taken_bytes)
    with pytest.raises(StoreError):
        disk.append(LOG, b"abcd")
    assert disk.read(LOG) == kept


@pytest.mark.parametrize("missing_bytes", [1, 2, 20])
def test_a_commit_that_was_cut_short_is_not_found_again(missing_bytes: int) -> None:
    disk, states = _disk(), {"": State()}
    Database(disk, LOG, states).commit(State().with_facts(synced_through=1), 64, full=True, user="p0.1")
    whole_bytes = len(disk.read(LOG) or b"")
    _cut_short(disk, whole_bytes - missing_bytes)
    database = Database(disk, LOG, states)
    with pytest.raises(StoreError):
        database.commit(State().with_facts(synced_through=2), 64, full=True, user="p0.1")
    assert Database(disk, LOG, states).state.fact("synced_through") == 1
    database.commit(State().with_facts(synced_through=3), 64, full=True, user="p0.1")
    assert Database(disk, LOG, states).state.fact("synced_through") == 3
