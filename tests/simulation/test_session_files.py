"""Session files in simulated worlds: nothing acknowledged is lost, and a store of lies is found out."""

from __future__ import annotations

import pytest

from strataflow.runtime.simulation import Report, simulate
from strataflow.simulation import FaultPlan
from strataflow.store import Durability
from strataflow.store.trace import files

# What hurts files most: lines that are cut anywhere, and syncs that fail.
HARSH = FaultPlan.parse("power=0.06,short=0.1,eio-sync=0.1,kill=0.02,enospc=0.05")


def world(seed: int, durability: Durability = "power", faults: FaultPlan | None = None) -> Report:
    return simulate(seed=seed, session_files=4, steps=100, writers=3, durability=durability, faults=faults)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["power", "process"])
@pytest.mark.parametrize("seed", range(4))
def test_session_files_keep_what_was_acknowledged_whatever_goes_wrong(seed: int, durability: Durability) -> None:
    world(seed, durability).require_ok()
    world(seed, durability, HARSH).require_ok()


def test_equal_seeds_give_equal_worlds_with_session_files_too() -> None:
    first, second = world(5), world(5)
    assert first.trace_hash == second.trace_hash
    assert "/agent/sessions/s0.jsonl" in first.trace
    assert first.command.endswith(" --session-files 4")


@pytest.mark.slow
def test_an_append_that_is_acknowledged_before_its_sync_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.SessionFile.append

    def hasty(self: files.SessionFile, line: bytes) -> int:
        self.durability = "process"
        return real(self, line)

    monkeypatch.setattr(files.SessionFile, "append", hasty)
    found = [violation.rule for seed in range(6) for violation in world(seed, faults=HARSH).violations]
    assert "session-file" in found
