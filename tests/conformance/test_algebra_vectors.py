"""Goal: every memory scenario holds for the algebra alone. Method: run its steps in the harness without files."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from kit.pure_harness import PureHarness
from kit.vectors import SCENARIOS, compared, expected_of
from strataflow.store.algebra import StrataflowError, same


def test_all_vector_files_were_found_here() -> None:
    assert len(SCENARIOS) > 200


def outcome(harness: PureHarness, step: dict[str, Any]) -> Any:
    """The answer of one step, or the code of its refusal."""
    place = {name: step[name] for name in ("cwd", "session") if name in step}
    try:
        answer = harness.call(step["call"], step["arguments"], **place)
    except StrataflowError as error:
        return error.code
    return compared(step, answer)


@holds("P1-P25", "O1-O12", "T33-T64", "Ours-5", "Ours-6", "Ours-7", "Ours-16")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_holds_for_the_pure_algebra(scenario: dict[str, Any]) -> None:
    harness = PureHarness(limit=scenario.get("history_limit", 7))
    for number, step in enumerate(scenario["steps"]):
        answer = outcome(harness, step)
        assert same(answer, expected_of(scenario, number)), (number, step, answer)
