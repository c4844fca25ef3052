"""How fast worlds are simulated: calls of their clients for each second of real time, their judgement included."""

from __future__ import annotations

import statistics

from ..simulation import FaultPlan, simulate
from .figures import Figure
from .rates import Progress
from .scale import Scale


def simulated(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Worlds as large as those of ``strataflow simulate``, with its faults and without any; ``folder`` stays empty."""
    figures: list[Figure] = []
    for name, plan in (("default faults", FaultPlan.default()), ("no faults", FaultPlan())):
        rates: list[float] = []
        worlds_s: list[float] = []
        for seed in range(scale.worlds):
            progress(f"world {seed + 1} of {scale.worlds}, {name}")
            report = simulate(seed=seed, faults=plan)
            rates.append(report.steps_per_s)
            worlds_s.append(report.real_s)
        size = f"{report.processes} processes, {report.writers} writers"
        note = f"{statistics.median(worlds_s) * 1e3:.0f} ms for a world"
        figures.append(Figure(f"simulated steps, {size}, {name}", "steps/s", statistics.median(rates), note=note))
    return figures
