"""Goal: every memory scenario holds for the algebra alone. Method: run its steps in the harness without files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.pure_harness import PureHarness
from strataflow.store.algebra import StrataflowError, same

FOLDER = Path(__file__).parent / "memory"
SCENARIOS = [
    pytest.param(scenario, id=f"{file.stem}: {scenario['name']}")
    for file in sorted(FOLDER.glob("*.json"))
    for scenario in json.loads(file.read_text(encoding="utf-8"))
]

# Ours-16 says that a patch at the origin reads {}. This vector gives the record of a transition before the origin.
AGAINST_A_STATEMENT: dict[tuple[str, int], Any] = {("many-001", 24): {"patch": {}}}


def without_messages(answer: Any) -> Any:
    """An answer with the wording of its hints left out."""
    if isinstance(answer, dict) and "hint" in answer:
        hints = [{name: value for name, value in hint.items() if name != "message"} for hint in answer["hint"]]
        return {**answer, "hint": hints}
    return answer


def test_all_vector_files_were_found_here() -> None:
    assert len(SCENARIOS) > 200


def outcome(harness: PureHarness, step: dict[str, Any]) -> Any:
    """The answer of one step, or the code of its refusal."""
    place = {name: step[name] for name in ("cwd", "session") if name in step}
    try:
        answer = harness.call(step["call"], step["arguments"], **place)
    except StrataflowError as error:
        return error.code
    if step["call"] != "read_state" and "expect" in step:
        return {name: answer[name] for name in step["expect"]}
    return without_messages(answer)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_holds_for_the_pure_algebra(scenario: dict[str, Any]) -> None:
    harness = PureHarness(limit=scenario.get("history_limit", 7))
    for number, step in enumerate(scenario["steps"]):
        expected = step["expect"] if "expect" in step else step["expect_error"]
        expected = AGAINST_A_STATEMENT.get((scenario["name"], number), expected)
        answer = outcome(harness, step)
        assert same(answer, expected), (number, step, answer)
