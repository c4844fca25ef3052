"""What the agent holds of the host's statements."""

from __future__ import annotations

from collections.abc import Mapping

# Which statements of each section of the host's page concern the agent by itself.
_SECTIONS: Mapping[str, tuple[int, ...]] = {
    "2.7": (1, 2, 3, 4, 6, 7),
    "3.2": (2, 3, 5, 7, 8, 10),
    "3.3": (1, 2),
    "5.1": (1, 2, 3),
    "5.2": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "5.3": (1, 2, 3, 4, 5),
    "5.4": (1, 2, 3),
    "5.5": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    "5.6": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "5.7": (1, 2, 3, 4, 7),
    "5.8": (1, 2, 3, 4, 5),
}

OF_AGENTS: Mapping[str, list[str]] = {
    "Host: the agent": [
        *(f"host {section}.{number}" for section, numbers in _SECTIONS.items() for number in numbers),
        *("host 9.2", "host 9.3"),
    ],
    "Host: cases of the agent": [*(f"AC-{number}" for number in range(155, 209))],
}
