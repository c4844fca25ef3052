"""What a simulated run has to tell."""

from __future__ import annotations

from typing import final

import attrs

from ...store import Durability, Json
from .checker import told
from .fault_plan import Fault, FaultPlan
from .history import History, Violation


@final
@attrs.frozen(eq=False, repr=False)
class Report:
    """The report of one run.

    Attributes:
      seed, processes, writers, steps_wanted, plan, durability, session_files, agents: what was asked for.
      is_scripted: whether the workload was that of ``strataflow simulate``; one's own has as many calls as it makes.
      trace_hash: SHA-256 over the trace, in hexadecimal digits. Equal seeds and equal code give equal traces.
      steps: calls that clients made.
      virtual_s: how long the run took by its own clock; ``real_s`` by the real one.
      faults: how many struck, by kind; ``struck`` are all of them as exact places.
      recoveries: how often a process began another life.
      crash_states: how many different disks processes were killed over or machines found after a power cut.
      violations: promises that were not kept; empty when all is well.
      history: what the clients saw.
      trace: every operation, fault, call and answer, one line each.
    """

    seed: int
    processes: int
    writers: int
    steps_wanted: int
    plan: FaultPlan
    trace_hash: str
    steps: int
    virtual_s: float
    real_s: float
    faults: dict[str, int]
    struck: tuple[Fault, ...]
    recoveries: int
    crash_states: int
    violations: tuple[Violation, ...]
    history: History
    trace: str
    durability: Durability = "power"
    is_scripted: bool = True
    session_files: int = 0
    agents: int = 0

    def __repr__(self) -> str:
        return f"<Report of seed {self.seed}: {'well' if self.is_ok else self.violations[0].rule}>"

    @property
    def is_ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    @property
    def steps_per_s(self) -> float:
        """Simulated calls for each second of real time."""
        return self.steps / self.real_s if self.real_s else 0.0

    @property
    def command(self) -> str:
        """What repeats this run: a command line, or with a workload of one's own the call."""
        level = self.durability
        if self.is_scripted:
            size = f"--writers {self.writers} --processes {self.processes} --steps {self.steps_wanted}"
            end = "" if level == "power" else f" --durability {level}"
            end += f" --session-files {self.session_files}" if self.session_files else ""
            end += f" --agents {self.agents}" if self.agents else ""
            return f"strataflow simulate --seed {self.seed} {size} --faults '{self.plan}'{end}"
        size = f"processes={self.processes}, writers={self.writers}"
        end = "" if level == "power" else f", durability={level!r}"
        end += f", session_files={self.session_files}" if self.session_files else ""
        end += f", agents={self.agents}" if self.agents else ""
        return f"simulate(…, seed={self.seed}, faults=FaultPlan.parse({str(self.plan)!r}), {size}{end})"

    def require_ok(self) -> Report:
        """Itself, if every promise was kept.

        Raises:
          AssertionError: with all violations, readable, and how to repeat the run.
        """
        if self.violations:
            raise AssertionError(self.to_text())
        return self

    def to_json(self) -> Json:
        """For programs; without history and trace."""
        return {
            "seed": self.seed,
            "processes": self.processes,
            "writers": self.writers,
            "faults_plan": str(self.plan),
            "trace_hash": self.trace_hash,
            "steps": self.steps,
            "steps_per_s": round(self.steps_per_s, 1),
            "virtual_s": round(self.virtual_s, 6),
            "real_s": round(self.real_s, 6),
            "faults": self.faults,
            "struck": [str(fault) for fault in self.struck],
            "recoveries": self.recoveries,
            "crash_states": self.crash_states,
            "violations": [attrs.asdict(violation) for violation in self.violations],
        }

    def to_text(self) -> str:
        """For people: some lines."""
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())) or "none"
        writers = f" of {self.writers} writers" if self.is_scripted else ""
        processes = f"{self.processes} process{'es' if self.processes > 1 else ''}"
        lines = [
            f"seed {self.seed}: {self.steps} calls{writers} in {processes}, {self.virtual_s:.3f} s of virtual time, "
            f"{self.steps_per_s:.0f} calls a second",
            f"faults: {faults}; lives begun again: {self.recoveries}; states after a crash: {self.crash_states}",
            f"trace {self.trace_hash}",
        ]
        for violation in self.violations:
            lines.append(f"VIOLATION {told(violation, self.history)}")
        if self.violations:
            lines.append(f"repeat: {self.command}")
        return "\n".join(lines)
