"""The benchmarks run to their end and say what they should. No test here looks at how long anything took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from strataflow.runtime.benchmark import MEASURES
from strataflow.runtime.benchmark.documents import objects, small_patch, strings
from strataflow.runtime.benchmark.figures import Figure, at_least, at_most
from strataflow.runtime.benchmark.peer import Peer
from strataflow.runtime.benchmark.report import Report
from strataflow.runtime.benchmark.run import MEASURES as KNOWN
from strataflow.runtime.benchmark.run import run_measures
from strataflow.runtime.benchmark.scale import KIB, Scale
from strataflow.runtime.benchmark.sides import SIDES, SideName, opened
from strataflow.runtime.surfaces.cli import main

TINY = Scale(
    rounds=1,
    round_s=0.05,
    large=2 * KIB,
    huge=4 * KIB,
    sessions=2,
    processes=2,
    commits=20,
    many=3,
    few=2,
    rows=4 * KIB,
    reads=3,
    increments=5,
    changes=5,
    idle_s=0.1,
    worlds=1,
    entries=200,
    listed=3,
    streams=3,
    pieces=4,
)


def test_the_command_offers_every_measure_there_is() -> None:
    assert list(MEASURES) == list(KNOWN)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_runs_to_its_end_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    said: list[str] = []
    report = run_measures([name], TINY, str(tmp_path), lambda done, text: said.append(text))
    assert report.figures
    # A watcher of five changes may know each of them before the writer has its answer: then the time is 0. Of a
    # conversation nothing at all is looked at; and memory may have been given back.
    may_be_nothing = {figure.measure for figure in report.figures if name == "watching" and figure.unit == "ms"}
    may_be_nothing |= {figure.measure for figure in report.figures if figure.unit == "entries"}
    may_be_nothing |= {figure.measure for figure in report.figures if "memory" in figure.measure}
    assert all(figure.ours > 0 or figure.measure in may_be_nothing for figure in report.figures)
    assert said
    assert all(text.startswith(f"{name}: ") for text in said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("side", SIDES)
def test_each_side_applies_the_same_patches(side: SideName, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(side, str(tmp_path), range(1), {"session": strings(KIB)}) as ready:
            for turn in range(3):
                await ready.commit(0, {"session": small_patch(turn), "cwd": {"working": {"turn": turn}}})
        if side != "ours":
            peer = Peer.open(str(tmp_path / f"{side.replace(' ', '-')}.db"))
            assert peer.value("cwd") == {"working": {"turn": 2}}
            assert set(peer.value("session 0")["working"]["notes"]) == {"n00", "n01", "n02"}
            peer.close()

    trio.run(run)


def test_documents_have_the_size_that_was_asked_for() -> None:
    for shape in (strings, objects):
        size = len(json.dumps(shape(100 * KIB), separators=(",", ":")))
        assert 0.8 < size / (100 * KIB) < 1.4
    assert 90 <= len(json.dumps(small_patch(7), separators=(",", ":"))) <= 120


def test_a_reach_is_held_against_the_ratio_where_there_is_a_peer() -> None:
    with_peer = Figure("a", "commits/s", 50.0, at_least(0.9), peer=100.0, directly=200.0, directly_reach=at_least(0.2))
    assert (with_peer.ratio, with_peer.is_reached, with_peer.is_directly_reached) == (0.5, False, True)
    alone = Figure("b", "ms", 5.0, at_most(10, "ms"))
    assert (alone.ratio, alone.is_reached, alone.is_directly_reached) == (None, True, None)
    assert Figure("c", "ms", 5.0).is_reached is None


def test_a_report_tells_versions_figures_and_what_was_missed() -> None:
    figures = [Figure("good", "ms", 5.0, at_most(10, "ms")), Figure("bad", "ms", 50.0, at_most(10, "ms"))]
    report = Report({"trio": "1.2"}, TINY, figures, 0, 1.0)
    assert report.missed == ["bad"]
    assert json.loads(json.dumps(report.to_json()))["figures"][1]["reached"] is False
    table = report.to_markdown()
    assert "| bad | 50 ms |" in table
    assert "trio: 1.2" in table


@pytest.mark.slow
def test_the_command_writes_both_forms_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strataflow.runtime.benchmark.scale.QUICK", TINY)
    files = [str(tmp_path / "report.json"), str(tmp_path / "report.md")]
    place = str(tmp_path / "place")
    command = ["bench", "--quick", "--only", "reads", "--dir", place, "--json", files[0], "--markdown", files[1]]
    assert main(command) == 0
    assert capsys.readouterr().out == Path(files[1]).read_text(encoding="utf-8")
    assert json.loads(Path(files[0]).read_text(encoding="utf-8"))["versions"]["source"].startswith("sha256:")
    assert not Path(place).exists()
