"""The report of a run: its figures, what ran them, and both as a table for people."""

from __future__ import annotations

import os
from collections.abc import Sequence

import attrs

from .figures import Figure, Json
from .peer import PEER_VERSION
from .provenance import dependency_versions, python_version, source_hash, system
from .scale import Scale


@attrs.frozen
class Report:
    """Everything that one run says."""

    versions: Json
    scale: Scale
    figures: Sequence[Figure]
    started_ms: int
    duration_s: float

    @property
    def missed(self) -> list[str]:
        """The measures whose reach was missed."""
        return [figure.measure for figure in self.figures if figure.is_reached is False]

    def to_json(self) -> Json:
        """The whole report."""
        return {
            "started_ms": self.started_ms,
            "duration_s": round(self.duration_s, 1),
            "versions": self.versions,
            "scale": attrs.asdict(self.scale),
            "figures": [figure.to_json() for figure in self.figures],
        }

    def to_markdown(self) -> str:
        """The table, and the versions below it."""
        head = (
            "measure",
            "ours",
            "peer",
            "ours / peer",
            "reach",
            "",
            "peer directly",
            "ours / it",
            "reach",
            "",
            "note",
        )
        lines = [_row(head), _row(["---"] * len(head)), *(_row(_cells(figure)) for figure in self.figures), ""]
        lines += [f"{name}: {value}" + "  " for name, value in self.versions.items()]
        return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(figure: Figure) -> list[str]:
    return [
        figure.measure,
        f"{_number(figure.ours)} {figure.unit}",
        _number(figure.peer),
        _ratio(figure.ratio),
        figure.reach.text if figure.reach else "",
        _verdict(figure.is_reached),
        _number(figure.directly),
        _ratio(figure.directly_ratio),
        figure.directly_reach.text if figure.directly_reach else "",
        _verdict(figure.is_directly_reached),
        figure.note,
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"


def _verdict(reached: bool | None) -> str:
    return "" if reached is None else "reached" if reached else "missed"


def versions(file_system: str) -> Json:
    """What ran: our source, its dependencies, the peer, the machine."""
    return {
        "source": source_hash(),
        **dependency_versions(),
        "sqlite": PEER_VERSION,
        "python": python_version(),
        "system": system(),
        "processors": os.cpu_count(),
        "file_system": file_system,
        "load_average": round(os.getloadavg()[0], 2),
    }
