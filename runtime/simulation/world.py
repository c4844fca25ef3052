"""A world: one machine, its processes and their clients, and everything that goes wrong for them, from one seed.

    machine on --all processes have returned--> calm: faults end, everything is looked at
        |  ^
        |  +-- power returns: the next machine, with what the disk kept; every process begins its next life
        +-- power cut: nothing of any process happens any more

A process that is killed, or whose store fails, begins its next life after a moment, until its workload has returned.

Invariants:
  W1  All chance follows from the seed: that of the scheduler, of ids and clocks, of faults, of processes.
  W2  What a process does after its death changes nothing and is not recorded.
  W3  When the workloads have returned no fault strikes any more: what is wrong then, is wrong.
"""

from __future__ import annotations

import contextvars
import hashlib
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, final

import attrs
import trio

from ...store import Durability, NewRow, Row, StrataflowError
from ..joining import Seams
from ..opening import open_runtime_in
from .canonical_files import read_files
from .clock import SeededClock
from .disk import PowerCut
from .fault_plan import Fault, FaultPlan
from .foreign_writer import write_foreign
from .freezing import ACTING, Freezer
from .halting import halt_if_due, is_on_the_loop, on_the_loop
from .history import Call, History, Life, Violation
from .history import PowerCut as PowerCutMoment
from .injector import Injector
from .process import Process
from .recorder import CLIENT, Recorder
from .seams import SimulatedMachine, hash_of
from .threads import ProcessKilled, SimulatedThreads
from .trace import Trace
from .troubles import Troubles
from .world_threads import LockBell, WorldThreads

Workload = Callable[[Process], Awaitable[None]]

# The world itself, in the trace.
WORLD = "world"
# How long a process takes to be started again, in virtual seconds.
_RESTART_S = (0.001, 0.05, 1.0)


