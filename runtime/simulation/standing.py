"""What must be so on the disk of a store, whatever the clients saw: looked at by the world itself.

Pi is kept out while anybody of ours has the store open, and let in by the last one only when the canonical files have
everything (membership P1, P2). What gave way to foreign bytes is kept aside (M1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...store import ProcessIdentity
from ..reports import CloseReport
from .seams import SimulatedMachine


def pi_lock_fault(machine: SimulatedMachine, users: list[str], report: CloseReport | None) -> str | None:
    """What is wrong with the lock towards Pi; ``users`` have the store open, ``report`` is of who has just left it."""
    contents = machine.disk.contents()
    if f"{machine.root}/.state-flow-publication.lock" in contents:
        return None
    if users:
        return f"Pi is let in although it is open in {', '.join(users)}"
    state = machine.journals.state_in(contents.get(f"{machine.root}/.strataflow/journal.db-wal", b""))
    rows = [row.seq for row in state.rows_after(state.fact("checkpointed_through")) if row.touches()]
    if report is not None and report.was_last and (rows or state.prepared):
        return f"Pi is let in although rows {rows} are not in the canonical files"
    return None


def is_recorded(machine: SimulatedMachine, process: ProcessIdentity) -> bool:
    """Whether the journal names a process among those who have the store open."""
    log = machine.disk.contents().get(f"{machine.root}/.strataflow/journal.db-wal", b"")
    return any(member.process == process for member in machine.journals.state_in(log).participants)


def not_kept(machine: SimulatedMachine) -> Iterator[str]:
    """Parts of rows that gave way to foreign bytes and were not copied to ``superseded/``."""
    folder = f"{machine.root}/.strataflow/superseded/"
    contents = machine.disk.contents()
    files = (contents[path] for path in contents if path.startswith(folder))
    kept = {(line["seq"], line["scope"]) for content in files for line in _whole_lines(content)}
    state = machine.journals.state_in(contents.get(f"{machine.root}/.strataflow/journal.db-wal", b""))
    for seq, row in sorted(state.rows.items()):
        address = row.content.address
        for name in sorted(row.superseded):
            if address is not None and (seq, address.scope(name)) not in kept:
                yield f"row {seq} gave way to foreign bytes in {address.scope(name) or 'global'} and was not kept aside"


def _whole_lines(content: bytes) -> Iterator[Any]:
    """The lines of a file, but for those that a power cut has torn: nothing rested on it before it was synced."""
    for line in content.splitlines():
        with suppress(ValueError):
            yield json.loads(line)
