"""Stores on a simulated machine, without actors, and a loop that stops them before every change of the disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from kit.stores import FIRST_TIME_MS, OpenedStore
from strataflow.runtime.simulation import PowerCut
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.simulation.threads import ProcessKilled
from strataflow.store import (
    OPEN_LOCK,
    TURN_LOCK,
    Durability,
    MemoryStore,
    SessionAddress,
    WaitForPi,
    finish_prepared,
    join,
    make_folders,
    note_ground,
)
from strataflow.store.scope_files import DecodedScope, decode_scope, read_scope

# A stop before an operation that only looks is a stop before the next one that changes something.
LOOKS = ("read", "stat", "list", "file_system_type")


@attrs.define(eq=False)
class SimulatedStore(OpenedStore):
    """As ``OpenedStore``. Its times and ids depend on nothing but its own calls."""

    count: Any = attrs.field(factory=lambda: itertools.count(1), init=False)

    @classmethod
    def open(  # type: ignore[override]
        cls,
        machine: SimulatedMachine,
        writer: str = "first",
        *,
        level: Durability = "power",
        session_id: str = "main",
        cwd: str = "/project",
        history_limit: int = 7,
        share_with_pi: bool = False,
        finishes: bool = True,
    ) -> SimulatedStore:
        """``finishes``: the checkpoint lock is free, so that what is prepared is finished first."""
        ground = machine.ground(writer)
        make_folders(ground)
        layout = ground.layout
        ground.locks.open(layout.private(TURN_LOCK)).close()
        journal = machine.journals.open(writer, layout, level)
        gate = ground.locks.open(layout.private(OPEN_LOCK))
        assert gate.try_acquire()
        note_ground(ground, journal)
        member = join(ground, journal, writer, share_with_pi=share_with_pi)
        gate.close()
        assert not isinstance(member, WaitForPi), member
        if finishes:
            finish_prepared(ground.disk, layout, journal)
        self = cls(ground, writer, level, journal, member, MemoryStore(writer, history_limit))
        self.default = self.session(session_id, cwd)
        return self

    def time_ms(self) -> int:
        return FIRST_TIME_MS + next(self.count)

    def new_id(self) -> str:
        return f"{self.writer}:{next(self.count)}"

    def decoded(self, address: SessionAddress | None = None) -> dict[str, DecodedScope | None]:
        """What the canonical files of a session's three scopes say, read strictly."""
        address = address or self.default
        found = {}
        for name, scope in address.scopes():
            raw = read_scope(self.ground.disk, self.ground.layout, scope)
            found[name] = decode_scope(
                self.ground.layout,
                raw,
                cwd=None if name == "global" else address.cwd,
                session_id=address.session_id if name == "session" else None,
            )
        return found

    def files_hold_the_present(self, address: SessionAddress | None = None) -> None:
        """Assert that the canonical files hold exactly what is in memory: value, revision and history."""
        address = address or self.default
        for (name, scope), found in zip(address.scopes(), self.decoded(address).values(), strict=True):
            state = self.memory.image(scope).state
            assert (found is None) == (state is None), name
            if found is not None and state is not None:
                assert (found.state.value, found.state.revision) == (state.value, state.revision), name
                assert found.state.newest == state.newest, name


Notes = list[Any]
Story = Callable[[SimulatedMachine, Notes], None]


def every_stop(story: Story, kill: bool = False) -> Iterator[tuple[int, SimulatedMachine, Notes]]:
    """Run ``story`` on fresh machines and stop each before another change of the disk, until one ends untouched.

    Yields the number of the change, the stopped machine and what the story had noted. ``kill`` ends the process and
    leaves the machine on.
    """
    for stop in itertools.count(1):
        machine = SimulatedMachine(stop)
        notes: Notes = []
        seen = itertools.count(1)

        def before(
            name: str, _path: str, machine: SimulatedMachine = machine, seen: Any = seen, stop: int = stop
        ) -> None:
            if name not in LOOKS and next(seen) == stop:
                machine.disk.before_operation = None
                if kill:
                    for process in list(machine.table.running):
                        machine.kill(process)
                    raise ProcessKilled
                raise PowerCut(f"before change {stop}")

        machine.disk.before_operation = before
        try:
            story(machine, notes)
        except (PowerCut, ProcessKilled):
            yield stop, machine, notes
            continue
        return
