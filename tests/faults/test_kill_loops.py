"""For real: processes with SQLite and kernel locks, killed with SIGKILL at any moment, four at a time.

Goal: every acknowledged patch is there, whole, in all three scopes; revisions count the accepted changes; no file, lock
or participant stays; nobody has to repair anything in between.

Method: see ``kit/kill_loop.py``. The seed decides who dies after how many acknowledgements, the kernel all else.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kit import kill_loop, killed_histories
from kit.holds import holds
from strataflow.runtime.simulation.checker import check_files

SECONDS = 12
HISTORY_SECONDS = 6


@pytest.mark.slow
@holds("Ours-1", "J2", "J8")
def test_no_acknowledged_patch_is_lost_when_processes_are_killed_all_the_time(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    command = [sys.executable, str(kill_loop.__file__), str(tmp_path / "state-flow"), str(seed), str(SECONDS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    print(f"kill loop with seed {seed}: {ended.stdout.strip()}")
    assert ended.returncode == 0, f"seed {seed}\n{ended.stdout}\n{ended.stderr}"
    counts = json.loads(ended.stdout.strip().splitlines()[-1])
    assert counts["writers"] > 10, counts
    assert counts["acknowledged"] > 50, counts


@pytest.mark.slow
def test_no_acknowledged_entry_of_a_shared_session_is_lost_when_its_processes_are_killed(tmp_path: Path) -> None:
    """Four runtimes at a time on one session file; within a run each entry follows the run's own last one."""
    seed = random.SystemRandom().randrange(2**32)
    program = Path(kill_loop.__file__).with_name("tree_kill_loop.py")
    command = [sys.executable, str(program), str(tmp_path / "agent"), str(seed), str(HISTORY_SECONDS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    print(f"tree kill loop with seed {seed}: {ended.stdout.strip()}")
    assert ended.returncode == 0, f"seed {seed}\n{ended.stdout}\n{ended.stderr}"
    counts = json.loads(ended.stdout.strip().splitlines()[-1])
    assert counts["writers"] > 10, counts
    assert counts["acknowledged"] > 50, counts


@pytest.mark.slow
@holds("Ours-1", "Ours-12", "Ours-18")
def test_what_processes_saw_that_were_stopped_and_killed_has_one_order_that_explains_it(tmp_path: Path) -> None:
    """Eight writers at a time, SIGKILL and SIGSTOP; their notes go through the checker of simulated worlds."""
    seed = random.SystemRandom().randrange(2**32)
    command = [sys.executable, str(killed_histories.__file__), str(tmp_path / "store"), str(seed), str(HISTORY_SECONDS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    print(f"killed histories with seed {seed}: {ended.stdout.strip()}")
    assert ended.returncode == 0, f"seed {seed}\n{ended.stdout}\n{ended.stderr}"
    counts = json.loads(ended.stdout.strip().splitlines()[-1])
    assert counts["kills"] > 10, counts
    assert counts["stops"] > 0, counts
    assert counts["answered"] > 100, counts
    # The same notes with one value more in the end do not pass: something has been judged.
    notes = tmp_path / "notes"
    end = json.loads((notes / "end.jsonl").read_bytes())
    end["final"][0]["value"].setdefault("working", {})["ghost"] = "ghost"
    (notes / "end.jsonl").write_text(json.dumps(end) + "\n", encoding="utf-8")
    rules = {violation.rule for violation in check_files(sorted(notes.glob("*.jsonl")))}
    assert rules == {"phantom-write", "bad-file"}
