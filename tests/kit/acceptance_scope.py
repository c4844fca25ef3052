"""What the specification holds: statements that must have a test now, those of later capabilities, those replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kit.acceptance_of_agents import OF_AGENTS
from kit.acceptance_of_resources import OF_RESOURCES


def numbered(prefix: str, *parts: int | tuple[int, int]) -> list[str]:
    """``numbered("P", (1, 3), 5)`` is P1, P2, P3 and P5."""
    found: list[str] = []
    for part in parts:
        first, last = part if isinstance(part, tuple) else (part, part)
        found += [f"{prefix}{number}" for number in range(first, last + 1)]
    return found


def _store(*sections: tuple[str, Iterable[int]]) -> list[str]:
    return [f"store {section}.{number}" for section, numbers in sections for number in numbers]


def _host(*sections: tuple[str, Iterable[int]]) -> list[str]:
    return [f"host {section}.{number}" for section, numbers in sections for number in numbers]


def _all(last: int, *, but: tuple[int, ...] = ()) -> list[int]:
    return [number for number in range(1, last + 1) if number not in but]


REQUIRED: Mapping[str, list[str]] = {
    "Beyond the original": numbered("Ours-", (1, 20)),
    "The journal": numbered("J", (1, 12)),
    "Store: layout and formats": [
        *_store(("1.1", _all(4)), ("1.2", _all(5)), ("1.3", _all(5)), ("1.4", _all(9)), ("1.5", _all(8))),
        *_store(("1.6", _all(2)), ("1.7", _all(5))),
        "store 1.8",
        *_store(("1.9", _all(6, but=(3,)))),
        "store 1.10",
    ],
    "Store: locks and publication": _store(("2.1", _all(11)), ("2.2", _all(10, but=(8,))), ("2.3", (1, 3, 4))),
    "Store: transactions and history": _store(
        ("3.1", _all(14, but=(13,))),
        ("3.2", _all(6, but=(5,))),
        ("3.3", _all(4)),
        ("3.4", _all(6, but=(2,))),
        ("3.5", (1, 2)),
        ("3.6", _all(12)),
    ),
    "Store: recovery, modes, sessions, configuration": [
        "store 4.1",
        *_store(("4.1", _all(4)), ("6.1", _all(4)), ("6.2", (1, 2, 3, 4, 6, 7)), ("7", _all(7))),
    ],
    "Store: acceptance cases": numbered("case store ", (1, 84), (128, 131)),
    "Tools": numbered("T", (1, 65)),
    "Context projection": [*numbered("C", (1, 34)), "C3a"],
    "Patch language": numbered("P", (1, 25)),
    "Intent ownership": numbered("O", (1, 12)),
    "Artifact cards": numbered("A", (1, 10)),
    "Agent memory: acceptance cases": numbered("case agent ", (1, 73), (75, 147), (159, 160)),
    "Runs, modes, status": numbered("L", (1, 22), (24, 39)),
    "Runs and modes of the store": [
        *_store(("3.4", (2,)), ("3.5", (3,)), ("4.2", _all(5)), ("4.3", _all(7)), ("6.2", (5,)), ("6.3", _all(4))),
        *_store(("6.4", _all(7)), ("6.5", _all(5)), ("6.6", _all(2))),
        *numbered("case store ", (85, 102), (123, 127), (132, 134)),
    ],
    "Benchmarks of the agent": numbered("B", (1, 15)),
    **OF_AGENTS,
    **OF_RESOURCES,
    "Session trees": [
        *_host(("1.1", _all(5)), ("1.2", _all(3)), ("1.3", _all(4)), ("1.4", _all(7)), ("1.5", _all(7))),
        *_host(("1.6", _all(4)), ("1.7", _all(7)), ("1.8", _all(10)), ("1.9", _all(5)), ("2.1", _all(7))),
        *_host(("2.2", _all(6)), ("2.3", _all(4)), ("2.4", _all(7)), ("2.5", _all(10)), ("2.6", _all(7))),
        *numbered("case host ", (1, 94)),
    ],
    "Models": ["host 3.2.5", "host 5.7.6"],
}

NOT_TAKEN_OVER: Mapping[str, str] = {
    "store 1.3.6": "Invalid UTF-8 is refused (Ours-5)",
    "store 1.9.3": "No reference of a cohort is computed: changes are staged on the journal's head (Ours-3)",
    "store 2.1.12": "A synchronous lock for library callers is not provided",
    "store 2.2.8": "The journal is durable (Ours-1, Ours-2)",
    "store 2.3.2": "Readers without a lock see whole states (Ours-18)",
    "store 3.2.5": "There is no precomputed replay: calls are staged again on the present state (Ours-3)",
}

LATER: tuple[tuple[str, str], ...] = (
    ("store 3.1.13, A11-A38, case agent 74, case agent 148-158", "sources, compilation, Skills"),
    ("L23", "commands of a host"),
    ("store 4.2.6", "backups beside fences"),
    ("store 5.1.1-5.1.3, store 5.2.1-5.2.11, store 5.3.1-5.3.3, store 5.4.1-5.4.9, case store 103-122", "Git backup"),
)
