"""The memory scenarios of ``tests/conformance/memory`` and how answers are compared, whatever runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "conformance" / "memory"
SCENARIOS = [
    pytest.param({**scenario, "id": f"{file.stem}: {scenario['name']}"}, id=f"{file.stem}: {scenario['name']}")
    for file in sorted(FOLDER.glob("*.json"))
    for scenario in json.loads(file.read_text(encoding="utf-8"))
]

# Ours-16 says that a patch at the origin reads {}. This vector gives the record of a transition before the origin.
AGAINST_A_STATEMENT: dict[tuple[str, int], Any] = {("many-001", 24): {"patch": {}}}


def expected_of(scenario: dict[str, Any], number: int) -> Any:
    """The answer that a step must give, or the code of its refusal."""
    step = scenario["steps"][number]
    expected = step["expect"] if "expect" in step else step["expect_error"]
    return AGAINST_A_STATEMENT.get((scenario["name"], number), expected)


def compared(step: dict[str, Any], answer: dict[str, Any]) -> Any:
    """The part of an answer that counts: the members a step names, and hints without their wording."""
    if step["call"] != "read_state" and "expect" in step:
        return {name: answer.get(name) for name in step["expect"]}
    if "hint" in answer:
        hints = [{name: value for name, value in hint.items() if name != "message"} for hint in answer["hint"]]
        return {**answer, "hint": hints}
    return answer
