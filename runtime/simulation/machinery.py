"""The machine of a world and what befalls it: kills, power cuts, processes that freeze, operations that fail.

Every operation of the disk, every lock that is obtained and every append passes here on its way, and the injector says
which fault strikes there. All of it is synchronous and may happen in a call that has a thread (see ``halting``): what
it does to the event loop goes through ``on_the_loop``.
"""

from __future__ import annotations

import contextvars
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, final

import attrs
import trio

from ...store import Json, NewRow, Row
from .canonical_files import read_files
from .clock import SeededClock
from .disk import PowerCut
from .fates import CrashMode
from .fault_plan import Fault
from .freezing import ACTING, Freezer
from .halting import halt_if_due, is_on_the_loop, on_the_loop
from .history import Life, Superseded
from .history import PowerCut as PowerCutMoment
from .injector import Injector
from .process import Process
from .recorder import Recorder
from .seams import SimulatedMachine
from .threads import ProcessKilled
from .trace import Trace
from .world_threads import LockBell

# The world itself, in the trace.
WORLD = "world"


@final
@attrs.define(eq=False)
class Machinery:
    """One per world; machines come and go with the power.

    Attributes:
      living: the processes that nobody has ended, by name.
      crash_states: a digest of each disk over which a process was killed or that was found after a power cut.
      superseding: foreign values and revisions that were about to win, by the name of their row.
      is_dark: the power has failed and is not back yet.
      clocks: of all processes of this machine.
      keep_newest: to how few rows the journal is pruned; see ``SimulatedJournals``.
    """

    machine: SimulatedMachine
    trace: Trace
    injector: Injector
    recorder: Recorder
    keep_newest: int | None = None
    living: dict[str, Process] = attrs.field(factory=dict, init=False)
    crash_states: set[str] = attrs.field(factory=set, init=False)
    superseding: dict[str, tuple[Json, int]] = attrs.field(factory=dict, init=False)
    is_dark: bool = attrs.field(default=False, init=False)
    clocks: list[SeededClock] = attrs.field(factory=list, init=False)
    bell: LockBell = attrs.field(factory=LockBell, init=False)
    nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    _freezer: Freezer = attrs.field(factory=Freezer, init=False)
    _cut: str = attrs.field(default="", init=False)
    _dark_s: float = attrs.field(default=0.0, init=False)
    _calm: contextvars.Context = attrs.field(factory=contextvars.copy_context, init=False)

    def __attrs_post_init__(self) -> None:
        self._adopt(self.machine)

    def _adopt(self, machine: SimulatedMachine) -> None:
        self.machine = machine
        machine.disk.before_operation = self._before_operation
        machine.journals.is_busy = lambda: self.injector.take("append") is not None
        machine.journals.on_superseding = self._on_superseding
        machine.journals.keep_newest = self.keep_newest
        machine.journals.on_pruning = self.note_superseded
        machine.locks.on_obtained = self._on_lock
        machine.locks.on_released = self.bell.ring

    # -- looking ------------------------------------------------------------------------------------------------

    def rows(self) -> Mapping[int, Row]:
        """What the journal holds, while nobody has it open."""
        return self.machine.journals.rows_on(self._journal)

    @property
    def _journal(self) -> str:
        return f"{self.machine.root}/.strataflow/journal.db"

    def note_superseded(self, rows: Mapping[int, Row], lost_at_s: float | None = None) -> None:
        """Foreign writes that won, according to rows of the journal."""
        for seq, row in sorted(rows.items()):
            content = row.content
            if content.kind == "superseded" and content.lineage is not None:
                known = self.superseding.pop(content.lineage.known[0].id, None)
                if known is None:
                    continue  # noted before, when it was about to be pruned
                value, revision = known
                item = Superseded(seq, content.more["superseded"], value, revision, lost_at_s)
                self.recorder.history.superseded.append(item)

    def _on_superseding(self, scope: str, row: NewRow) -> None:
        # What won is noted by the name of its row, since nobody knows yet whether that row will last.
        assert row.lineage is not None
        # Of other scopes the files may be half-way through a checkpoint.
        found = read_files(self.machine, scope).get(scope)
        self.superseding[row.lineage.known[0].id] = (dict(found.value), found.revision) if found else ({}, 0)

    def _note_crash(self) -> None:
        digest = hashlib.sha256()
        for path, content in sorted(self.machine.disk.contents().items()):
            digest.update(path.encode() + b"\0" + content + b"\0")
        self.crash_states.add(digest.hexdigest())

    # -- striking -----------------------------------------------------------------------------------------------

    def _before_operation(self, name: str, path: str) -> None:
        who = ACTING.get()
        if not who:
            self.trace.note(WORLD, f"{name} {path}")
            return
        if not self.machine.journals.mutex.is_held:  # whoever halted inside would stop the loop
            halt_if_due()
        process = self.living.get(who)
        if process is None:
            raise ProcessKilled  # W2
        self.trace.note(who, f"{name} {path}")
        fault = self.injector.on_operation(name, path)
        if fault is not None:
            self._strike(process, fault)

    def _strike(self, process: Process, fault: Fault) -> None:
        if fault.kind == "kill":
            self.kill(process)
            raise ProcessKilled
        if fault.kind == "readonly":
            self.machine.disk.is_read_only = True
            on_the_loop(lambda: self.beside(self._writable, self.machine, float(fault.detail)))
            return
        self.is_dark, self._cut, self._dark_s = True, fault.detail, self.recorder.moment_s()
        for other in [*self.living.values()]:
            self.kill(other)
        raise PowerCut(str(fault))

    async def _writable(self, machine: SimulatedMachine, after_s: float) -> None:
        await trio.sleep(after_s)
        machine.disk.is_read_only = False
        self.trace.note(WORLD, "the disk can be written again")

    def _on_lock(self, name: str) -> None:
        process = self.living.get(name)
        if process is None or ACTING.get() != name or not is_on_the_loop() or self._freezer.is_frozen(name):
            return
        fault = self.injector.take("lock")
        if fault is not None:
            seconds, _, ending = fault.detail.partition(":")
            self._freezer.freeze(name)
            self.beside(self._thaw, process, float(seconds), ending == "kill")

    async def _thaw(self, process: Process, after_s: float, kills: bool) -> None:
        await trio.sleep(after_s)
        self.trace.note(WORLD, f"{'kill frozen' if kills else 'thaw'} {process.name}")
        if kills:
            self.kill(process)
        self._freezer.thaw(process.name)

    def beside(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Begin work of the world's own: no process does it, and it is not stopped with one."""
        assert self.nursery is not None
        self._calm.run(self.nursery.start_soon, work, *arguments)

    def calm(self) -> None:
        """From now on nothing goes wrong any more. (W3)"""
        self.injector.is_on = False
        self.machine.disk.is_read_only = False

    # -- beginning and ending -----------------------------------------------------------------------------------

    def begin(self, process: Process, life: Life) -> None:
        """A process is there."""
        self.living[process.name] = process
        self.recorder.history.lives.append(life)

    def kill(self, process: Process) -> None:
        """End a process as ``kill -9`` does."""
        if self.forget(process):
            if not self.is_dark:
                self._note_crash()
            on_the_loop(lambda: self._freezer.thaw(process.name))
            self.bell.ring()  # its waits for locks end too

    def forget(self, process: Process) -> bool:
        """A process has ended, in one way or another: the machine frees what is left of it. False if it had before."""
        if self.living.pop(process.name, None) is None:
            return False
        process.end(self.machine.kill)
        lives = self.recorder.history.lives
        place = next(n for n, life in enumerate(lives) if life.process == process.name)
        lives[place] = attrs.evolve(lives[place], ended_s=self.recorder.moment_s())
        return True

    def power_on(self) -> None:
        """The next machine, with what the disk kept. All processes have ended."""
        mode, _, seed = self._cut.partition(":")
        before = self.machine.journals.rows_in(self.machine.disk.contents().get(self._journal + "-wal", b""))
        self._adopt(self.machine.after_power_cut(_mode_of(mode), int(seed or 0)))
        self._note_crash()
        head = max(self.rows(), default=0)
        self.recorder.history.cuts.append(PowerCutMoment(self._dark_s, head))
        self.note_superseded({seq: row for seq, row in before.items() if seq > head}, self._dark_s)
        self.is_dark = False
        self.clocks.clear()
        self.trace.note(WORLD, "power is back")


def _mode_of(text: str) -> CrashMode:
    return "lose" if text == "lose" else "keep" if text == "keep" else "torn"
