"""Making a failing run smaller: fewer faults, at exact places; fewer steps, writers and processes.

A candidate is taken if it still breaks the same rule. First chance goes: the faults that struck become places. Then
faults are left out, halves before single ones, and sizes are brought down; both again as long as something helps. Sizes
change what the scheduler does, so a smaller world may need other faults: the first plan is tried with it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

import attrs

from .fault_plan import FaultPlan
from .report import Report

RUNS_MAX = 400


@final
@attrs.frozen
class Size:
    """How large a world is."""

    processes: int
    writers: int
    steps: int


Run = Callable[[Size, FaultPlan], Report]


def shrink(report: Report, run: Run, runs_max: int = RUNS_MAX, progress: Callable[[int], None] | None = None) -> Report:
    """The smallest failing run that was found; ``report`` itself if nothing smaller fails.

    Args:
      report: of a run with a violation.
      run: runs a world of this size under this plan, with the same seed and workload.
      runs_max: how many runs may be spent.
      progress: called with the number of runs spent.
    """
    assert report.violations, "there is nothing to look for: the run was well"
    return _Search(report, run, runs_max, progress or (lambda spent: None)).go()


@final
@attrs.define(eq=False)
class _Search:
    best: Report
    run: Run
    runs_max: int
    progress: Callable[[int], None]
    spent: int = 0
    rule: str = attrs.field(init=False)
    first_plan: FaultPlan = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rule = self.best.violations[0].rule
        self.first_plan = self.best.plan

    def go(self) -> Report:
        self._try(_size(self.best), FaultPlan(places=self.best.struck))
        is_smaller = True
        while is_smaller and self.spent < self.runs_max:
            is_smaller = self._fewer_faults() | self._smaller_size()
        return self.best

    def _try(self, size: Size, plan: FaultPlan) -> bool:
        if self.spent >= self.runs_max:
            return False
        self.spent += 1
        self.progress(self.spent)
        found = self.run(size, plan)
        if not any(violation.rule == self.rule for violation in found.violations):
            return False
        self.best = found
        return True

    def _fewer_faults(self) -> bool:
        """Leave out as many places as can be, in runs of halves, quarters and so on (after Zeller's ddmin)."""
        if self.best.plan.rates:
            return False
        before = len(self.best.plan.places)
        width = max(1, before // 2)
        while before:
            place = 0
            while place < len(self.best.plan.places):
                places = self.best.plan.places
                rest = places[:place] + places[place + width :]
                if not self._try(_size(self.best), FaultPlan(places=rest)):
                    place += width
            if width == 1:
                break
            width = max(1, width // 2)
        return len(self.best.plan.places) < before

    def _smaller_size(self) -> bool:
        is_smaller = False
        for size in _smaller(_size(self.best)):
            # Plans that need no chance first; the one of the beginning may find the defect in the smaller world anew.
            if self._try(size, self.best.plan) or self._try(size, self.first_plan):
                if self.best.plan.rates:
                    self._try(size, FaultPlan(places=self.best.struck))
                is_smaller = True
                break
        return is_smaller


def _size(report: Report) -> Size:
    return Size(report.processes, report.writers, report.steps_wanted)


def _smaller(size: Size) -> Iterator[Size]:
    """Sizes to try next, the boldest first."""
    for steps in (size.steps // 4, size.steps // 2, size.steps * 3 // 4, size.steps - 2, size.steps - 1):
        if 0 < steps < size.steps:
            yield attrs.evolve(size, steps=steps)
    for writers in (size.writers // 2, size.writers - 1):
        if 0 < writers < size.writers:
            yield attrs.evolve(size, writers=writers)
    if size.processes > 1:
        yield attrs.evolve(size, processes=size.processes - 1)
