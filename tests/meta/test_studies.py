"""Studies run to their end, keep their byte bounds, and say so when something does not come out right."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.holds import holds
from kit.source_tree import ROOT, read
from strataflow.runtime import Session, open_runtime
from strataflow.runtime.benchmark.provenance import BENCHMARK, PACKAGE, source_hash
from strataflow.runtime.benchmark.studies import STUDIES, run_study
from strataflow.runtime.benchmark.studies.backing import Backing
from strataflow.runtime.benchmark.studies.bounds import bound
from strataflow.runtime.benchmark.studies.phases import Phase, distribution, phase
from strataflow.runtime.benchmark.studies.publishers import Backed, Publishers
from strataflow.runtime.benchmark.studies.study import StudyReport
from strataflow.runtime.benchmark.studies.workload import (
    SMOKE,
    TRAJECTORY_READ_BYTES,
    Workload,
    filler,
    lifecycle_text,
    trajectory_text,
    workload_from,
)
from strataflow.runtime.surfaces.cli import main

_PAGE = "docs/explanation/prefix-stability.md"
_COMMAND = "run `strataflow bench trajectory` as benchmarks/README.md says, and write its tables into the page"


@pytest.fixture(scope="module")
def trajectory(tmp_path_factory: pytest.TempPathFactory) -> StudyReport:
    """The study, played once for all tests of it."""
    folder = tmp_path_factory.mktemp("trajectory")
    report = run_study("trajectory", str(folder), smoke=True)
    assert list(folder.iterdir()) == []
    return report


# -- trajectory -----------------------------------------------------------------------------------------------------


@holds("B5", "B11", "B12", "C10")
def test_no_continuation_of_a_trajectory_loses_more_than_one_byte_in_any_mode(trajectory: StudyReport) -> None:
    assert trajectory.failures == []
    told = trajectory.to_json()["trajectory"]
    assert [entry["mode"] for entry in told] == ["active", "passive", "exit handoff"]
    cells = 0
    for entry in told:
        (run,) = entry["promptPrefixRuns"]
        sizes = [each["contextBytes"] for each in run["inferences"]]
        shared = [each["sharedPrefixBytes"] for each in run["inferences"]]
        assert len(sizes) == 11
        assert shared[0] is None
        for before, common in zip(sizes, shared[1:], strict=False):
            assert before - common <= 1
            cells += 1
    assert cells == 30


@holds("B5", "B9", "B12")
def test_reads_and_patches_of_a_trajectory_add_no_more_than_their_bounds(trajectory: StudyReport) -> None:
    for entry in trajectory.to_json()["trajectory"]:
        (run,) = entry["promptPrefixRuns"]
        inferences = run["inferences"]
        for before, after in pairwise(inferences):
            added = after["contextBytes"] - before["contextBytes"]
            assert added <= (TRAJECTORY_READ_BYTES + 700 if before["action"] == "read" else 954)
        assert run["patchStateBarriers"] == 2
        assert (run["completedReads"], run["readResultBytes"]) == (8, 8 * TRAJECTORY_READ_BYTES)
        assert inferences[-1]["retainedReadBytes"] == 8 * TRAJECTORY_READ_BYTES
        assert run["reconciliationTailBytes"][0] == 0
        assert run["reconciliationTailBytes"][1] > 0
        assert run["reconciliationEntries"] == [0, 1]
    assert all(each["kept"] for each in trajectory.to_json()["bounds"])


def test_the_run_that_is_compared_with_pays_for_the_conversation_after_each_patch(trajectory: StudyReport) -> None:
    (run,) = trajectory.to_json()["headMadeAnewAfterEachPatch"]["promptPrefixRuns"]
    shared = [each["sharedPrefixBytes"] for each in run["inferences"]]
    assert [number for number, common in enumerate(shared) if common is not None and common < 1000] == [7, 10]
    told = trajectory.to_json()
    assert told["headMadeAnewAfterEachPatch"]["reused"] < 0.8
    assert min(entry["reused"] for entry in told["trajectory"]) > 0.9999


def test_the_published_tables_and_plot_are_those_that_the_study_makes(trajectory: StudyReport) -> None:
    tables = trajectory.tables()
    assert read("benchmarks/trajectory.md").startswith(tables), _COMMAND
    published = json.loads(read("benchmarks/trajectory.json"))
    found = trajectory.to_json()
    assert {name: published[name] for name in ("trajectory", "bounds")} == {
        name: found[name] for name in ("trajectory", "bounds")
    }, _COMMAND
    assert (ROOT / "docs/explanation/prefix-stability.svg").read_text(encoding="utf-8") == trajectory.to_svg(), _COMMAND
    for table in tables.split("\n\n"):
        assert table.strip() in read(_PAGE), _COMMAND


@holds("B7", "B15")
def test_a_report_says_what_ran_and_what_it_does_not_claim(trajectory: StudyReport) -> None:
    told = trajectory.to_json()
    assert told["version"] == 3
    members = "python platform dependencies gitVersion availableParallelism sourceCommit configuration notMeasured"
    assert set(members.split()) <= told.keys()
    assert told["runtimeSourceHash"].startswith("sha256:")
    assert told["workloadSourceHash"] not in ("", told["runtimeSourceHash"])
    assert (told["runtimeSourceUnchanged"], told["workloadSourceUnchanged"], told["exitCode"]) == (True, True, 0)
    limits = " ".join(told["limits"])
    assert all(word in limits for word in "cache tokens latency quality schemas framing synthetic Counters".split())


def test_a_trajectory_takes_no_times_that_a_loaded_machine_could_spoil(trajectory: StudyReport) -> None:
    assert all("timesMs" not in part for part in trajectory.to_json()["phases"])


# -- the other two --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@holds("B2", "B4", "B8", "B13", "B14")
def test_a_lifecycle_runs_resumes_and_tells_every_field(tmp_path: Path) -> None:
    report = run_study("lifecycle", str(tmp_path), smoke=True)
    assert report.failures == []
    told = json.loads(json.dumps(report.to_json()))
    plain, remembering = told["lifecycle"]
    assert (plain["stateFlow"], remembering["stateFlow"]) == (False, True)
    assert (plain["inferencesPerRun"], remembering["inferencesPerRun"]) == (2, 3)
    assert (plain["acceptedTransitions"], remembering["acceptedTransitions"]) == (0, 2 * remembering["userRuns"])
    named = (
        "stateBytes modelPatches userRuns acceptedTransitions nativeEntries nativeFileBytes recentRuns openSession "
        "resumeRuntime lastContextBytes contextBytesPerRun inferencesPerRun nativeRead promptPrefixRuns postResume"
    )
    for entry in told["lifecycle"]:
        assert set(named.split()) <= entry.keys()
        assert {"patchStateBarriers", "nativeUserBytes", "specificationBytes"} <= entry["promptPrefixRuns"][0].keys()
        assert entry["recentRuns"].keys() == {"count", "min", "p50", "p95", "max"}
        assert entry["openSession"]["count"] == entry["resumeRuntime"]["count"] == SMOKE.samples
        assert entry["postResume"]["baselineUnchanged"]
        assert entry["nativeRead"] == {"count": 2, "bytes": 2 * (15 + SMOKE.transcript_bytes)}
    assert any("Git" in text for text in told["notMeasured"])
    assert plain["contextBytesPerRun"][1] > plain["contextBytesPerRun"][0] + SMOKE.transcript_bytes
    _is_whole(told)


@pytest.mark.slow
@holds("B13")
def test_the_first_request_of_a_run_stays_flat_with_memory_and_grows_without(tmp_path: Path) -> None:
    sizes = {"BENCH_PATCHES": "22", "BENCH_STATE_BYTES": "512"}
    report = run_study("lifecycle", str(tmp_path), smoke=True, environment=sizes)
    assert report.failures == []
    assert [entry["userRuns"] for entry in report.to_json()["lifecycle"]] == [20, 22, 20, 22]
    lost, without, remembering = report.bounds
    assert lost.most == 1
    assert without.least is not None
    assert without.least > 2 * SMOKE.transcript_bytes
    assert remembering.most == 0


@pytest.mark.slow
@holds("B3", "B10")
def test_two_publishers_patch_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    report = run_study("publishers", str(tmp_path), smoke=True)
    assert report.failures == []
    told = json.loads(json.dumps(report.to_json()))
    cases = {(case["sameCwd"], case["scope"], case["backups"] is not None) for case in told["publishers"]}
    assert cases == {
        (same, scope, backed) for same in (True, False) for scope in ("session", "global") for backed in (False, True)
    }
    for case in told["publishers"]:
        # With backups there are two turns more while a push is held, and one of one publisher alone.
        attempts = 4 if case["backups"] is None else 9
        assert (case["attempts"], case["accepted"], case["failed"], case["errors"]) == (attempts, attempts, 0, {})
        assert case["answers"] == attempts
        assert case["wallMs"]["count"] == case["answerMs"]["count"] == SMOKE.rounds
        if case["backups"] is not None:
            _is_backed_up(case["backups"])
    for part in told["phases"]:
        assert ("a clone of the remote has the files of the store" in part["checks"]) == ("backups" in part["name"])
    assert not any("Git" in text for text in told["notMeasured"])
    assert "answers that waited for a push" in report.to_markdown()
    _is_whole(told)


def _is_backed_up(told: dict[str, Any]) -> None:
    """Answers of every round and of the turns after it were committed and pushed, and none of them waited."""
    # At least the push that was held, and that of the last answer; on a busy machine others may be deferred.
    assert 2 <= told["pushes"] <= told["commits"] <= 9
    troubles = ("skippedPushes", "failedPushes", "deferredBackups", "failedBackups")
    assert all(told[name] >= 0 for name in troubles)
    assert (told["answersThatWaitedForPush"], told["answersWhilePushIsHeld"]) == (0, 2)
    assert told["quietMs"]["count"] == SMOKE.rounds
    assert told["answerWhilePushIsHeldMs"]["count"] == 1


@holds("B10")
def test_publishers_without_git_say_that_backups_were_not_measured() -> None:
    def not_measured(*entries: Publishers) -> list[str]:
        return StudyReport("publishers", {}, entries, [], [], (True, True)).not_measured

    plain, backed = Publishers(True, "session"), Publishers(True, "session", Backed())
    assert any("no Git" in text for text in not_measured(plain))
    assert not any("Git" in text for text in not_measured(plain, backed))


def test_a_clone_that_lacks_something_is_not_taken_for_the_store(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    backing = Backing.made(str(tmp_path), store)

    async def publish() -> None:
        async with open_runtime(store=store) as runtime:
            session = await runtime.open_session("/project", "s1", "active")
            await session.patch_state(session={"working": {"a": 1}})
            await session.accept_response("done")
            await runtime.backups.wait_pushed()

    trio.run(publish)
    assert backing.is_pushed()
    assert (backing.commits(), backing.pushes()) == (1, 1)
    clone = backing.cloned()
    assert backing.is_equal(clone)
    patches = next(Path(clone).rglob("s1/patches.jsonl"))
    whole = patches.read_bytes()
    patches.write_bytes(whole[:-1])
    assert not backing.is_equal(clone)
    patches.unlink()
    assert not backing.is_equal(clone)


def _is_whole(told: dict[str, Any]) -> None:
    """A report with times: what every phase says, what ran, and what was not measured."""
    for part in told["phases"]:
        assert part["status"] == "passed"
        assert part["timesMs"]
        assert part["counters"]
        assert set(part["heldAfterwards"].values()) == {0}
    assert told["runtimeSourceUnchanged"]
    assert told["workloadSourceUnchanged"]
    assert told["exitCode"] == 0
    assert told["notMeasured"]
    assert told["configuration"]["historyLimit"] == 7
    assert told["version"] == 3
    assert told["dependencies"]["trio"]


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@holds("B1")
def test_a_study_that_goes_wrong_says_where_and_tells_no_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Session.patch_state
    calls = 0

    async def failing(self: Session, **arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("planted")
        return await plain(self, **arguments)

    monkeypatch.setattr(Session, "patch_state", failing)
    monkeypatch.setenv("BENCH_STATE_BYTES", "64")
    place, file, plot = str(tmp_path / "place"), tmp_path / "report.json", tmp_path / "plot.svg"
    assert main(["bench", "lifecycle", "--smoke", "--dir", place, "--json", str(file)]) == 1
    told = json.loads(file.read_text(encoding="utf-8"))
    (failed,) = [part for part in told["phases"] if part["status"] == "failed"]
    assert "planted" in failed["error"]
    assert failed["timesMs"] is None
    assert told["exitCode"] == 1
    assert "planted" in capsys.readouterr().err
    assert not Path(place).exists()
    calls = 1
    command = ["bench", "trajectory", "--smoke", "--dir", place, "--json", str(file), "--plot", str(plot)]
    assert main(command) == 1
    assert not plot.exists()
    assert [part["status"] for part in json.loads(file.read_text(encoding="utf-8"))["phases"]].count("failed") == 1


def test_a_phase_fails_by_an_error_or_a_check_and_without_any_check() -> None:
    phases: list[Phase] = []
    with phase(phases, "raises"):
        raise ValueError("planted")
    with phase(phases, "checks") as part:
        part.check("it holds", True)
        part.check("it holds", False)
        part.check("it holds", True)
    with phase(phases, "checks nothing"):
        pass
    with phase(phases, "is sound") as part:
        part.check("it holds", True)
    assert [each.is_passed for each in phases] == [False, False, False, True]
    assert phases[0].error == "ValueError: planted"


def test_a_descriptor_that_a_phase_leaves_open_is_told(tmp_path: Path) -> None:
    phases: list[Phase] = []
    with phase(phases, "leaves a file") as part:
        part.check("it holds", True)
        file = (tmp_path / "file").open("w")
    file.close()
    assert phases[0].held["descriptors"] == 1
    assert not phases[0].is_passed


@pytest.mark.parametrize(
    "values, limits, is_kept",
    [
        ((1, 2), {"at_most": 2}, True),
        ((1, 3), {"at_most": 2}, False),
        ((3, 4), {"at_least": 3}, True),
        ((2, 4), {"at_least": 3}, False),
        ((0, 0), {"exactly": 0}, True),
        ((0, 1), {"exactly": 0}, False),
        ((), {"at_most": 2}, False),
    ],
)
def test_a_bound_is_kept_if_all_values_are_within(values: Any, limits: Any, is_kept: bool) -> None:
    assert bound("x", *values, **limits).is_kept is is_kept


# -- sizes ------------------------------------------------------------------------------------------------------------


@holds("B6")
def test_sizes_come_from_the_environment_or_are_the_default_ones() -> None:
    assert workload_from({}, smoke=False) == Workload(200, 3, 10, (8192, 131072), 4096)
    assert workload_from({}, smoke=True) == SMOKE == Workload(2, 1, 2, (1024,), 1024)
    given = {"BENCH_PATCHES": "5", "BENCH_STATE_BYTES": "1,20", "OTHER": "x"}
    assert workload_from(given, smoke=True) == Workload(5, 1, 2, (1, 20), 1024)
    for text in ("0", "x", "-3", ""):
        with pytest.raises(ValueError, match="BENCH_ROUNDS"):
            workload_from({"BENCH_ROUNDS": text}, smoke=False)


def test_synthetic_texts_have_exactly_the_bytes_they_should() -> None:
    for size in range(1, 200):
        assert len(filler(size).encode()) == size
    assert len(trajectory_text(7).encode()) == TRAJECTORY_READ_BYTES
    assert len(lifecycle_text(7, 100).encode()) == 115


def test_a_distribution_is_taken_by_nearest_rank() -> None:
    values = [float(number) for number in range(20, 0, -1)]
    assert distribution(values) == {"count": 20, "min": 1.0, "p50": 10.0, "p95": 19.0, "max": 20.0}
    assert distribution([4.0]) == {"count": 1, "min": 4.0, "p50": 4.0, "p95": 4.0, "max": 4.0}
    assert distribution([]) is None


@holds("B14")
def test_a_source_hash_follows_modules_and_what_is_left_out_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "inner" / "b.py").write_text("2")
    whole, rest = source_hash(str(tmp_path)), source_hash(str(tmp_path), without=str(tmp_path / "inner"))
    (tmp_path / "inner" / "b.py").write_text("3")
    assert source_hash(str(tmp_path)) != whole
    assert source_hash(str(tmp_path), without=str(tmp_path / "inner")) == rest
    assert len({source_hash(), source_hash(PACKAGE, without=BENCHMARK), source_hash(BENCHMARK)}) == 3


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, named",
    [
        (["--smoke"], "--smoke"),
        (["--plot", "x.svg"], "--plot"),
        (["lifecycle", "--plot", "x.svg"], "--plot"),
        (["lifecycle", "--quick"], "--quick"),
        (["publishers", "--only", "reads"], "--only"),
        (["trajectory", "--gate"], "--gate"),
    ],
)
def test_options_of_measures_and_studies_are_not_mixed(
    command: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *command]) == 2
    assert named in capsys.readouterr().err


def test_the_command_prints_a_study_and_writes_it_in_three_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / f"report.{name}" for name in ("json", "markdown", "plot")}
    place = str(tmp_path / "place")
    options = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert main(["bench", "trajectory", "--smoke", "--dir", place, *options]) == 0
    assert capsys.readouterr().out == files["markdown"].read_text(encoding="utf-8")
    assert json.loads(files["json"].read_text(encoding="utf-8"))["exitCode"] == 0
    assert files["plot"].read_text(encoding="utf-8").startswith("<svg ")
    assert not Path(place).exists()


def test_every_study_is_known_to_the_page_about_commands() -> None:
    assert [study for study in STUDIES if f"`{study}`" not in read("docs/reference/cli.md")] == []
