"""The acceptance cases of a host that compaction and resources hold."""

from __future__ import annotations

from collections.abc import Mapping


def host_cases(first: int, last: int) -> list[str]:
    """``host_cases(95, 97)`` is AC-095, AC-096 and AC-097."""
    return [f"AC-{number:03}" for number in range(first, last + 1)]


OF_RESOURCES: Mapping[str, list[str]] = {
    "Host: compaction and branch summary": host_cases(95, 131),
    "Host: context files, skills, templates": host_cases(132, 154),
}
