"""One study: played, and what its report says, as JSON and as tables."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import attrs

from ....store import HISTORY_LIMIT_DEFAULT
from ..provenance import (
    BENCHMARK,
    PACKAGE,
    dependency_versions,
    git_version,
    python_version,
    source_commit,
    source_hash,
    system,
)
from .bounds import Bound
from .lifecycle import Lifecycle, play_lifecycle
from .phases import Json, Phase, Progress
from .publishers import Publishers, play_publishers
from .tables import lifecycle_table, outcome_table, publishers_table, trajectory_table
from .trajectory import Trajectory, play_trajectory
from .workload import Workload

REPORT_VERSION = 3

_LIMITS = (
    "Everything is synthetic: temporary stores, a scripted model, no network.",
    "Bytes are those of the message list as compact JSON. Tool schemas and a provider's framing are left out.",
    "Nothing is said about a provider's cache, tokens, latency or quality.",
    "Counters stand for work; copies of values are not counted.",
)
_NOT_MEASURED = {
    "trajectory": ("requests of a real provider",),
    "lifecycle": ("backups with Git, which the measure `backups` has", "packaged resources", "a running Pi"),
    "publishers": ("a running Pi",),
}


@attrs.frozen
class StudyReport:
    """What one study came to.

    Attributes:
      name: of the study.
      about: what ran, and how much of it.
      entries: trajectories, lifecycles or publishers.
      bounds: byte counts and what they are held against.
      phases: of which the study consisted.
      is_unchanged: whether the sources of runtime and workload are at the end what they were.
    """

    name: str
    about: Json
    entries: Sequence[Trajectory | Lifecycle | Publishers]
    bounds: Sequence[Bound]
    phases: Sequence[Phase]
    is_unchanged: tuple[bool, bool]

    @property
    def failures(self) -> list[str]:
        """What did not come out as it should; empty if everything did."""
        found = []
        for part in self.phases:
            missed = [name for name, holds in part.checks.items() if not holds]
            held = [f"{number} {what} are still held" for what, number in part.held.items() if number]
            error = [part.error] if part.error is not None else []
            found += [f"{part.name}: {text}" for text in [*error, *missed, *held]]
        found += [f"{each.name}: {each.most} (limit {each.limit})" for each in self.bounds if not each.is_kept]
        names = ("the runtime's source", "the workload's source")
        found += [
            f"{name} has changed meanwhile" for name, same in zip(names, self.is_unchanged, strict=True) if not same
        ]
        return found

    @property
    def not_measured(self) -> list[str]:
        """What belongs to the question and was left out."""
        cases = [entry for entry in self.entries if isinstance(entry, Publishers)]
        has_git = not cases or any(case.backed is not None for case in cases)
        return [*_NOT_MEASURED[self.name], *([] if has_git else ["backups, since there is no Git"])]

    @property
    def exit_code(self) -> int:
        """0 if everything is as it should be, else 1."""
        return int(bool(self.failures))

    def to_json(self) -> Json:
        """The whole report."""
        entries = [entry.to_json() for entry in self.entries]
        compared = {}
        if self.name == "trajectory":
            # The last one was played for comparison and is held to nothing.
            compared = {"headMadeAnewAfterEachPatch": entries.pop()}
        return {
            **self.about,
            self.name: entries,
            **compared,
            "bounds": [each.to_json() for each in self.bounds],
            "phases": [part.to_json(with_times=self.name != "trajectory") for part in self.phases],
            "notMeasured": self.not_measured,
            "failures": self.failures,
            "runtimeSourceUnchanged": self.is_unchanged[0],
            "workloadSourceUnchanged": self.is_unchanged[1],
            "exitCode": self.exit_code,
        }

    def tables(self) -> str:
        """Its tables alone: what a page may show of it."""
        makers: dict[str, Any] = {
            "trajectory": trajectory_table,
            "lifecycle": lifecycle_table,
            "publishers": publishers_table,
        }
        return (
            f"{makers[self.name](self.entries)}\n{outcome_table(self.bounds)}"
            if self.bounds
            else str(makers[self.name](self.entries))
        )

    def to_markdown(self) -> str:
        """The tables, what is not measured, and what ran."""
        lines = [self.tables(), "Checked:  "]
        for part in self.phases:
            lines.append(f"{'passed' if part.is_passed else 'FAILED'}: {part.name} ({len(part.checks)} checks)  ")
        lines += ["", f"Not measured: {'; '.join(self.not_measured)}.", ""]
        shown = ("python", "platform", "sourceCommit", "runtimeSourceHash", "workloadSourceHash")
        lines += [f"{name}: {self.about[name]}  " for name in shown]
        lines += [f"{name}: {version}  " for name, version in self.about["dependencies"].items()]
        return "\n".join(lines) + "\n"

    def to_svg(self) -> str:
        """The plot of a trajectory.

        Raises:
          ValueError: for another study, which has none.
        """
        from .plot import trajectory_plot

        if self.name != "trajectory":
            raise ValueError(f"there is no plot of {self.name}: only of trajectory")
        return trajectory_plot([entry for entry in self.entries if isinstance(entry, Trajectory)])


def play(name: str, workload: Workload, folder: str, progress: Progress) -> StudyReport:
    """Play a study below ``folder``, which is made if need be; what it wrote is removed again."""
    os.makedirs(folder, exist_ok=True)
    hashes = _hashes()
    phases: list[Phase] = []
    entries: Sequence[Trajectory | Lifecycle | Publishers]
    place = os.path.realpath(tempfile.mkdtemp(prefix="study-", dir=folder))
    try:
        if name == "trajectory":
            entries, bounds = play_trajectory(place, phases, progress)
        elif name == "lifecycle":
            entries, bounds = play_lifecycle(place, workload, phases, progress)
        else:
            entries, bounds = play_publishers(place, workload, phases, progress)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    after = _hashes()
    return StudyReport(
        name, _about(workload, hashes), entries, bounds, phases, (hashes[0] == after[0], hashes[1] == after[1])
    )


def _hashes() -> tuple[str, str]:
    return source_hash(PACKAGE, without=BENCHMARK), source_hash(BENCHMARK)


def _about(workload: Workload, hashes: tuple[str, str]) -> Json:
    return {
        "version": REPORT_VERSION,
        "python": python_version(),
        "platform": system(),
        "dependencies": dict(dependency_versions()),
        "gitVersion": git_version(),
        "availableParallelism": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "sourceCommit": source_commit(),
        "runtimeSourceHash": hashes[0],
        "workloadSourceHash": hashes[1],
        "configuration": {**workload.to_json(), "historyLimit": HISTORY_LIMIT_DEFAULT},
        "limits": list(_LIMITS),
    }
