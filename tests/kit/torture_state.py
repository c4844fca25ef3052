"""What torture remembers from one run to the next, for each commit, and how it is published.

The file ``.torture/state.json`` says for every commit which piece of each part comes next, how much was done and what
failed; ``.torture/summary.json`` tells of the commit of the last run. Both are written whole and renamed into place.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any, Self

import attrs

from kit.source_tree import ROOT
from kit.torture_parts import PARTS, Failure, Outcome

FOLDER = ROOT / ".torture"


@attrs.define
class PartState:
    """How far one part has come.

    ``next`` is the number of its first piece that nobody has begun; ``left`` are pieces that were begun when a run was
    interrupted.
    """

    next: int = 0
    left: list[str] = attrs.field(factory=list)
    count: int = 0
    pieces: int = 0
    seconds: float = 0.0
    figures: dict[str, Any] = attrs.field(factory=dict)
    failures: list[Failure] = attrs.field(factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more piece is done."""
        self.count += outcome.count
        self.pieces += 1
        self.seconds += outcome.seconds
        self.failures += outcome.failures
        for name, value in outcome.figures.items():
            # What is counted in every piece is summed; what a single piece tells stays as it says it.
            is_sum = type(value) is int and type(self.figures.get(name)) is int
            self.figures[name] = self.figures[name] + value if is_sum else value


@attrs.define
class State:
    """All parts, for one commit."""

    commit: str
    parts: dict[str, PartState] = attrs.field(factory=lambda: {name: PartState() for name in PARTS})

    @classmethod
    def load(cls, commit: str, folder: Path = FOLDER) -> Self:
        """What is known of a commit; nothing if there is no file."""
        document = _read(folder / "state.json").get(commit, {})
        state = cls(commit)
        for name, found in document.items():
            if name in state.parts:
                failures = [Failure(**failure) for failure in found.pop("failures")]
                state.parts[name] = PartState(**found, failures=failures)
        return state

    def save(self, folder: Path = FOLDER) -> None:
        """Write the state of this commit, beside that of others, and the summary."""
        folder.mkdir(exist_ok=True)
        parts = {name: attrs.asdict(part) for name, part in self.parts.items()}
        _write(folder / "state.json", {**_read(folder / "state.json"), self.commit: parts})
        _write(folder / "summary.json", self.summary())

    @property
    def failures(self) -> list[Failure]:
        """Everything that was wrong on this commit."""
        return [failure for part in self.parts.values() for failure in part.failures]

    def summary(self) -> dict[str, Any]:
        """The figures, for programs."""
        return {
            "commit": self.commit,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "parts": {
                name: {
                    **attrs.asdict(part),
                    "unit": PARTS[name].unit,
                    "goal": PARTS[name].goal,
                    "is_reached": part.count >= PARTS[name].goal,
                    "seconds": round(part.seconds, 1),
                }
                for name, part in self.parts.items()
            },
        }

    def table(self) -> str:
        """The figures, for a page."""
        lines = [
            f"Commit `{self.commit}`, Python {platform.python_version()}.",
            "",
            "| part | done | goal | time in its processes | each second | failures |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for name, part in self.parts.items():
            known = PARTS[name]
            rate = part.count / part.seconds if part.seconds else 0.0
            lines.append(
                f"| {name} | {part.count:,} {known.unit} | {known.goal:,} | {part.seconds / 60:.1f} min | {rate:.1f} | "
                f"{len(part.failures)} |"
            )
        return "\n".join(lines)


def present_commit() -> str:
    """The commit of the tree, marked if something was changed since; ``"unknown"`` outside of a repository."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        return commit + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _write(path: Path, document: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(document, indent=1))
    os.replace(new, path)