@final
@attrs.define(eq=False)
class World:
    """One run. ``live`` is to be called inside a trio run with virtual time and a seeded scheduler (see ``run``)."""

    seed: int
    plan: FaultPlan
    time_s: Callable[[], float]
    processes: int = 3
    writers: int = 8
    durability: Durability = "power"
    machine: SimulatedMachine = attrs.field(init=False)
    trace: Trace = attrs.field(init=False)
    injector: Injector = attrs.field(init=False)
    recorder: Recorder = attrs.field(init=False)
    troubles: Troubles = attrs.field(factory=Troubles, init=False)
    recoveries: int = attrs.field(default=0, init=False)
    crash_states: set[str] = attrs.field(factory=set, init=False)
    living: dict[str, Process] = attrs.field(factory=dict, init=False)
    superseding: dict[str, tuple[Any, int]] = attrs.field(factory=dict, init=False)
    _unhalted: str = attrs.field(init=False)
    _journal_folder: str = attrs.field(init=False)
    is_dark: bool = attrs.field(default=False, init=False)
    _returned: set[int] = attrs.field(factory=set, init=False)
    _lives: dict[int, int] = attrs.field(factory=dict, init=False)
    _shares: dict[int, dict[str, object]] = attrs.field(factory=dict, init=False)
    _clocks: list[SeededClock] = attrs.field(factory=list, init=False)
    _freezer: Freezer = attrs.field(factory=Freezer, init=False)
    _bell: LockBell = attrs.field(factory=LockBell, init=False)
    _cut: Fault | None = attrs.field(default=None, init=False)
    _dark_s: float = attrs.field(default=0.0, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _calm_context: contextvars.Context = attrs.field(factory=contextvars.copy_context, init=False)

    def __attrs_post_init__(self) -> None:
        self.trace = Trace(self.time_s)
        self.injector = Injector(self.plan, self.seed, lambda fault: self.trace.note(WORLD, f"fault {fault}"))
        self.recorder = Recorder(self.trace, self._on_call, self._on_refusal, self.time_s)
        self._adopt(SimulatedMachine(hash_of(self.seed)))

    @property
    def history(self) -> History:
        """What clients saw."""
        return self.recorder.history

    def found(self, rule: str, message: str) -> None:
        """A violation that needs no checker."""
        self.troubles.add(Violation(rule, message, ()))

    # -- the machine --------------------------------------------------------------------------------------------

    def _adopt(self, machine: SimulatedMachine) -> None:
        self.machine = machine
        # While somebody is in the journal nobody else can be: a call that halts there would stop the loop.
        private = f"{machine.root}/.strataflow"
        self._unhalted = f"{private}/journal.db"
        self._journal_folder = private
        machine.disk.before_operation = self._before_operation
        machine.journals.is_busy = lambda: self.injector.take("append") is not None
        machine.journals.on_superseding = self._on_superseding
        machine.locks.on_obtained = self._on_lock
        machine.locks.on_released = self._bell.ring

    def rows(self) -> Mapping[int, Row]:
        """What the journal holds, while nobody has it open."""
        return self.machine.journals.rows_on(f"{self.machine.root}/.strataflow/journal.db")

    def _on_superseding(self, scope: str, row: NewRow) -> None:
        # What won is noted by the name of its row, since nobody knows yet whether that row will last.
        assert row.lineage is not None
        found = read_files(self.machine).get(scope)
        self.superseding[row.lineage.known[0].id] = (found.value, found.revision) if found else ({}, 0)

    def _before_operation(self, name: str, path: str) -> None:
        who = ACTING.get()
        if who:
            if not (path.startswith(self._unhalted) or path == self._journal_folder):
                halt_if_due()
            process = self.living.get(who)
            if process is None:
                raise ProcessKilled  # W2
            self.trace.note(who, f"{name} {path}")
            fault = self.injector.on_operation(name)
            if fault is not None:
                self._stop(process, fault)
        else:
            self.trace.note(WORLD, f"{name} {path}")

    def _stop(self, process: Process, fault: Fault) -> None:
        if fault.kind == "kill":
            self.kill(process)
            raise ProcessKilled
        self.is_dark, self._cut, self._dark_s = True, fault, self.recorder.moment_s()
        for other in [*self.living.values()]:
            self.kill(other)
        raise PowerCut(str(fault))

    def kill(self, process: Process) -> None:
        """End a process as ``kill -9`` does."""
        if self._forget(process):
            if not self.is_dark:
                self._note_crash()
            on_the_loop(lambda: self._freezer.thaw(process.name))
            self._bell.ring()  # its waits for locks end too

    def _forget(self, process: Process) -> bool:
        """A process has ended, in one way or another: the machine frees what is left of it."""
        if self.living.pop(process.name, None) is None:
            return False
        process.end(self.machine.kill)
        lives = self.history.lives
        place = next(n for n, life in enumerate(lives) if life.process == process.name)
        lives[place] = attrs.evolve(lives[place], ended_s=self.recorder.moment_s())
        return True

    def _note_crash(self) -> None:
        digest = hashlib.sha256()
        for path, content in sorted(self.machine.disk.contents().items()):
            digest.update(path.encode() + b"\0" + content + b"\0")
        self.crash_states.add(digest.hexdigest())

    def _on_lock(self, name: str) -> None:
        process = self.living.get(name)
        if process is None or ACTING.get() != name or not is_on_the_loop():
            return
        fault = self.injector.take("lock")
        if fault is not None and not self._freezer.is_frozen(name):
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
        self._calm_context.run(self._nursery.start_soon, work, *arguments)

    # -- calls --------------------------------------------------------------------------------------------------

    def _on_call(self, call: Call, client: trio.CancelScope | None) -> None:
        self.injector.draw()
        fault = self.injector.take("call")
        if fault is None:
            return
        if fault.kind == "cancel" and client is not None:
            self.beside(self._cancel, client, int(fault.detail))
        elif fault.kind == "jump":
            for clock in self._clocks:
                clock.jump_wall(int(fault.detail))
        elif fault.kind == "foreign":
            write_foreign(self, random.Random(f"foreign {fault.detail}"))

    def _on_refusal(self, call: Call, error: StrataflowError) -> None:
        self.troubles.note_refusal(call, error, self.injector.counts)

    async def _cancel(self, client: trio.CancelScope, passes: int) -> None:
        for _ in range(passes):
            await trio.lowlevel.cancel_shielded_checkpoint()
        client.cancel()

    # -- lives --------------------------------------------------------------------------------------------------

    async def live(self, workload: Workload) -> None:
        """Let all processes work until their workloads have returned, through every power cut."""
        async with trio.open_nursery() as self._nursery:
            while len(self._returned) < self.processes and not self.troubles.are_fatal:
                async with trio.open_nursery() as slots:
                    for number in range(self.processes):
                        if number not in self._returned:
                            slots.start_soon(self._slot, number, workload)
                if self.is_dark:
                    self._power_on()
            self.injector.is_on = False  # W3
            self._nursery.cancel_scope.cancel()

    def _power_on(self) -> None:
        assert self._cut is not None
        mode, _, seed = self._cut.detail.partition(":")
        self._adopt(self.machine.after_power_cut(mode, int(seed or 0)))  # type: ignore[arg-type]
        self._note_crash()
        self.history.cuts.append(PowerCutMoment(self._dark_s, max(self.rows(), default=0)))
        self.history.may_lose_tail |= self.durability == "process"
        self.is_dark, self._cut = False, None
        self._clocks.clear()
        self.trace.note(WORLD, "power is back")

    async def _slot(self, number: int, workload: Workload) -> None:
        chance = random.Random(hash_of(self.seed, number, self._lives.get(number, 0), 7))
        while not self.is_dark and not self.troubles.are_fatal:
            if await self.one_life(number, workload):
                self._returned.add(number)
                return
            if not self.is_dark:
                self.recoveries += 1
                await trio.sleep(chance.choice(_RESTART_S))
        self.recoveries += self.is_dark

    async def one_life(self, number: int, workload: Workload) -> bool:
        """One life of a process. Whether its workload returned and the store was closed in good order."""
        life = self._lives[number] = self._lives.get(number, 0) + 1
        process = Process(
            number=number,
            life=life,
            writers=tuple(range(number, self.writers, self.processes)),
            random=random.Random(hash_of(self.seed, number, life)),
            share=self._shares.setdefault(number, {}),
            recorder=self.recorder,
        )
        self.living[process.name] = process
        self.history.lives.append(Life(process.name, self.recorder.moment_s(), level=self.durability))
        ended: list[bool] = []
        async with trio.open_nursery() as nursery:
            context = contextvars.copy_context()
            context.run(ACTING.set, process.name)
            context.run(nursery.start_soon, self._run, process, workload, ended)
        self._forget(process)
        return ended == [True]

    async def _run(self, process: Process, workload: Workload, ended: list[bool]) -> None:
        try:
            with process.scope:
                seams = self._seams(process)
                async with open_runtime_in(seams, self.durability, None, False) as runtime:
                    self.trace.note(process.name, "open")
                    process.attach(runtime)
                    await _work(process, workload)
                if not process.is_gone:
                    self.troubles.note_closing(process.name, await runtime.aclose(), calm=not self.injector.counts)
                    self.trace.note(process.name, "closed")
                    ended.append(True)
        except BaseException as error:
            # What a dead process still says is no news (W2); everything else is judged.
            if not process.is_gone:
                self.trace.note(process.name, f"failed {type(error).__name__}")
                self.troubles.note_error(process.name, error, self.injector.counts)

    def _seams(self, process: Process) -> Seams:
        seams = self.machine.seams(process.name)
        inner, clock = seams.threads, seams.clock
        assert isinstance(inner, SimulatedThreads)
        assert isinstance(clock, SeededClock)
        clock = attrs.evolve(clock, time_s=self.time_s)  # calls that halt have no event loop to ask
        self._clocks.append(clock)
        threads = WorldThreads(inner, process, self.injector, self._bell)
        return attrs.evolve(seams, threads=threads, clock=clock)


async def _work(process: Process, workload: Workload) -> None:
    """The workload, begun again when a cancelled call has taken it along."""
    while not process.is_gone:
        with trio.CancelScope() as scope:
            CLIENT.set(scope)
            await workload(process)
        if not scope.cancelled_caught:
            return
