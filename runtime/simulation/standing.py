"""What must be so on the disk of a store, whatever the clients saw: looked at by the world itself.

Pi is kept out while anybody of ours has the store open, and let in by the last one only when the canonical files have
everything (membership P1, P2). What gave way to foreign bytes is kept aside (M1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..reports import CloseReport
from .seams import SimulatedMachine


def pi_lock_fault(machine: SimulatedMachine, report: CloseReport, others: list[str]) -> str | None:
    """What is wrong with the lock towards Pi at the moment when a process has left; ``others`` have the store open."""
    contents = machine.disk.contents()
    if f"{machine.root}/.state-flow-publication.lock" in contents:
        return None
    if others:
        return f"Pi is let in although {', '.join(others)} have the store open"
    state = machine.journals.state_in(contents.get(f"{machine.root}/.strataflow/journal.db-wal", b""))
    rows = [row.seq for row in state.rows_after(state.fact("checkpointed_through")) if row.touches()]
    if report.was_last and (rows or state.prepared):
        return f"Pi is let in although rows {rows} are not in the canonical files"
    return None


def not_kept(machine: SimulatedMachine) -> Iterator[str]:
    """Parts of rows that gave way to foreign bytes and were not copied to ``superseded/``."""
    folder = f"{machine.root}/.strataflow/superseded/"
    contents = machine.disk.contents()
    lines = [json.loads(line) for path in contents if path.startswith(folder) for line in contents[path].splitlines()]
    kept = {(line["seq"], line["scope"]) for line in lines}
    state = machine.journals.state_in(contents.get(f"{machine.root}/.strataflow/journal.db-wal", b""))
    for seq, row in sorted(state.rows.items()):
        address = row.content.address
        for name in sorted(row.superseded):
            if address is not None and (seq, address.scope(name)) not in kept:
                yield f"row {seq} gave way to foreign bytes in {address.scope(name) or 'global'} and was not kept aside"
