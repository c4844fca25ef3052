"""What ``doctor`` found, as data, as JSON and as words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import attrs

from .algebra import Json, StrataflowError, shown

Severity = Literal["ok", "note", "warning", "problem"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_CODES = {
    "E_CORRUPT": "damaged",
    "E_UNSUPPORTED": "unsupported",
    "E_DISK": "unreadable",
    "E_BUSY": "busy",
    "E_CONFIG": "settings",
}


@attrs.frozen
class Finding:
    """One thing worth saying.

    Attributes:
      severity: "ok" is as it should be, "note" is worth knowing, "warning" should be looked at, "problem" keeps
        something from being read or written.
      code: a stable name such as ``"foreign-bytes"``.
      path: where.
      words: what, and what to do about it.
    """

    severity: Severity
    code: str
    path: str
    words: str

    def line(self) -> str:
        """The finding for a terminal."""
        return f"{self.severity:7}  {self.code:20}  {self.path}: {self.words}"


@attrs.frozen
class Diagnosis:
    """Everything found in one store."""

    root: str
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there is neither a warning nor a problem."""
        return all(finding.severity in ("ok", "note") for finding in self.findings)

    def of(self, code: str) -> list[Finding]:
        """The findings with this code."""
        return [finding for finding in self.findings if finding.code == code]

    def to_json(self) -> Json:
        """The diagnosis as one object."""
        return {"store": self.root, "clean": self.is_clean, "findings": [attrs.asdict(item) for item in self.findings]}

    def lines(self) -> list[str]:
        """The diagnosis for a person, the worst first."""
        ordered = sorted(self.findings, key=lambda finding: -SEVERITIES.index(finding.severity))
        return [*(finding.line() for finding in ordered), self._verdict()]

    def _verdict(self) -> str:
        if self.is_clean:
            return f"{self.root}: nothing is wrong"
        counts = {name: sum(item.severity == name for item in self.findings) for name in ("problem", "warning")}
        said = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items() if count]
        return f"{self.root}: {' and '.join(said)}"


def refusal(error: StrataflowError, path: str) -> Finding:
    """An error of ours as a problem."""
    code = _CODES.get(error.code, error.code.lower())
    severity: Severity = "warning" if error.code == "E_BUSY" else "problem"
    path = str(error.data.get("path", path))
    # The line begins with the path already.
    return Finding(severity, code, path, error.message.removeprefix(f"{path}: ").removeprefix(f"{shown(path)} "))


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def summary(code: str, path: str, words: str, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, or one that says that all is well."""
    found = list(findings)
    if any(item.severity in ("warning", "problem") for item in found):
        return found
    return [Finding("ok", code, path, words), *found]
