"""What ``make torture`` runs: pieces of work, each with a name that repeats it. They run in worker processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from kit.crash_random import run_crash_states
from kit.crash_runtimes import RUNTIME_STORIES
from kit.crash_states import Tally, explore
from kit.crash_stories import STORIES
from strataflow.simulation import simulate

TESTS = Path(__file__).parents[1]
ALL_STORIES = (*STORIES, *RUNTIME_STORIES)
# One of so many crash states of a story has crashes at every step of its recovery too.
NESTED = 23
STORY_EVERY = 8
_LINES_MAX = 60


@attrs.frozen
class Failure:
    """Something was not as it must be."""

    part: str
    piece: str
    text: str
    repeat: str


@attrs.frozen
class Outcome:
    """What one piece of work came to: how much of what its part counts, and how long it took."""

    part: str
    piece: str
    count: int
    seconds: float
    failures: tuple[Failure, ...] = ()
    figures: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Part:
    """One kind of work.

    Attributes:
      unit: what is counted. ``goal`` is how much of it is wanted for one commit.
      pieces: the names of its pieces from the one with a number on, without end if its work has none.
      run: does one piece; raises what is wrong.
      repeat: the command that repeats a piece.
    """

    name: str
    unit: str
    goal: int
    pieces: Callable[[int], Iterator[str]]
    run: Callable[[str], tuple[int, Mapping[str, Any]]]
    repeat: Callable[[str], str]


# -- crash states -------------------------------------------------------------------------------------------------


def _crash_pieces(start: int) -> Iterator[str]:
    """Random stories by their seed; now and then one of the told stories, as long as there are any."""
    for number in itertools.count(start):
        before = min(-(-number // STORY_EVERY), len(ALL_STORIES))
        is_told = number % STORY_EVERY == 0 and before < len(ALL_STORIES)
        yield ALL_STORIES[before].__name__ if is_told else f"{number - before}"


def _run_crash(piece: str) -> tuple[int, Mapping[str, Any]]:
    for story in ALL_STORIES:
        if story.__name__ == piece:
            return explore(story, Tally(), nested=NESTED, torn=2), {}
    return run_crash_states(int(piece)), {}


def _repeat_crash(piece: str) -> str:
    if piece.isdecimal():
        return f"PYTHONPATH=tests .venv/bin/python tests/kit/crash_random.py {piece}"
    return f"PYTHONPATH=tests .venv/bin/python -m kit.torture_parts 'crash states' {piece}"


# -- worlds -------------------------------------------------------------------------------------------------------

WORLDS_AT_ONCE = 10


def _world_pieces(start: int) -> Iterator[str]:
    while True:
        yield f"{start * WORLDS_AT_ONCE}-{(start + 1) * WORLDS_AT_ONCE - 1}"
        start += 1


def _run_worlds(piece: str) -> tuple[int, Mapping[str, Any]]:
    first, _, last = piece.partition("-")
    calls = faults = 0
    bad = []
    for seed in range(int(first), int(last or first) + 1):
        report = simulate(
            seed=seed,
            processes=1 + seed % 3,
            writers=2 + seed % 4,
            steps=24 + seed % 5 * 8,
            durability="process" if seed % 7 == 0 else "power",
        )
        calls, faults = calls + report.steps, faults + sum(report.faults.values())
        if not report.is_ok:
            bad.append(report.to_text())
    if bad:
        raise AssertionError("\n\n".join(bad))
    return int(last or first) + 1 - int(first), {"calls": calls, "faults": faults}


def _repeat_worlds(piece: str) -> str:
    return f"PYTHONPATH=tests .venv/bin/python -m kit.torture_parts worlds {piece}"


# -- programs of their own ----------------------------------------------------------------------------------------

KILL_SECONDS = 60
SOAK_COMMITS = 100_000


def _one(start: int) -> Iterator[str]:
    if not start:
        yield "all"


def _program(*command: str) -> dict[str, Any]:
    """Run a program of the kit; its last line is a JSON object."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "MALLOC_ARENA_MAX": "1"}
    ended = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, check=False)
    lines = ended.stdout.strip().splitlines()
    assert ended.returncode == 0, f"exit code {ended.returncode}\n" + "\n".join([*lines, ended.stderr][-_LINES_MAX:])
    found = json.loads(lines[-1])
    assert isinstance(found, dict)
    return found


def _run_kills(_piece: str) -> tuple[int, Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        seed = int.from_bytes(os.urandom(4))
        program = str(TESTS / "kit/killed_histories.py")
        figures = _program(program, f"{folder}/store", str(seed), str(KILL_SECONDS))
    return KILL_SECONDS, {**figures, "seed": seed}


def _repeat_kills(_piece: str) -> str:
    return f"PYTHONPATH=tests .venv/bin/python tests/kit/killed_histories.py /tmp/killed/store 1 {KILL_SECONDS}"


def _run_soak(_piece: str) -> tuple[int, Mapping[str, Any]]:
    figures = _program(str(TESTS / "kit/soak.py"), "--commits", str(SOAK_COMMITS))
    return figures["commits"], figures


def _repeat_soak(_piece: str) -> str:
    return f"MALLOC_ARENA_MAX=1 PYTHONPATH=tests .venv/bin/python tests/kit/soak.py --commits {SOAK_COMMITS}"


PARTS = {
    part.name: part
    for part in (
        Part("soak", "commits", SOAK_COMMITS, _one, _run_soak, _repeat_soak),
        Part("processes", "seconds", KILL_SECONDS, _one, _run_kills, _repeat_kills),
        Part("crash states", "states", 100_000, _crash_pieces, _run_crash, _repeat_crash),
        Part("worlds", "seeds", 20_000, _world_pieces, _run_worlds, _repeat_worlds),
    )
}


def run_piece(name: str, piece: str) -> Outcome:
    """Do one piece of work. What is wrong becomes a failure that says how to repeat it."""
    part, started_s = PARTS[name], time.perf_counter()
    try:
        count, figures = part.run(piece)
    except Exception as error:
        text = "".join(traceback.format_exception(error)).strip().splitlines()
        failure = Failure(name, piece, "\n".join(text[-_LINES_MAX:]), part.repeat(piece))
        return Outcome(name, piece, 0, time.perf_counter() - started_s, (failure,))
    return Outcome(name, piece, count, time.perf_counter() - started_s, (), figures)


def main() -> int:
    """Repeat one piece: the name of its part and its own."""
    outcome = run_piece(sys.argv[1], sys.argv[2])
    for failure in outcome.failures:
        print(failure.text)
    print(f"{outcome.part} {outcome.piece}: {outcome.count} {PARTS[outcome.part].unit} in {outcome.seconds:.1f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
