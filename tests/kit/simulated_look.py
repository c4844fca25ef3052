"""A simulated journal as ``doctor`` looks at it: nothing is opened, locked or changed (J10)."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from strataflow.runtime.simulation.journal_log import State, newest_line
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Diagnosis, JournalView, Row, diagnose
from strataflow.store.journal_inspection import JournalFacts


@attrs.frozen
class SimulatedLook:
    """A ``JournalLook`` at one state. None: there is no journal."""

    state: State | None

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        return (self.state or State()).view(after, scopes)

    def log(self, limit: int, cwd: str | None = None, session_id: str | None = None) -> list[Row]:
        rows = (self.state or State()).rows_after(0)
        return [row for row in rows if row.content.kind == "transition"][-limit:]

    def facts(self) -> JournalFacts | None:
        state = self.state
        if state is None:
            return None
        return JournalFacts(
            problems=(),
            facts=state.facts,
            rows=tuple(state.rows_after(0)),
            unreadable=0,
            bases=state.bases,
            prepared=state.prepared,
            participants=state.participants,
            pi_locks=state.pi_locks,
        )


def examine(machine: SimulatedMachine) -> Diagnosis:
    """What ``strataflow doctor`` says of the store on this machine, which no process has open."""
    ground = machine.ground("doctor")
    log = ground.disk.read(ground.layout.private("journal.db-wal"))
    states = machine.journals._states
    state = None if log is None else states[newest_line(log, states)]
    try:
        return diagnose(ground, SimulatedLook(state), lambda device, inode: None)
    finally:
        machine.kill("doctor")
