"""Benchmarks: this program and a peer, in one run on one disk, and studies (``strataflow bench``).

The door is light: what measures is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .studies import STUDIES, run_study

if TYPE_CHECKING:
    from .report import Report

__all__ = ["MEASURES", "STUDIES", "run_benchmark", "run_study"]

MEASURES = (
    "single",
    "large",
    "sessions",
    "processes",
    "transactions",
    "contention",
    "saturated",
    "written",
    "reads",
    "opening",
    "memory",
    "lag",
    "watching",
    "prompts",
    "simulated",
    "streams",
    "asyncio",
    "agents",
    "traces",
)


def run_benchmark(
    folder: str, names: Sequence[str] = MEASURES, *, quick: bool = False, progress: Callable[[int, str], None]
) -> Report:
    """Measure.

    Args:
      folder: where the stores lie; its disk is what is measured. Everything written there is removed again.
      names: which measures, of ``MEASURES``.
      quick: fewer and shorter rounds, for a first look.
      progress: called before each step with the number of finished measures and a few words.

    Blocking: it runs event loops and processes of its own, so it must not be called from inside one.
    """
    from .run import run_measures
    from .scale import FULL, QUICK

    return run_measures(names, QUICK if quick else FULL, folder, progress)
