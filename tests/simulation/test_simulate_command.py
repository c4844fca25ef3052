"""``strataflow simulate``: what it prints, how it ends, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strataflow.runtime.simulation import WorldSetting, simulate_many
from strataflow.runtime.simulation.script import Client
from strataflow.runtime.surfaces.cli import main
from strataflow.simulation import FaultPlan

SMALL = ["--writers", "3", "--processes", "2", "--steps", "15"]


def run(*arguments: str) -> int:
    return main(["simulate", *arguments])


def test_one_run_prints_its_figures_and_ends_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seed", "7", *SMALL) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("seed 7: ")
    assert "calls of 3 writers in 2 processes" in printed
    assert "trace " in printed


def test_json_has_what_a_program_wants_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[dict[str, Any]] = []
    for _ in range(2):
        assert run("--seed", "7", *SMALL, "--json") == 0
        reports.append(json.loads(capsys.readouterr().out))
    first, second = reports
    assert first["trace_hash"] == second["trace_hash"]
    assert len(first["trace_hash"]) == 64
    assert first["seed"] == 7
    assert first["violations"] == []
    assert {"steps", "steps_per_s", "virtual_s", "faults", "struck", "recoveries", "crash_states"} <= first.keys()


def test_many_seeds_are_added_up_and_several_jobs_find_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    totals = []
    for jobs in ("1", "2"):
        assert run("--seed", "3", "--seeds", "12", "--jobs", jobs, *SMALL, "--json") == 0
        totals.append(json.loads(capsys.readouterr().out) | {"steps_per_s": 0})
    assert totals[0] == totals[1]
    assert (totals[0]["runs"], totals[0]["failed"]) == (12, [])
    assert run("--seeds", "3", *SMALL) == 0
    assert capsys.readouterr().out.startswith("3 worlds, ")


def test_reports_of_worlds_that_are_well_come_without_their_traces() -> None:
    setting = WorldSetting(FaultPlan.none(), processes=1, writers=1, steps=3)
    (report,) = simulate_many([1], setting)
    assert (report.trace, report.history.calls) == ("", [])


def test_a_violation_ends_with_one_and_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(client: Client, process: object) -> None:
        raise LookupError("planted")

    monkeypatch.setattr(Client, "_step", fails)
    assert run("--seed", "5", *SMALL, "--faults", "none") == 1
    printed = capsys.readouterr().out
    assert "VIOLATION unexpected-error" in printed
    assert "repeat: strataflow simulate --seed 5 --writers 3 --processes 2 --steps 15 --faults 'none'" in printed
    assert run("--seed", "5", "--seeds", "7", *SMALL, "--faults", "none") == 1
    printed = capsys.readouterr().out
    assert printed.count("repeat: strataflow simulate") == 7
    assert "worlds with a violation: 7" in printed


def test_the_trace_can_be_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.txt"
    assert run("--seed", "7", *SMALL, "--trace", str(path)) == 0
    lines = path.read_text().splitlines()
    assert any(" p0.1 write_new /agent/state-flow/" in line for line in lines)
    assert run("--seed", "7", *SMALL, "--trace", str(tmp_path / "no" / "folder")) == 2
    assert "can not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--faults", "kil=0.1"], "there is no fault"),
        (["--faults", "kill=7"], "from 0 to 1"),
        (["--writers", "0"], "--writers must be at least 1"),
        (["--processes", "0"], "--processes must be at least 1"),
        (["--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_what_can_not_be_simulated_is_a_usage_error(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert complaint in capsys.readouterr().err


def test_a_seed_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("--seed", "lucky")
    assert caught.value.code == 2
    assert "no whole number" in capsys.readouterr().err
