"""``make torture`` goes on where it stopped, tells every failure with what repeats it, and a soak notices what grows.

Goal: a long run that ends in "all well" is worth what it says.

Method: torture with a pool, a clock and parts of the test's own; then a short soak of the real thing.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import attrs
import pytest

from kit import soak, torture, torture_parts
from kit.crash_stories import STORIES
from kit.holds import holds
from kit.soak import Sample, Soak
from kit.torture import Torture
from kit.torture_parts import PARTS, Failure, Outcome, run_piece
from kit.torture_state import PartState, State

SOAK_COMMITS = 3_000


def outcome(part: str, piece: str, count: int = 1) -> Outcome:
    return Outcome(part, piece, count, 0.5)


def at_once(answer: Callable[[str, str], Outcome]) -> Callable[[str, str], Future[Outcome]]:
    """A pool that does each piece in the moment in which it gets it."""

    def submit(part: str, piece: str) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        try:
            future.set_result(answer(part, piece))
        except BrokenProcessPool as error:
            future.set_exception(error)
        return future

    return submit


def tortured(state: State, answer: Callable[[str, str], Outcome], steps: int, *parts: str) -> Torture:
    """A run whose clock moves one second at each look."""
    ticks = itertools.count()
    return Torture(state, steps, 2, parts or ("crash states", "worlds"), at_once(answer), lambda: float(next(ticks)))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save = State.save
    monkeypatch.setattr(State, "save", lambda state, folder=tmp_path: save(state, folder))
    monkeypatch.setattr(torture, "LOOK_EVERY_S", 0.0)
    return tmp_path


def test_a_second_run_goes_on_behind_the_pieces_of_the_first(folder: Path) -> None:
    seen: list[tuple[str, str]] = []

    def answer(part: str, piece: str) -> Outcome:
        seen.append((part, piece))
        return outcome(part, piece)

    for _ in range(3):
        tortured(State.load("abc", folder), answer, 10).run()
    assert len(set(seen)) == len(seen) > 10
    assert {part for part, _ in seen} == {"crash states", "worlds"}
    assert State.load("abc", folder).parts["worlds"].count == sum(part == "worlds" for part, _ in seen)
    assert State.load("another", folder).parts["worlds"] == PartState()


def test_what_was_interrupted_is_done_first_in_the_next_run(folder: Path) -> None:
    run = tortured(State("abc"), outcome, 100, "worlds")
    now, submit = run.now, run.submit

    def interrupted() -> float:
        if now() > 30:
            raise KeyboardInterrupt
        return 0.0

    run.now, run.submit = interrupted, lambda part, piece: Future() if piece == "20-29" else submit(part, piece)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    state = State.load("abc", folder)
    assert state.parts["worlds"].left == ["20-29"]
    seen: list[str] = []

    def answer(part: str, piece: str) -> Outcome:
        seen.append(piece)
        return outcome(part, piece)

    tortured(state, answer, 5, "worlds").run()
    assert seen[0] == "20-29"
    assert state.parts["worlds"].left == []


def test_a_failure_is_kept_with_the_command_that_repeats_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(piece: str) -> tuple[int, dict[str, int]]:
        raise AssertionError(f"planted in {piece}")

    monkeypatch.setitem(PARTS, "worlds", attrs.evolve(PARTS["worlds"], run=run))
    tortured(State("abc"), run_piece, 5, "worlds").run()
    failures = State.load("abc", folder).failures
    assert failures[0].repeat == "PYTHONPATH=tests .venv/bin/python -m kit.torture_parts worlds 0-9"
    assert "planted in 0-9" in failures[0].text
    monkeypatch.setattr(torture, "present_commit", lambda: "abc")
    monkeypatch.setattr(State, "load", lambda commit: State(commit, {**State("x").parts, "worlds": _failed(failures)}))
    monkeypatch.setattr(Torture, "run", lambda run: None)
    monkeypatch.setattr(torture, "FOLDER", folder)
    monkeypatch.setattr(torture.signal, "signal", lambda number, handler: None)
    with torture.alone() as is_alone:
        assert is_alone
        assert torture.main(["--minutes", "0.01"]) == 2
    assert torture.main(["--minutes", "0.01"]) == 1
    printed = capsys.readouterr().out
    assert failures[0].repeat in printed
    assert "| worlds | 0 seeds | 20,000 |" in printed


def _failed(failures: list[Failure]) -> PartState:
    return PartState(failures=failures)


def test_a_worker_that_dies_and_a_piece_that_hangs_are_failures(folder: Path) -> None:
    def die(part: str, piece: str) -> Outcome:
        raise BrokenProcessPool("gone")

    tortured(State("abc"), die, 3, "worlds").run()
    assert "its process died" in State.load("abc", folder).failures[0].text
    hanging = tortured(State("def"), die, 3, "worlds")
    hanging.submit = lambda part, piece: Future()
    ticks = itertools.count(0, 60)
    hanging.now = lambda: float(next(ticks))
    hanging.seconds = 100
    hanging.run()
    assert [failure.text for failure in State.load("def", folder).failures] == ["it did not end"] * 2


def test_a_summary_for_programs_says_what_was_reached(folder: Path) -> None:
    state = State("abc")
    state.parts["worlds"].add(Outcome("worlds", "0-9", 20_000, 60.0, (), {"calls": 7}))
    state.parts["worlds"].add(Outcome("worlds", "10-19", 10, 1.0, (), {"calls": 5}))
    state.save()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["commit"] == "abc"
    assert summary["parts"]["worlds"]["is_reached"]
    assert summary["parts"]["worlds"]["figures"] == {"calls": 12}
    assert not summary["parts"]["soak"]["is_reached"]


def test_each_part_has_pieces_of_its_own_and_every_story_is_told() -> None:
    told = list(itertools.islice(PARTS["crash states"].pieces(0), 200))
    assert len(set(told)) == 200
    assert {story.__name__ for story in STORIES} < set(told)
    assert list(itertools.islice(PARTS["crash states"].pieces(50), 150)) == told[50:]
    assert list(itertools.islice(PARTS["worlds"].pieces(1), 2)) == ["10-19", "20-29"]
    assert (list(PARTS["soak"].pieces(0)), list(PARTS["soak"].pieces(1))) == (["all"], [])


def test_a_piece_can_be_repeated_by_its_name() -> None:
    assert run_piece("worlds", "3").count == 1
    assert run_piece("crash states", "1").count > 20
    assert torture_parts.PARTS["crash states"].repeat("1").endswith("crash_random.py 1")


# -- soak -----------------------------------------------------------------------------------------------------------


def grown(**last: int) -> list[str]:
    """What a soak says whose last samples differ like this from the others."""
    run = Soak("", 100, "process")
    flat = Sample(0, 50 << 20, 20, 6, 7, 1 << 20)
    run.samples = [attrs.evolve(flat, commits=5 * n, **(last if n > 14 else {})) for n in range(1, 21)]
    return run.growth()


def test_a_soak_notices_whatever_grows() -> None:
    assert grown() == []
    assert grown(rss_bytes=60 << 20) == []  # one step, as an allocator takes it
    assert grown(files=21) == ["files: 20 -> 21"]
    assert grown(threads=7, tasks=8) == ["threads: 6 -> 7", "tasks: 7 -> 8"]


def test_a_soak_notices_memory_that_goes_on_growing() -> None:
    def leaking(bytes_each: int) -> list[str]:
        run = Soak("", 100, "process")
        run.samples = [Sample(5 * n, (50 << 20) + n * bytes_each, 20, 6, 7, 1 << 20) for n in range(1, 21)]
        return run.growth()

    assert leaking(1 << 18) == []
    assert leaking(1 << 19) == ["resident memory: 53 MiB -> 55 MiB -> 58 MiB"]


@holds("Ours-1")
@pytest.mark.slow
def test_thousands_of_commits_leave_memory_files_threads_and_tasks_as_they_were(tmp_path: Path) -> None:
    # In a process of its own, with one arena: what the allocator keeps for each of our threads is not what we look for.
    command = [sys.executable, soak.__file__, "--commits", str(SOAK_COMMITS), "--folder", str(tmp_path)]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    figures = json.loads(ended.stdout.splitlines()[-1])
    assert figures["commits"] >= SOAK_COMMITS
    assert figures["grew"] == []
