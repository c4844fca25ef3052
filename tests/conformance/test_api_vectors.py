"""Goal: every memory scenario holds for the Python API. Method: a real runtime for each, and ``session.call``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strataflow
from kit.holds import holds
from kit.vectors import SCENARIOS, compared, expected_of
from strataflow.store.algebra import same


@holds("P1-P25", "O1-O12", "T33-T64")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_holds_for_the_python_api(scenario: dict[str, Any], tmp_path: Path) -> None:
    limit = scenario.get("history_limit")
    sessions: dict[tuple[str, str], strataflow.Session] = {}
    async with strataflow.open_runtime(str(tmp_path), durability="process", history_limit=limit) as runtime:
        for number, step in enumerate(scenario["steps"]):
            place = (step.get("cwd", "/project"), step.get("session", "main"))
            if place not in sessions:
                sessions[place] = await runtime.open_session(*place, mode="active")
            try:
                answer: Any = compared(step, await sessions[place].call(step["call"], step["arguments"]))
            except strataflow.StrataflowError as error:
                answer = error.code
            assert same(answer, expected_of(scenario, number)), (number, step, answer)
