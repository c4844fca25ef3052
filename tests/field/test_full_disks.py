"""Case from the field: the disk is full at every byte of every write. The old state is intact, and work goes on later.

On a simulated disk each byte is tried; the real journal meets a limit of the size of its files.
"""

from __future__ import annotations

import itertools
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.crash_ledger import Author, Ledger
from kit.crash_states import leave_alone
from kit.crash_stories import everywhere
from kit.runtimes import opened, refused, value
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import StoreError


def used_bytes(machine: SimulatedMachine) -> int:
    return sum(map(len, machine.disk.contents().values()))


def canonical(machine: SimulatedMachine) -> dict[str, bytes]:
    return {path: data for path, data in machine.disk.contents().items() if "/.strataflow/" not in path}


def test_the_field_case_of_a_disk_that_is_full_at_every_byte_of_a_commit() -> None:
    machine, ledger = SimulatedMachine(), Ledger()
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    written = used_bytes(machine)
    author.patch(**everywhere(2))
    size = used_bytes(machine) - written
    assert size > 200
    for room in range(size):
        machine.disk.capacity_bytes = used_bytes(machine) + room
        with pytest.raises(StoreError) as caught:
            author.patch(**everywhere(3))
        assert (caught.value.code, caught.value.data["errno"]) == ("E_DISK", "ENOSPC")
        assert ledger.is_at(author.store)
        machine.disk.capacity_bytes = None
        if room % 37 == 0:
            author.patch(cwd={"working": {"room": room}})
    author.patch(**everywhere(4))
    leave_alone(machine, author)


def test_the_field_case_of_a_disk_that_is_full_at_every_byte_of_writing_the_files() -> None:
    machine, ledger = SimulatedMachine(), Ledger()
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    author.checkpoint()
    author.patch(**everywhere(2))
    files = canonical(machine)
    refusals = []
    for room in itertools.count(0, 3):  # not every byte: each look costs a whole checkpoint
        machine.disk.capacity_bytes = used_bytes(machine) + room
        try:
            author.store.checkpoint()
        except StoreError as error:
            refusals.append((error.code, error.data.get("errno")))
        else:
            break
        machine.disk.capacity_bytes = None
        assert canonical(machine) == files
        assert ledger.is_at(author.store)
    assert set(refusals) == {("E_DISK", "ENOSPC")}
    assert len(refusals) > 200
    machine.disk.capacity_bytes = None
    ledger.make_certain()
    author.patch(**everywhere(3))
    leave_alone(machine, author)


@contextmanager
def files_no_larger_than(size_bytes: int) -> Iterator[None]:
    """The system refuses to let any file of this process grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


async def test_the_field_case_of_a_real_journal_that_has_no_room_to_grow(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(cwd={"working": {"n": 0}})
        log = tmp_path / "state-flow/.strataflow/journal.db-wal"
        for number, room in enumerate(range(0, 8192, 411), 1):
            with files_no_larger_than(log.stat().st_size + room), refused("E_DISK", "E_BROKEN"):
                for more in range(20):
                    await session.patch_state(cwd={"working": {"n": -number, "big": f"{more}" * 3000}})
            assert (await session.patch_state(cwd={"working": {"n": number}})).changed
            assert await value(session, "cwd.working.n") == number
        assert not (await runtime.aclose()).left_behind
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        assert await value(session, "cwd.working.n") == number
