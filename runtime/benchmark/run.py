"""One run: every measure, or those asked for, on one disk, one after the other."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from ...store import RealDisk
from . import (
    agents,
    asyncio_hosts,
    busy,
    commits,
    prompts,
    reading,
    resources,
    simulating,
    streams,
    traces,
    transactions,
    watching,
)
from .figures import Figure
from .rates import Progress
from .report import Report, versions
from .scale import Scale

Measure = Callable[[str, Scale, Progress], list[Figure]]

MEASURES: Mapping[str, Measure] = {
    "single": commits.single,
    "large": commits.large,
    "sessions": commits.sessions,
    "processes": commits.processes,
    "transactions": transactions.transactions,
    "contention": transactions.contention,
    "saturated": busy.saturated,
    "written": resources.written,
    "reads": reading.reads,
    "opening": reading.opening,
    "memory": resources.memory,
    "lag": busy.lag,
    "watching": watching.watching,
    "prompts": prompts.prompts,
    "simulated": simulating.simulated,
    "streams": streams.streams,
    "asyncio": asyncio_hosts.asyncio_hosts,
    "agents": agents.agents,
    "traces": traces.traces,
}


def run_measures(names: Sequence[str], scale: Scale, folder: str, progress: Callable[[int, str], None]) -> Report:
    """Run the named measures below ``folder``, which is made if need be; what they wrote is removed again."""
    os.makedirs(folder, exist_ok=True)
    started_ms, before = time.time_ns() // 1_000_000, time.perf_counter()
    figures: list[Figure] = []
    place = tempfile.mkdtemp(prefix="run-", dir=folder)
    try:
        known = versions(RealDisk().file_system_type(os.path.realpath(place)))
        for done, name in enumerate(names):
            each = os.path.join(place, name)
            os.mkdir(each)
            figures += MEASURES[name](each, scale, functools.partial(_say, progress, done, name))
            shutil.rmtree(each, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Report(known, scale, figures, started_ms, time.perf_counter() - before)


def _say(progress: Callable[[int, str], None], done: int, name: str, text: str) -> None:
    progress(done, f"{name}: {text}")
