"""Goal: every memory scenario holds through ``strataflow tools``. Method: a real process for each scenario.

Starting a process is most of the time, so that as many run at once as there are processors. A scenario of one session
is sent as a whole; one of several is sent step by step, since requests of different sessions have no order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kit.vectors import SCENARIOS, compared, expected_of
from strataflow.store.algebra import same

TIMEOUT_S = 60


def request_line(number: int, step: dict[str, Any]) -> bytes:
    """A step as a line of the protocol."""
    members = {name: step[name] for name in ("call", "arguments", "session", "cwd") if name in step}
    return json.dumps({"id": number, **members}).encode() + b"\n"


def run_scenario(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of a scenario's steps, in their order."""
    lines = [request_line(number, step) for number, step in enumerate(scenario["steps"])]
    places = {(step.get("cwd"), step.get("session")) for step in scenario["steps"]}
    options = ["--cwd", "/project", "--mode", "active", "--durability", "process"]
    if "history_limit" in scenario:
        options += ["--history-limit", str(scenario["history_limit"])]
    with tempfile.TemporaryDirectory(prefix="strataflow-vectors-") as folder:
        command = [sys.executable, "-W", "error", "-m", "strataflow", "tools", "--agent-dir", folder, *options]
        # A copy of the environment: pytest changes the process's own for each test, and a child that is just being
        # started by another thread would find it moved away (EFAULT).
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            answers = []
            if len(places) > 1:
                for line in lines:
                    process.stdin.write(line)
                    process.stdin.flush()
                    answers.append(process.stdout.readline())
                lines = []
            output, _ = process.communicate(b"".join(lines), timeout=TIMEOUT_S)
    assert process.returncode == 0
    decoded = [json.loads(answer) for answer in answers + output.splitlines()]
    assert [answer["id"] for answer in decoded] == list(range(len(scenario["steps"])))
    return decoded


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[list[dict[str, Any]]]]]:
    """The selected scenarios, all on their way."""
    selected = {param.values[0]["id"]: param.values[0] for param in SCENARIOS}
    wanted = [
        item.callspec.id
        for item in request.session.items
        if item.module is request.module and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(run_scenario, selected[name]) for name in wanted}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_holds_for_the_tool_host(
    scenario: dict[str, Any], running: dict[str, Future[list[dict[str, Any]]]]
) -> None:
    answers = running[scenario["id"]].result(TIMEOUT_S * 3)
    for number, (step, answer) in enumerate(zip(scenario["steps"], answers, strict=True)):
        found = compared(step, answer["result"]) if answer["ok"] else answer["error"]["code"]
        assert same(found, expected_of(scenario, number)), (number, step, answer)
