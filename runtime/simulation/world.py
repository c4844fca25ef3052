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
import random
from collections.abc import Awaitable, Callable
from typing import final, get_args

import attrs
import trio

from ...store import Durability, StrataflowError
from ..joining import Seams
from ..opening import open_runtime_in
from ..reports import CloseReport
from .clock import SeededClock
from .fault_plan import Fault, FaultPlan
from .foreign_writer import find_victim, write_foreign
from .freezing import ACTING
from .history import Call, History, Life, Violation
from .injector import Injector
from .inodes import FailedSync
from .machinery import WORLD, Machinery
from .patience import watch
from .process import Process
from .recorder import CLIENT, Recorder
from .seams import SimulatedMachine, hash_of
from .standing import is_recorded, pi_lock_fault
from .threads import SimulatedThreads
from .trace import Trace
from .troubles import HARMLESS, Troubles
from .world_threads import WorldThreads

Workload = Callable[[Process], Awaitable[None]]

# How long a process takes to be started again, in virtual seconds.
_RESTART_S = (0.001, 0.05, 1.0)
# How much of the past a world keeps; None: as most stores do.
_HISTORY_LIMITS = (None, None, None, None, 0, 1, 3, 100)
# How many of all worlds share their store with Pi.
_SHARED_SHARE = 0.125
# To how few rows of a scope the journal is pruned; None: to so many as always, which small worlds never write.
_KEEP_NEWEST = (None, None, None, 0, 1, 4)


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
    trace: Trace = attrs.field(init=False)
    injector: Injector = attrs.field(init=False)
    recorder: Recorder = attrs.field(init=False)
    grounds: Machinery = attrs.field(init=False)
    troubles: Troubles = attrs.field(factory=Troubles, init=False)
    recoveries: int = attrs.field(default=0, init=False)
    _history_limit: int | None = attrs.field(init=False)
    _is_shared: bool = attrs.field(init=False)
    _returned: set[int] = attrs.field(factory=set, init=False)
    _lives: dict[int, int] = attrs.field(factory=dict, init=False)
    _notes: dict[int, dict[str, object]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.trace = Trace(self.time_s)
        # A store of level "process" promises nothing for what was not synced, which a failed sync takes along.
        is_lenient = self.durability == "process"
        self.injector = Injector(
            self.plan, self.seed, lambda fault: self.trace.note(WORLD, f"fault {fault}"), spares_log=is_lenient
        )
        self.recorder = Recorder(self.trace, self._on_call, self._on_refusal, self.time_s)
        self._history_limit = random.Random(hash_of(self.seed, 6)).choice(_HISTORY_LIMITS)
        self._is_shared = random.Random(hash_of(self.seed, 9)).random() < _SHARED_SHARE
        machine = SimulatedMachine(hash_of(self.seed))
        machine.disk.failed_sync = random.Random(hash_of(self.seed, 5)).choice(get_args(FailedSync))
        keep_newest = random.Random(hash_of(self.seed, 8)).choice(_KEEP_NEWEST)
        self.grounds = Machinery(machine, self.trace, self.injector, self.recorder, keep_newest)

    @property
    def history(self) -> History:
        """What clients saw."""
        return self.recorder.history

    def found(self, rule: str, message: str) -> None:
        """A violation that needs no checker."""
        self.troubles.add(Violation(rule, message, ()))

    # -- calls --------------------------------------------------------------------------------------------------

    def _on_call(self, call: Call, client: trio.CancelScope | None) -> None:
        self.injector.draw()
        machine = self.grounds.machine

        def suits(fault: Fault) -> bool:
            if fault.kind == "foreign":
                return find_victim(machine, fault.detail) is not None
            return fault.kind != "cancel" or client is not None

        fault = self.injector.take("call", suits)
        if fault is None:
            return
        if fault.kind == "cancel":
            assert client is not None
            self.grounds.beside(_cancel, client, int(fault.detail))
        elif fault.kind == "stop":
            passes, _, which = fault.detail.partition(":")
            running = [*self.grounds.living.values()]
            process = running[int(which or 0) % len(running)]
            self.grounds.beside(_cancel, process.program, int(passes))
        elif fault.kind == "jump":
            for clock in self.grounds.clocks:
                clock.jump_wall(int(fault.detail))
        else:
            write_foreign(machine, self.recorder, fault.detail)

    def _on_refusal(self, call: Call, error: StrataflowError) -> None:
        self.troubles.note_refusal(call, error, self.injector.counts)

    def note_failed_actor(self, error: BaseException) -> None:
        """An actor failed, in the process that acts now."""
        if ACTING.get() in self.grounds.living:
            self.troubles.note_failed_actor(ACTING.get(), error)

    # -- lives --------------------------------------------------------------------------------------------------

    async def live(self, workload: Workload, limit: trio.CancelScope) -> None:
        """Let all processes work until their workloads have returned, through every power cut.

        What hangs too long is a violation, and cancels ``limit``.
        """
        grounds = self.grounds
        async with trio.open_nursery() as grounds.nursery:
            grounds.beside(self._watch, limit)
            while len(self._returned) < self.processes and not self.troubles.are_fatal:
                async with trio.open_nursery() as slots:
                    for number in range(self.processes):
                        if number not in self._returned:
                            slots.start_soon(self._slot, number, workload)
                if grounds.is_dark:
                    grounds.power_on()
                    self.history.may_lose_tail |= self.durability == "process"
            grounds.calm()  # W3
            grounds.nursery.cancel_scope.cancel()

    async def _watch(self, limit: trio.CancelScope) -> None:
        pending, living = self.recorder.pending.values(), self.grounds.living.values()
        await watch(pending, living, lambda text: self.found("stuck", text), limit)

    async def _slot(self, number: int, workload: Workload) -> None:
        chance = random.Random(hash_of(self.seed, number, self._lives.get(number, 0), 7))
        while not self.grounds.is_dark and not self.troubles.are_fatal:
            if await self.one_life(number, workload):
                self._returned.add(number)
                return
            if not self.grounds.is_dark:
                self.recoveries += 1
                await trio.sleep(chance.choice(_RESTART_S))
        self.recoveries += self.grounds.is_dark

    async def one_life(self, number: int, workload: Workload) -> bool:
        """One life of a process. Whether its workload returned and the store was closed in good order."""
        life = self._lives[number] = self._lives.get(number, 0) + 1
        process = Process(
            number=number,
            life=life,
            writers=tuple(range(number, self.writers, self.processes)),
            random=random.Random(hash_of(self.seed, number, life)),
            notes=self._notes.setdefault(number, {}),
            sources=self.grounds.machine.sources,
            recorder=self.recorder,
        )
        self.grounds.begin(process, Life(process.name, self.recorder.moment_s(), level=self.durability))
        ended: list[bool] = []
        async with trio.open_nursery() as nursery:
            context = contextvars.copy_context()
            context.run(ACTING.set, process.name)
            context.run(nursery.start_soon, self._run, process, workload, ended)
        is_done = ended == [True] and not process.is_gone
        self.grounds.forget(process)
        return is_done

    async def _run(self, process: Process, workload: Workload, ended: list[bool]) -> None:
        try:
            with process.scope:
                seams, shared = self._seams(process), self._is_shared
                with process.program:
                    async with open_runtime_in(seams, self.durability, self._history_limit, shared) as runtime:
                        self.trace.note(process.name, "open")
                        process.attach(runtime)
                        self._look_at_pi_lock(process, None)
                        try:
                            await _work(process, workload)
                            ended.append(True)
                        finally:
                            process.detach()
                if not process.is_gone:
                    await self._look_at_leaving(process)
                    self.trace.note(process.name, "closed")
        except BaseException as error:
            # What a dead process still says is no news (W2); everything else is judged, and raised as a violation.
            if not process.is_gone:
                self.trace.note(process.name, f"failed {type(error).__name__}")
                self.troubles.note_error(process.name, error, self.injector.counts)
            ended.clear()

    async def _look_at_leaving(self, process: Process) -> None:
        """A process has closed the store, or was asked to end before it had quite opened it."""
        calm, machine = self.injector.counts.keys() <= HARMLESS, self.grounds.machine
        if calm and is_recorded(machine, machine.table.running[process.name]):
            self.found("unclean-close", f"{process.name} has ended, and is still among those who have the store open")
        if process.has_opened:
            report = await process.unrecorded.aclose()
            self.troubles.note_closing(process.name, report, calm=calm)
            self._look_at_pi_lock(process, report)

    def _look_at_pi_lock(self, process: Process, report: CloseReport | None) -> None:
        """A process has opened the store, or left it with this report."""
        if self._is_shared:
            return
        users = [other.name for other in self.grounds.living.values() if not other.is_opening_or_closing]
        fault = pi_lock_fault(self.grounds.machine, users, report)
        if fault is not None:
            self.found("pi-let-in", f"{process.name} has {'left' if report else 'opened the store'}: {fault}")

    def _seams(self, process: Process) -> Seams:
        grounds = self.grounds
        seams = grounds.machine.seams(process.name)
        inner, clock = seams.threads, seams.clock
        assert isinstance(inner, SimulatedThreads)
        assert isinstance(clock, SeededClock)
        clock = attrs.evolve(clock, time_s=self.time_s)  # calls that halt have no event loop to ask
        grounds.clocks.append(clock)
        return attrs.evolve(seams, threads=WorldThreads(inner, process, self.injector, grounds.bell), clock=clock)


async def _work(process: Process, workload: Workload) -> None:
    """The workload, begun again when a cancelled call has taken it along."""
    while not process.is_gone:
        with trio.CancelScope() as scope:
            CLIENT.set(scope)
            await workload(process)
        if not scope.cancelled_caught:
            return


async def _cancel(client: trio.CancelScope, passes: int) -> None:
    for _ in range(passes):
        await trio.lowlevel.cancel_shielded_checkpoint()
    client.cancel()
