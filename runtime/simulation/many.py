"""Many seeds, one after another or in several processes at once, each a world of its own."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import final

import attrs
import trio

from ...store import Durability, Json
from .fault_plan import FaultPlan
from .history import History, Violation
from .report import Report
from .run import simulate
from .shrink import Size

# Seeds that a process is given at once: few enough that a bar moves, many enough that handing over costs nothing.
_CHUNK = 8
# A world takes a fraction of a second, and a large one on a busy machine some seconds.
REAL_S_MAX = 300.0


@final
@attrs.frozen
class WorldSetting:
    """What the worlds of many seeds have in common."""

    faults: FaultPlan
    processes: int = 3
    writers: int = 8
    steps: int = 200
    durability: Durability = "power"
    session_files: int = 0
    agents: int = 0

    def resized(self, size: Size, plan: FaultPlan) -> WorldSetting:
        """The same with another size and plan."""
        return attrs.evolve(self, faults=plan, processes=size.processes, writers=size.writers, steps=size.steps)

    def run(self, seed: int) -> Report:
        """One world with the scripted workload."""
        return simulate(
            seed=seed,
            faults=self.faults,
            processes=self.processes,
            writers=self.writers,
            steps=self.steps,
            durability=self.durability,
            session_files=self.session_files,
            agents=self.agents,
        )

    def run_lean(self, seed: int) -> Report:
        """The same; the report of a world that is well comes without history and trace.

        One that takes minutes of real time hangs in a loop without a checkpoint, and is ended: a violation like others.
        """
        try:
            with _alarm(REAL_S_MAX):
                report = self.run(seed)
        except (_TooLongError, trio.TrioInternalError) as error:
            return self._hanging(seed, error)
        return attrs.evolve(report, history=History(), trace="") if report.is_ok else report

    def _hanging(self, seed: int, error: BaseException) -> Report:
        text = f"the world had not ended after {REAL_S_MAX:g} s of real time ({type(error).__name__})"
        return Report(
            seed=seed,
            processes=self.processes,
            writers=self.writers,
            steps_wanted=self.steps,
            plan=self.faults,
            trace_hash="",
            steps=0,
            virtual_s=0.0,
            real_s=REAL_S_MAX,
            faults={},
            struck=(),
            recoveries=0,
            crash_states=0,
            violations=(Violation("stuck", text, ()),),
            history=History(),
            trace="",
            durability=self.durability,
        )


class _TooLongError(BaseException):
    """A world has used up its real time. No handler for errors may catch it."""


@contextmanager
def _alarm(after_s: float) -> Iterator[None]:
    """Raise _TooLongError in the body when it takes too long. Only the main thread of a process can be woken so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        raise _TooLongError(f"the world had not ended after {after_s:g} s of real time")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, after_s, after_s)  # again, should it spin anew
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def simulate_many(seeds: Iterable[int], setting: WorldSetting, jobs: int = 1) -> Iterator[Report]:
    """The reports of all seeds, as they come; with several jobs in no fixed order.

    The processes are started anew and import the library by themselves; they end with the iteration.
    """
    if jobs <= 1:
        yield from map(setting.run_lean, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=_prepare) as pool:
        yield from pool.imap_unordered(setting.run_lean, seeds, chunksize=_CHUNK)


def _prepare() -> None:
    # What is loaded by now stays: the collector need not look at it after each world.
    gc.freeze()


@final
@attrs.define(eq=False)
class WorldTally:
    """Sums over many runs."""

    runs: int = 0
    steps: int = 0
    real_s: float = 0.0
    virtual_s: float = 0.0
    recoveries: int = 0
    crash_states: int = 0
    faults: Counter[str] = attrs.field(factory=Counter)
    failed: list[Report] = attrs.field(factory=list)

    def add(self, report: Report) -> None:
        """One more run."""
        self.runs += 1
        self.steps += report.steps
        self.real_s += report.real_s
        self.virtual_s += report.virtual_s
        self.recoveries += report.recoveries
        self.crash_states += report.crash_states
        self.faults.update(report.faults)
        if not report.is_ok:
            self.failed.append(report)

    def to_json(self) -> Json:
        """For programs."""
        return {
            "runs": self.runs,
            "steps": self.steps,
            "steps_per_s": round(self.steps / self.real_s, 1) if self.real_s else 0.0,
            "virtual_s": round(self.virtual_s, 3),
            "faults": dict(sorted(self.faults.items())),
            "recoveries": self.recoveries,
            "crash_states": self.crash_states,
            "failed": [report.to_json() for report in sorted(self.failed, key=lambda report: report.seed)],
        }

    def to_text(self) -> str:
        """For people: a few lines."""
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())) or "none"
        rate = self.steps / self.real_s if self.real_s else 0.0
        return (
            f"{self.runs} worlds, {self.steps} calls, {self.virtual_s:.0f} s of virtual time, "
            f"{rate:.0f} calls a second in each process\n"
            f"faults: {faults}\n"
            f"lives begun again: {self.recoveries}; states after a crash: {self.crash_states}; "
            f"worlds with a violation: {len(self.failed)}"
        )
