"""``simulate``: one run of one world, from its seed to its report."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import attrs
import trio
import trio._core._run as trio_run

from ...store import Durability
from .agents import SimulatedAgents
from .checker import check as check_history
from .ending import Check, look_at_everything
from .fault_plan import FaultPlan
from .history import Violation
from .patience import DEADLINE_S, Impulse
from .process import Process
from .report import Report
from .script import scripted
from .seams import hash_of
from .session_files import SessionFiles
from .world import Workload, World


def simulate(
    workload: Workload | None = None,
    *,
    seed: int = 0,
    faults: FaultPlan | None = None,
    processes: int = 3,
    writers: int = 8,
    steps: int = 200,
    check: Check | None = None,
    durability: Durability = "power",
    session_files: int = 0,
    agents: int = 0,
) -> Report:
    """Run one simulated world and judge it.

    Args:
      workload: ``async def workload(process)``, run by every process, and again after it was killed, until it returns;
        default: a script of ``writers`` clients that make ``steps`` calls in all.
      seed: everything follows from it: equal seeds give equal runs.
      faults: which faults are injected; default ``FaultPlan.default()``.
      processes: how many share the store.
      writers, steps: for the script; a workload of your own finds its writers' numbers in ``process.writers``.
      check: ``async def check(process)``, called in the end, when no fault strikes any more; an AssertionError is a
        violation.
      durability: of the store; at ``"process"`` a power cut may take the newest changes away.
      session_files: so many clients besides append to session trees, each in ``steps / session_files`` steps.
      agents: so many agents with sessions talk besides, each until some prompts are answered.

    Nothing of it touches a disk, a clock or another process. It runs an event loop of its own, so it can not be called
    from inside one.
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("simulate runs an event loop of its own: call it outside of one, or in a worker thread")
    from trio.testing import MockClock  # here: it loads half of a test library

    plan = FaultPlan.default() if faults is None else faults
    chosen = workload or scripted(seed, writers, steps)
    clock = MockClock(autojump_threshold=0)
    started_s = time.perf_counter()
    worlds: list[World] = []
    virtual: list[float] = []

    async def run() -> None:
        world = World(seed, plan, clock.current_time, processes, writers, durability)
        worlds.append(world)
        share = steps // max(1, session_files)
        trees = SessionFiles(seed, session_files, share, durability, lambda: len(world.history.cuts))
        talks = _agents(world, agents)
        with _hearing(world), trio.move_on_after(DEADLINE_S) as limit:
            await world.live(talks.beside(trees.beside(chosen, processes), processes), limit)
            await look_at_everything(world, _all_checks(talks.judge, check))
            for text in trees.judge(world.grounds.machine):
                world.found("session-file", text)
        if limit.cancelled_caught and not world.troubles.violations:
            world.found("stuck", f"the run had not ended after {DEADLINE_S:g} s of virtual time")
        virtual.append(trio.current_time())

    with deterministic(seed), _interruptible():
        trio.run(
            run,
            clock=clock,
            instruments=[Impulse(clock, lambda: worlds[0].recorder.last_moment_s if worlds else 0.0)],
            restrict_keyboard_interrupt_to_checkpoints=True,
        )
    real_s = time.perf_counter() - started_s
    report = _report(worlds[0], steps, is_scripted=workload is None, virtual_s=virtual[0], real_s=real_s)
    return attrs.evolve(report, session_files=session_files, agents=agents)


def _agents(world: World, count: int) -> SimulatedAgents:
    def is_alone() -> bool:
        return not world.injector.counts.get("foreign")

    found = partial(world.found, "agent")
    return SimulatedAgents(world.seed, count, world.durability, found, lambda: len(world.history.cuts), is_alone)


def _all_checks(first: Check, second: Check | None) -> Check:
    async def both(process: Process) -> None:
        await first(process)
        if second is not None:
            await second(process)

    return both


def _report(world: World, steps: int, *, is_scripted: bool, virtual_s: float, real_s: float) -> Report:
    violations: list[Violation] = [*world.troubles.violations] or check_history(world.history)
    return Report(
        seed=world.seed,
        processes=world.processes,
        writers=world.writers,
        steps_wanted=steps,
        plan=world.plan,
        trace_hash=world.trace.digest(),
        steps=len(world.history.calls),
        virtual_s=virtual_s,
        real_s=real_s,
        faults=dict(sorted(world.injector.counts.items())),
        struck=tuple(world.injector.struck),
        recoveries=world.recoveries,
        crash_states=len(world.grounds.crash_states),
        violations=tuple(violations),
        history=world.history,
        trace=world.trace.text(),
        durability=world.durability,
        is_scripted=is_scripted,
    )


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Let trio's scheduler draw from the seed for the body. It has no public switch for this."""
    before = trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_run._r = random.Random(hash_of(seed, 1))
    try:
        yield
    finally:
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r = before  # type: ignore[misc]


@contextmanager
def _interruptible() -> Iterator[None]:
    """A KeyboardInterrupt comes out as itself, and not in the groups of the nurseries that it has ended.

    It must go to the world: inside of a process it would be one more thing that befalls it.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from None
        raise


class _Ear(logging.Handler):
    """Hears of actors that failed, as their supervisor tells the log."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """One actor failed and begins again, or not."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._world.note_failed_actor(error)


@contextmanager
def _hearing(world: World) -> Iterator[None]:
    """Actors that fail and begin again are what is simulated: that is told to the world instead of to the log."""
    log = logging.getLogger("strataflow.actors.supervisor")
    ear, before = _Ear(world), (log.propagate, log.level, log.disabled)
    log.addHandler(ear)
    log.propagate, log.disabled = False, False
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(ear)
        log.propagate, log.disabled = before[0], before[2]
        log.setLevel(before[1])
