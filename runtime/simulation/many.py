"""Many seeds, one after another or in several processes at once, each a world of its own."""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import final

import attrs

from ...store import Durability, Json
from .fault_plan import FaultPlan
from .history import History
from .report import Report
from .run import simulate
from .shrink import Size

# Seeds that a process is given at once: few enough that a bar moves, many enough that handing over costs nothing.
_CHUNK = 8


@final
@attrs.frozen
class WorldSetting:
    """What the worlds of many seeds have in common."""

    faults: FaultPlan
    processes: int = 3
    writers: int = 8
    steps: int = 200
    durability: Durability = "power"

    def resized(self, size: Size, plan: FaultPlan) -> WorldSetting:
        """The same with another size and plan."""
        return WorldSetting(plan, size.processes, size.writers, size.steps, self.durability)

    def run(self, seed: int) -> Report:
        """One world with the scripted workload."""
        return simulate(
            seed=seed,
            faults=self.faults,
            processes=self.processes,
            writers=self.writers,
            steps=self.steps,
            durability=self.durability,
        )

    def run_lean(self, seed: int) -> Report:
        """The same; the report of a world that is well comes without history and trace."""
        report = self.run(seed)
        return attrs.evolve(report, history=History(), trace="") if report.is_ok else report


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
