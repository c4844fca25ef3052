"""Stories whose every change of the disk is a moment at which everything may stop. See ``crash_states``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kit.crash_ledger import Author, Json, Ledger
from kit.crash_states import private_files
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Durability

CWD = "--project--"
THEIRS = {"working": {"theirs": 1}}


@contextmanager
def unseen(machine: SimulatedMachine) -> Iterator[None]:
    """What happens in the block is not photographed."""
    hook, machine.disk.before_operation = machine.disk.before_operation, None
    try:
        yield
    finally:
        machine.disk.before_operation = hook


def everywhere(number: int, size: int = 0) -> dict[str, Json]:
    """One call over all three scopes."""
    patch = {"working": {f"n{number}": {"text": "x" * size, "n": number}, "last": number}}
    return dict.fromkeys(("global_", "cwd", "session"), patch)


def first_open(machine: SimulatedMachine, ledger: Ledger, level: Durability = "power") -> None:
    author = Author.join(machine, ledger, "first", level)
    author.patch(request_id="r1", **everywhere(1, 700))
    author.patch(request_id="r2", session={"working": {"n1": None, "list": [1, [2]]}})
    author.respond("done")
    author.close()


def first_open_at_level_process(machine: SimulatedMachine, ledger: Ledger) -> None:
    first_open(machine, ledger, "process")


def checkpoints(machine: SimulatedMachine, ledger: Ledger, level: Durability = "power") -> None:
    author = Author.join(machine, ledger, "first", level)
    other = author.open_session("other", "/elsewhere")
    author.patch(request_id="r1", **everywhere(1, 300))
    author.checkpoint()
    author.patch(other, global_={"working": {"n1": None}}, session={"working": {"ü": "é" * 600}})
    author.patch(**everywhere(2))
    author.checkpoint()
    author.checkpoint()
    author.patch(cwd={"working": {"last": 3}})
    author.close()


def checkpoints_at_level_process(machine: SimulatedMachine, ledger: Ledger) -> None:
    checkpoints(machine, ledger, "process")


def two_processes(machine: SimulatedMachine, ledger: Ledger) -> None:
    """One at each level: what the one that waits for syncs answers makes all that came before it certain too."""
    first = Author.join(machine, ledger, "first", "process")
    second = Author.join(machine, ledger, "second", "power", first.open_session("other"))
    first.patch(**everywhere(1))
    first.patch(**everywhere(2))
    second.patch(**everywhere(3))
    first.patch(cwd={"working": {"n1": None}})
    second.store.follow()
    second.checkpoint()
    first.patch(**everywhere(4))
    second.close()
    first.patch(**everywhere(5))
    first.close()


def batches(machine: SimulatedMachine, ledger: Ledger) -> None:
    """Calls of several sessions in one append."""
    author = Author.join(machine, ledger, "first")
    main, other = author.store.default, author.open_session("other")
    for number in (1, 2):
        patch = {"working": {f"n{number}": "x" * 500}}
        author.batch((main, {"global": patch, "session": patch}), (other, {"cwd": patch, "session": patch}))
    author.close()


def sessions(machine: SimulatedMachine, ledger: Ledger) -> None:
    """Sessions come into being, change their modes, and are opened by other processes."""
    author = Author.join(machine, ledger, "first")
    author.store.set_mode("active")
    for name, cwd in (("b", "/project"), ("c", "/elsewhere")):
        address = author.open_session(name, cwd)
        author.store.set_mode("active", address)
        author.patch(address, session={"working": {"of": name}})
        author.store.set_mode("passive", address)
    author.close()
    later = Author.join(machine, ledger, "later")
    found = later.open_session("c", "/elsewhere")
    later.patch(found, session={"working": {"again": 1}})
    later.respond("an answer", found)
    later.close()


def pruning(machine: SimulatedMachine, ledger: Ledger) -> None:
    """More than a hundred rows of a scope: the oldest leave the journal with the checkpoint."""
    author = Author.join(machine, ledger, "first")
    with unseen(machine):
        for number in range(103):
            author.patch(request_id=f"r{number}" if number < 3 else None, global_={"working": {"last": number}})
    author.checkpoint()
    author.patch(global_={"working": {"last": -1}}, session={"working": {"a": 1}})
    author.checkpoint()
    assert author.store.journal.view(0).pruned_through > 0
    author.close()


def journal_removed(machine: SimulatedMachine, ledger: Ledger) -> None:
    """Between two processes somebody takes the private folder away: the files are the whole truth (J9)."""
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    author.close()
    with unseen(machine):
        for path in [*private_files(machine)]:
            machine.disk.unlink(path)
        machine.disk.sync_folder(f"{machine.root}/.strataflow")
    author = Author.join(machine, ledger, "second")
    author.patch(**everywhere(2))
    author.close()


def journal_of_yesterday(machine: SimulatedMachine, ledger: Ledger) -> None:
    """Between two processes somebody puts an older journal in place: what it knows of the files is out of date."""
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    author.close()
    with unseen(machine):
        old = {path: machine.disk.read(path) or b"" for path in private_files(machine) if "/journal.db" in path}
    author = Author.join(machine, ledger, "second")
    author.patch(**everywhere(2))
    author.close()
    with unseen(machine):
        for path, content in old.items():
            machine.disk.unlink(path)
            machine.disk.plant(path, "file", content)
    author = Author.join(machine, ledger, "third")
    author.patch(**everywhere(3))
    author.close()


def foreign_bytes(machine: SimulatedMachine, ledger: Ledger) -> None:
    """A writer that does not know the journal rewrites a scope: its bytes win, ours are kept aside (J6)."""
    author = Author.join(machine, ledger, "first")
    author.patch(**everywhere(1))
    author.checkpoint()
    author.patch(**everywhere(2))
    author.patch(**everywhere(3))
    write_theirs(machine)
    ledger.replace(CWD, THEIRS, 40)
    assert author.store.checkpoint().superseded == (CWD,)
    author.store.follow()
    author.store.session()
    author.patch(**everywhere(4))
    author.close()
    assert kept_aside(machine) == {"n2", "n3", "last"}


def write_theirs(machine: SimulatedMachine) -> None:
    """What Pi would leave: a checkpoint without patches, at a boundary far ahead. Durable at once."""
    boundary = {"id": "pi", "parent": None, "position": 1000}
    temporal = {"checkpoint": boundary, "patches": [], "revision": 40}
    meta = {"version": 2, "artifacts": {}, "temporal": temporal, "owner": {"cwd": "/project"}}
    files = {"checkpoint.json": as_line(THEIRS), "patches.jsonl": b"", "meta.json": as_line(meta)}
    with unseen(machine):
        for name, data in files.items():
            machine.disk.unlink(f"{machine.root}/{CWD}/{name}")
            machine.disk.plant(f"{machine.root}/{CWD}/{name}", "file", data)


def as_line(value: Any) -> bytes:
    """A canonical file of one line."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def kept_aside(machine: SimulatedMachine) -> set[str]:
    """The members of the directory's working memory that lie in ``superseded/``."""
    files = {path: data for path, data in machine.disk.contents().items() if "/superseded/" in path}
    parts = [json.loads(line)["parts"].get("cwd") for data in files.values() for line in data.splitlines()]
    return {name for part in parts if part for name in (part["record"] or {}).get("working", {})}


# What each story gives at least: in all, at both levels and with nested crashes.
STORIES = (
    first_open,
    first_open_at_level_process,
    checkpoints,
    checkpoints_at_level_process,
    two_processes,
    batches,
    sessions,
    pruning,
    journal_removed,
    journal_of_yesterday,
    foreign_bytes,
)
