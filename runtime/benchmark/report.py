"""The report of a run: its figures, what ran them, and both as a table for people."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from hashlib import sha256

import attrs

from .figures import Figure, Json
from .peer import PEER_VERSION
from .scale import Scale

_DEPENDENCIES = ("strataflow", "trio", "attrs", "cattrs", "orjson", "trio-util")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


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
        "source": _source(),
        **{name: _version(name) for name in _DEPENDENCIES},
        "sqlite": PEER_VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "file_system": file_system,
        "load_average": round(os.getloadavg()[0], 2),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _source() -> str:
    """A hash of our modules, so that two reports can be told apart whatever the version says."""
    digest = sha256()
    for place, folders, files in sorted(os.walk(_PACKAGE, followlinks=True)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb") as file:
                    digest.update(os.path.relpath(os.path.join(place, name), _PACKAGE).encode() + file.read())
    return f"sha256:{digest.hexdigest()[:16]}"
