"""Somebody who does not know the journal rewrites a scope's files, at every moment of a checkpoint, and crashes follow.

Goal: their bytes win for the whole scope and are never overwritten unseen; every acknowledged part of ours is in
memory, in the canonical files or in ``superseded/`` (M1, J6); other scopes go on as if nothing had happened.

Method: as for crash points; the stranger writes at a given change of the disk, as Pi does, by renaming whole files.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from kit.holds import holds
from kit.simulated_stores import Notes, SimulatedStore, every_stop
from strataflow.runtime.simulation.seams import SimulatedMachine

CWD = "--project--"
THEIRS = {"working": {"theirs": 1}}


def as_line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def write_theirs(machine: SimulatedMachine) -> None:
    """What Pi would leave: a checkpoint without patches, at a boundary far ahead. Durable at once."""
    boundary = {"id": "pi", "parent": None, "position": 1000}
    meta = {
        "version": 2,
        "artifacts": {},
        "temporal": {"checkpoint": boundary, "patches": [], "revision": 40},
        "owner": {"cwd": "/project"},
    }
    files = {"checkpoint.json": as_line(THEIRS), "patches.jsonl": b"", "meta.json": as_line(meta)}
    hook, machine.disk.before_operation = machine.disk.before_operation, None
    for name, data in files.items():
        machine.disk.unlink(f"{machine.root}/{CWD}/{name}")
        machine.disk.plant(f"{machine.root}/{CWD}/{name}", "file", data)
    machine.disk.before_operation = hook


def patch(store: SimulatedStore, notes: Notes, number: int) -> None:
    notes.append(("begun", number))
    store.patch(**{name: {"working": {f"n{number}": number}} for name in ("global_", "cwd", "session")})
    notes.append(("acknowledged", number))


def kept_aside(store: SimulatedStore) -> set[str]:
    """The members of the directory's memory that are in ``superseded/``."""
    disk, folder = store.ground.disk, store.ground.layout.private("superseded")
    lines = [line for name in disk.list(folder) or () for line in (disk.read(f"{folder}/{name}") or b"").split(b"\n")]
    found: set[str] = set()
    for line in filter(None, lines):
        part = json.loads(line)["parts"].get("cwd")
        found |= set((part["record"] or {}).get("working", {})) if part else set()
    return found


def story(machine: SimulatedMachine, notes: Notes) -> None:
    store = SimulatedStore.open(machine)
    patch(store, notes, 1)
    store.checkpoint()
    notes.append(("written", 1))
    patch(store, notes, 2)
    patch(store, notes, 3)
    write_theirs(machine)
    notes.append(("foreign", 3))
    report = store.checkpoint()
    assert report.superseded == (CWD,)
    store.follow()
    assert store.memory.stale == {CWD}
    store.session()
    patch(store, notes, 4)
    store.close()


def check(machine: SimulatedMachine, notes: Notes, writer: str) -> None:
    known = dict(notes)
    store = SimulatedStore.open(machine, writer)
    if "foreign" in known:
        working = store.read("cwd.working")
        assert working["theirs"] == 1
        aside = kept_aside(store)
        assert {"n2", "n3"} <= aside | set(working)
        assert known["acknowledged"] < 4 or working.get("n4") == 4
    for scope in ("global", "session"):
        if known.get("acknowledged"):
            found = set(store.read(f"{scope}.working"))
            assert {f"n{number}" for number in range(1, known["acknowledged"] + 1)} <= found
    patch(store, [], 9)
    assert store.close().pi_lock_removed
    store.files_hold_the_present()


@holds("J6", "Ours-1")
def test_a_cut_at_any_point_of_superseding_loses_nothing_of_either_side() -> None:
    for stop, machine, notes in every_stop(story):
        for mode, seed in (("lose", 0), ("keep", 0), ("torn", 1)):
            try:
                check(machine.after_power_cut(mode, seed), notes, "second")
            except BaseException as error:
                error.add_note(f"stopped before change {stop}, fate {mode}, notes {notes}")
                raise


@holds("J5", "J6", "store 2.3.3", "case store 45")
def test_a_stranger_at_any_moment_of_a_checkpoint_is_never_overwritten() -> None:
    for moment in itertools.count(1):
        machine = SimulatedMachine(moment)
        store = SimulatedStore.open(machine)
        notes: Notes = []
        patch(store, notes, 1)
        store.checkpoint()
        patch(store, notes, 2)
        seen = itertools.count(1)
        happened = []

        def before(name: str, _path: str, machine: Any = machine, seen: Any = seen, happened: Any = happened) -> None:
            # Every look of ours is a moment too: the stranger may come between reading and renaming.
            if next(seen) == moment:  # noqa: B023
                happened.append(name)
                write_theirs(machine)

        machine.disk.before_operation = before
        report = store.checkpoint()
        machine.disk.before_operation = None
        if not happened:
            return
        store.checkpoint()
        store.follow()
        store.session()
        assert store.read("global.working") == {"n1": 1, "n2": 2}
        if CWD in store.memory.errors:
            # They came between two renames of this scope. The mixture can not be read; it is blocked, not accepted.
            assert [row.content.position for row in store.journal.rows_of(CWD, 1)], happened
            continue
        assert store.read("cwd.working.theirs") == 1, happened
        # Kept aside, unless they came when everything of ours had been in the files: they replaced what they saw.
        assert "n2" in kept_aside(store) or CWD in report.scopes, happened
        patch(store, notes, 3)
        store.close()
        store.files_hold_the_present()


@pytest.mark.parametrize("name", ["checkpoint.json", "patches.jsonl", "meta.json"])
def test_foreign_bytes_that_can_not_be_read_block_their_scope_only(name: str) -> None:
    machine = SimulatedMachine()
    store = SimulatedStore.open(machine)
    patch(store, [], 1)
    store.checkpoint()
    patch(store, [], 2)
    machine.disk.unlink(f"{machine.root}/{CWD}/{name}")
    machine.disk.plant(f"{machine.root}/{CWD}/{name}", "file", b"{broken")
    report = store.checkpoint()
    assert [*report.blocked] == [CWD]
    assert machine.disk.contents()[f"{machine.root}/{CWD}/{name}"] == b"{broken"
    assert {"", f"{CWD}/main"} <= set(report.scopes)
    store.abandon()
    machine.kill("first")
    again = SimulatedStore.open(machine, "second")
    assert again.read("global.working") == {"n1": 1, "n2": 2}
    assert [row.seq for row in again.journal.rows_of(CWD, 0)]


def test_a_scope_that_was_left_out_keeps_its_rows_in_memory_and_others_can_be_opened() -> None:
    # A report that counted them as written would make this process wait for ever for files that nobody writes.
    machine = SimulatedMachine()
    store = SimulatedStore.open(machine)
    patch(store, [], 1)
    store.checkpoint()
    patch(store, [], 2)
    journal = store.journal

    def before(name: str, path: str) -> None:
        if name == "append" and path.endswith("-wal"):  # the list is about to be stored
            machine.disk.before_operation = None
            write_theirs(machine)

    machine.disk.before_operation = before
    report = store.checkpoint()
    assert report.through == journal.view(0).checkpointed_through < store.memory.head
    assert [row.seq for row in store.memory.pending] == [store.memory.head]
    store.session("another")
