"""Phases of a study: times of their own, counters, what was checked, how they ended, what they left held.

A phase that raises is a failed phase with its error's text; the study goes on with the next, and its report says so.
Correctness comes first: the times of a phase that did not come out right are not told.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

Json = dict[str, Any]
Progress = Callable[[str], None]


@attrs.define(eq=False)
class Phase:
    """One phase. ``held``: how many more threads, descriptors and children there are after it than before."""

    name: str
    times_ms: dict[str, float] = attrs.field(factory=dict)
    counters: dict[str, int] = attrs.field(factory=dict)
    checks: dict[str, bool] = attrs.field(factory=dict)
    error: str | None = None
    held: dict[str, int] = attrs.field(factory=dict)

    @property
    def is_passed(self) -> bool:
        """Whether it ended, everything that was checked holds, and nothing is held any more."""
        return self.error is None and bool(self.checks) and all(self.checks.values()) and not any(self.held.values())

    def check(self, name: str, holds: bool) -> None:
        """Note whether something holds; what is checked several times must hold each time."""
        self.checks[name] = self.checks.get(name, True) and holds

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + number

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of a block to a step of this phase."""
        before = time.perf_counter()
        yield
        self.times_ms[name] = self.times_ms.get(name, 0.0) + (time.perf_counter() - before) * 1e3

    def to_json(self, *, with_times: bool = True) -> Json:
        """For the report."""
        times = {name: round(value, 3) for name, value in self.times_ms.items()} if self.is_passed else None
        return {
            "name": self.name,
            "status": "passed" if self.is_passed else "failed",
            "error": self.error,
            **({"timesMs": times} if with_times else {}),
            "counters": self.counters,
            "checks": self.checks,
            "heldAfterwards": self.held,
        }


@contextmanager
def phase(phases: list[Phase], name: str) -> Iterator[Phase]:
    """Run a block as a phase that joins ``phases``."""
    before, current = _held(), Phase(name)
    phases.append(current)
    try:
        yield current
    except Exception as error:
        current.error = f"{type(error).__name__}: {error}"
    after = _held()
    current.held = {what: max(0, after[what] - number) for what, number in before.items() if what in after}


def _held() -> dict[str, int]:
    """Threads, descriptors and children of this process, as far as the system tells.

    Trio keeps idle daemon threads for a while; they hold nothing.
    """
    found = {"threads": sum(not thread.daemon for thread in threading.enumerate())}
    if os.path.isdir("/proc/self/fd"):
        found["descriptors"] = len(os.listdir("/proc/self/fd"))
    if os.path.isdir("/proc/self/task"):
        found["children"] = sum(map(_children_of, os.listdir("/proc/self/task")))
    return found


def _children_of(thread: str) -> int:
    try:
        with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
            return len(file.read().split())
    except OSError:
        return 0  # a thread that has just ended, or a kernel that does not tell


def distribution(values: list[float]) -> Json | None:
    """Count, least, middle, 95th percentile and most, by nearest rank; None of nothing."""
    if not values:
        return None
    ranked = sorted(values)

    def at(percent: int) -> float:
        return round(ranked[max(0, -(-percent * len(ranked) // 100) - 1)], 3)

    return {"count": len(ranked), "min": at(0), "p50": at(50), "p95": at(95), "max": at(100)}
