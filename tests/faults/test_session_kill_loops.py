"""For real: processes that append to one session file at once, some of them killed with SIGKILL at any moment.

Goal: every acknowledged entry is in the file once, its parent too, forks are whole; nobody repairs anything in between.

Method: see ``kit/session_kill_loop.py``. The seed decides who dies after how many acknowledgements, the kernel else.
``STRATAFLOW_SESSION_SECONDS`` lets the writers that nobody kills go on for that long.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit import session_kill_loop

SECONDS = 5
TOGETHER_SECONDS = int(os.environ.get("STRATAFLOW_SESSION_SECONDS", "4"))


def run(folder: Path, seconds: int, writers: int, kills: int) -> dict[str, Any]:
    seed = random.SystemRandom().randrange(2**32)
    given = map(str, (folder, seed, seconds, writers, kills))
    command = [sys.executable, str(session_kill_loop.__file__), *given]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds * 6 + 60, env=environment
    )
    print(f"{command[1:]}: {ended.stdout.strip()}")
    assert ended.returncode == 0, f"seed {seed}\n{ended.stdout}\n{ended.stderr}"
    counts: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return counts


@pytest.mark.slow
def test_no_acknowledged_entry_is_lost_when_writers_are_killed_all_the_time(tmp_path: Path) -> None:
    counts = run(tmp_path / "sessions", SECONDS, 4, 1)
    assert counts["writers"] > 10, counts
    assert counts["acknowledged"] > 100, counts
    assert counts["visible_forks"] >= counts["forks"] > 0, counts
    assert counts["compactions"] > 0, counts


@pytest.mark.slow
def test_two_processes_on_one_file_write_every_entry_once(tmp_path: Path) -> None:
    counts = run(tmp_path / "sessions", TOGETHER_SECONDS, 2, 0)
    assert counts["writers"] == 2, counts
    assert counts["found"] == counts["acknowledged"] + 2, counts
