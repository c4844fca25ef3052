"""The pytest plugin as users meet it: their test files are run by a pytest of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from unittest import mock

import pytest

from kit.documents import code_words, sections
from kit.source_tree import ROOT
from strataflow.pytest_plugin import StrataflowWorld
from strataflow.simulation import FaultPlan  # loaded here once: pytester forgets what a run inside of it has loaded

pytest_plugins = ["pytester"]

# A process that keeps one value. ``broken`` tells a lie in the end.
WORKLOAD = """
import pytest
import strataflow
from strataflow.simulation import FaultPlan

async def workload(process):
    session = await process.open_session("/project")
    await session.patch_state(cwd={"working": {"kept": 1}})

async def broken(process):
    session = await process.open_session("/project")
    assert (await session.read_state("cwd.working")).value == {"kept": 2}, "not what it was told"
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Inner:
    # Of the plugins that are installed here, ours alone: so nothing of pytest-trio or xdist can be what makes it work.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Inner(pytester)


class Inner:
    """Runs a test file with this plugin and no other."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester

    def run(self, text: str, *options: str) -> pytest.RunResult:
        self.pytester.makepyfile(test_it=WORKLOAD + text)
        return self.pytester.runpytest_inprocess("-p", "strataflow.pytest_plugin", "--strict-markers", *options)


def _ran(result: pytest.RunResult) -> list[str]:
    """What the tests printed, one line for each."""
    return [line.removeprefix("ran ") for line in result.outlines if line.startswith("ran ")]


PRINTS_ITS_SEED = """
def test_it(strataflow_world):
    print()
    print("ran", strataflow_world.seed)
"""


@pytest.mark.parametrize(
    "marker, options, seeds",
    [
        ("", "", range(10)),
        ("@pytest.mark.strataflow(seeds=3)", "", range(3)),
        ("@pytest.mark.strataflow(seeds=[7, 0, 99])", "", [7, 0, 99]),
        ("@pytest.mark.strataflow(faults='none')", "", range(10)),
        ("@pytest.mark.strataflow(seeds=3)", "--strataflow-seeds 5", range(5)),
        ("@pytest.mark.strataflow(seeds=[7, 99])", "--strataflow-seeds 5", [7, 99]),
        ("@pytest.mark.strataflow(seeds=3)", "--strataflow-seed 41", [41]),
        ("@pytest.mark.strataflow(seeds=[7, 99])", "--strataflow-seed 0", [0]),
        ("", "--strataflow-seed 41 --strataflow-seeds 2", [41, 42]),
    ],
)
def test_a_test_is_run_once_for_each_of_its_seeds(marker: str, options: str, seeds: list[int], inner: Inner) -> None:
    result = inner.run(f"{marker}{PRINTS_ITS_SEED}", "-s", *options.split())
    result.assert_outcomes(passed=len(seeds))
    assert _ran(result) == [str(seed) for seed in seeds]


def test_the_nearest_marker_counts_for_each_of_its_arguments(inner: Inner) -> None:
    result = inner.run(
        """
@pytest.mark.strataflow(seeds=2, faults="kill=0.5")
class TestIt:
    @pytest.mark.strataflow(faults="none")
    def test_it(self, strataflow_world):
        assert str(strataflow_world.faults) == "none"
    def test_other(self, strataflow_world, strataflow_faults):
        assert str(strataflow_faults) == "kill=0.5"
"""
    )
    result.assert_outcomes(passed=4)


def test_seeds_go_together_with_parameters_of_ones_own(inner: Inner) -> None:
    result = inner.run(
        """
@pytest.mark.strataflow(seeds=2)
@pytest.mark.parametrize("size", ["small", "large"])
def test_it(size, strataflow_world):
    pass
""",
        "-v",
    )
    names = re.findall(r"test_it\[(.*?)\] PASSED", result.stdout.str())
    assert sorted(names) == ["large-seed0", "large-seed1", "small-seed0", "small-seed1"]


def test_a_world_that_is_asked_for_late_has_the_first_seed(inner: Inner) -> None:
    text = """
@pytest.mark.strataflow(seeds=[5, 6])
def test_it(request):
    assert request.getfixturevalue("strataflow_world").seed == 5
"""
    inner.run(text).assert_outcomes(passed=1)


def test_the_report_of_a_world_that_is_well_is_returned(inner: Inner) -> None:
    text = """
@pytest.mark.strataflow(seeds=[3])
def test_it(strataflow_world):
    plan = strataflow_world.faults
    first = strataflow_world.simulate(workload, processes=1)
    second = strataflow.simulate(workload, seed=3, faults=plan, processes=1)
    assert first.seed == 3 and first.is_ok and first.history.calls
    assert first.trace_hash == second.trace_hash
    assert strataflow_world.simulate(steps=4, writers=2).steps >= 4
    assert len(strataflow_world.reports) == 2
    assert repr(strataflow_world) == "<StrataflowWorld of seed 3>"
"""
    inner.run(text).assert_outcomes(passed=1)


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, options, faults",
    [
        ("@pytest.mark.strataflow(faults='kill=0.25,power@9')", "", "kill=0.25,power@9"),
        ("@pytest.fixture\ndef strataflow_faults():\n    return FaultPlan.default()\n", "", "default"),
        ("@pytest.fixture\ndef strataflow_faults():\n    return FaultPlan({'kill': 0.5})\n", "", "kill=0.5"),
        ("@pytest.fixture\ndef strataflow_faults():\n    return 'eio=0.5'\n", "", "eio=0.5"),
        ("@pytest.mark.strataflow(faults='kill=0.25')", "--strataflow-faults none", "none"),
        ("@pytest.fixture\ndef strataflow_faults():\n    return 'eio=0.5'\n", "--strataflow-faults kill@3", "kill@3"),
    ],
)
def test_the_plan_comes_from_option_fixture_or_marker(before: str, options: str, faults: str, inner: Inner) -> None:
    text = f"""
{before}
def test_it(strataflow_world):
    assert str(strataflow_world.faults) == {faults!r}
    assert str(strataflow_world.simulate(workload, processes=1).plan) == {faults!r}
"""
    inner.run(text, *options.split(), "--strataflow-seed", "1").assert_outcomes(passed=1)


def test_foreign_writers_come_only_if_one_asks_for_them(inner: Inner) -> None:
    # Their bytes win over what was accepted, so no server can keep its word then.
    text = """
@pytest.mark.strataflow(seeds=1)
def test_it(strataflow_world):
    all_kinds = FaultPlan.default().rates
    assert {**strataflow_world.faults.rates, "foreign": all_kinds["foreign"]} == all_kinds

@pytest.mark.strataflow(seeds=1, faults="default,foreign=0.25")
def test_other(strataflow_world):
    assert strataflow_world.faults.rates["foreign"] == 0.25
    assert strataflow_world.faults.rates["kill"] > 0
"""
    inner.run(text).assert_outcomes(passed=2)


def test_one_run_may_have_a_plan_of_its_own_unless_the_command_line_has_one(inner: Inner) -> None:
    text = """
@pytest.mark.strataflow(seeds=1, faults="kill=0.5")
def test_it(strataflow_world, request):
    forced = request.config.getoption("strataflow_faults")
    for faults in ("none", FaultPlan.none()):
        assert str(strataflow_world.simulate(workload, faults=faults, processes=1).plan) == (forced or "none")
"""
    inner.run(text).assert_outcomes(passed=1)
    inner.run(text, "--strataflow-faults", "busy@1").assert_outcomes(passed=1)


# -- failures ---------------------------------------------------------------------------------------------------------

FAILS = """
@pytest.mark.strataflow(seeds=[4])
def test_it(strataflow_world):
    strataflow_world.simulate(workload, check=broken, processes=1, faults="slow@1:0.5,busy@1")
"""


def test_a_failure_tells_what_broke_and_how_to_repeat_it(inner: Inner) -> None:
    result = inner.run(FAILS)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert re.search(r"^VIOLATION assertion: .*not what it was told", text, re.MULTILINE)
    assert re.search(r"^trace [0-9a-f]{64}$", text, re.MULTILINE)
    assert re.search(r"^repeat: pytest 'test_it.py::test_it\[seed4\]' --strataflow-seed 4$", text, re.MULTILINE)
    assert re.search(r"^its faults one by one, .* --strataflow-faults slow@1:0.5\S*,busy@1$", text, re.MULTILINE)
    assert "strataflow simulate" not in text, "that command repeats another workload"
    assert "pytest_plugin.py" not in text
    # What happened, in order.
    assert re.search(r"^\d\.\d+ p0.1  #2 main asks patch \{'cwd'.*\n(.*\n)*.* p0.1  #2 ok", text, re.MULTILINE)


def test_the_command_of_a_failure_names_the_file_from_where_one_stands(
    inner: Inner, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner.pytester.makeini("[pytest]")
    folder = inner.pytester.mkdir("sub")
    inner.pytester.makepyfile(test_it=WORKLOAD + FAILS)
    monkeypatch.chdir(folder)
    result = inner.pytester.runpytest_inprocess("-p", "strataflow.pytest_plugin", "..")
    result.stdout.fnmatch_lines(["repeat: pytest '../test_it.py::test_it[[]seed4]' --strataflow-seed 4"])


def test_a_plan_from_the_command_line_stands_in_the_command_that_repeats(inner: Inner) -> None:
    result = inner.run(FAILS, "--strataflow-faults", "power@20:torn:7")
    result.stdout.fnmatch_lines(["repeat: * --strataflow-seed 4 --strataflow-faults power@20:torn:7"])


SHRINKS = """
@pytest.mark.strataflow(seeds=[4], faults="busy@1,eintr@9,kill@60,slow@3:0.5")
def test_it(strataflow_world):
    lives = []

    async def counting(process):
        lives.append(process.name)
        await workload(process)

    async def once(process):
        assert lives == ["p0.1"], "it was started again"

    strataflow_world.simulate(counting, check=once, processes=1)
"""


def test_fewer_faults_are_looked_for_on_demand(inner: Inner) -> None:
    result = inner.run(SHRINKS, "--strataflow-shrink")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert re.search(r"^its faults one by one, .*kill@60.*$", text, re.MULTILINE)
    assert re.search(r"^\d+ runs to find that these are enough: --strataflow-faults kill@60$", text, re.MULTILINE)
    shrunk = text.partition("Captured strataflow, with fewer faults")[2]
    assert re.findall(r" world fault (\S+),", shrunk) == ["kill@60"]
    assert "these are enough" not in inner.run(SHRINKS).stdout.str()


def test_a_failure_without_any_fault_is_told_as_such(inner: Inner) -> None:
    result = inner.run(FAILS, "--strataflow-shrink")
    assert re.search(r"these are enough: --strataflow-faults none$", result.stdout.str(), re.MULTILINE)


def test_shrinking_is_not_misled_by_other_failures(inner: Inner) -> None:
    text = SHRINKS + "    assert False, 'not a matter of faults'\n"
    result = inner.run(text, "--strataflow-shrink")
    assert re.search(r"these are enough: --strataflow-faults kill@60$", result.stdout.str(), re.MULTILINE)


def test_other_tests_that_fail_are_not_shrunk(inner: Inner) -> None:
    text = """
@pytest.mark.strataflow(seeds=1)
def test_it(strataflow_world):
    strataflow_world.simulate(workload, processes=1, faults="none")
    pytest.fail("for a reason of its own")

def test_other():
    pytest.fail("without a world")
"""
    result = inner.run(text, "--strataflow-shrink")
    result.assert_outcomes(failed=2)
    assert "these are enough" not in result.stdout.str()


def test_an_error_in_a_workload_fails_the_test_with_its_place(inner: Inner) -> None:
    text = """
async def mistaken(process):
    raise KeyError("no such agent")

@pytest.mark.strataflow(seeds=1)
def test_it(strataflow_world):
    strataflow_world.simulate(mistaken, processes=1)
"""
    result = inner.run(text)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"VIOLATION unexpected-error: p0.1: KeyError: 'no such agent' at test_it.py:\d+"])


@pytest.mark.parametrize(
    "marker, text",
    [
        ("seeds=0", "seeds is 0; it must be a number from 1 on or a list of seeds"),
        ("seeds=[]", "seeds is []; it must be a number"),
        ("seeds=[True]", "seeds is [True]; it must be a number"),
        ("seeds='ten'", "seeds is 'ten'; it must be a number"),
        ("seed=3", "takes seeds= and faults=, and nothing else"),
        ("3", "takes seeds= and faults=, and nothing else"),
        ("faults='thunder=1'", 'there is no fault "thunder"'),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused_in_a_sentence(marker: str, text: str, inner: Inner) -> None:
    result = inner.run(f"@pytest.mark.strataflow({marker}){PRINTS_ITS_SEED}")
    assert result.ret != 0
    assert text in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()
    assert "During handling" not in result.stdout.str()


@pytest.mark.parametrize(
    "options, text",
    [
        ("--strataflow-seeds 0", "it must be at least 1"),
        ("--strataflow-seeds few", "'few' is no whole number"),
        ("--strataflow-seed -1", "'-1' is no whole number"),
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(options: str, text: str, inner: Inner) -> None:
    result = inner.run(PRINTS_ITS_SEED, *[f"{'='.join(options.split())}"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert text in result.stderr.str()


def test_a_plan_on_the_command_line_that_makes_no_sense_is_refused_in_a_sentence(inner: Inner) -> None:
    result = inner.run(PRINTS_ITS_SEED, "--strataflow-faults", "thunder", "--strataflow-seed", "0")
    result.assert_outcomes(errors=1)
    assert '"thunder" is none of' in result.stdout.str()


def test_a_call_from_inside_of_an_event_loop_is_refused_in_a_sentence(inner: Inner) -> None:
    text = """
import trio

@pytest.mark.strataflow(seeds=1)
def test_it(strataflow_world):
    async def main():
        strataflow_world.simulate(workload)
    trio.run(main)
"""
    result = inner.run(text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*make the test a plain def, not async def"])


def test_a_seed_in_the_call_is_refused_as_an_argument(inner: Inner) -> None:
    text = """
@pytest.mark.strataflow(seeds=1)
def test_it(strataflow_world):
    with pytest.raises(TypeError, match="takes the seed of the test"):
        strataflow_world.simulate(workload, seed=3)
"""
    inner.run(text).assert_outcomes(passed=1)


def test_pytest_itself_tells_about_marker_fixtures_and_options(inner: Inner) -> None:
    assert "@pytest.mark.strataflow(seeds=" in inner.run("", "--markers").stdout.str()
    shown = inner.run("", "--fixtures").stdout.str()
    assert re.findall(r"^(\w*strataflow\w*) --", shown, re.MULTILINE) == ["strataflow_faults", "strataflow_world"]
    helped = inner.run("", "--help").stdout.str()
    assert sorted(set(re.findall(r"--strataflow-(\w+)", helped))) == ["faults", "seed", "seeds", "shrink"]


# -- in a pytest of its own process -----------------------------------------------------------------------------------


def _pytest(folder: Path, *options: str, alone: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    # Where CI is set, pytest's closing lines repeat each report whole.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_") and name != "CI"}
    kept["PYTHONPATH"] = str(ROOT / "src")
    if alone:
        kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        options = ("-p", "strataflow.pytest_plugin", *options)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


REPORTS_WHAT_IS_LOADED = """
import sys

def pytest_unconfigure():
    heavy = ("trio", "attrs", "attr", "orjson", "cattrs", "strataflow.runtime", "strataflow.simulation", "sqlite3")
    print("loaded:", [name for name in heavy if name in sys.modules], "strataflow.pytest_plugin" in sys.modules)
"""


@pytest.mark.slow
def test_nothing_heavy_is_loaded_until_a_fixture_is_used(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(REPORTS_WHAT_IS_LOADED)
    (tmp_path / "test_it.py").write_text(
        "def test_a(strataflow_world):\n    pass\ndef test_b(strataflow_faults):\n    pass\ndef test_c():\n    pass\n"
    )
    collected = _pytest(tmp_path, "--collect-only", "-q")
    assert "test_it.py::test_a[seed9]" in collected.stdout, collected.stdout + collected.stderr
    assert "loaded: [] True" in collected.stdout
    assert "loaded: [] True" in _pytest(tmp_path, "-k", "test_c").stdout
    assert "loaded: ['trio', " in _pytest(tmp_path, "-k", "test_b").stdout


@pytest.mark.slow
def test_the_printed_command_repeats_the_run_byte_for_byte(tmp_path: Path) -> None:
    text = """
@pytest.mark.strataflow(seeds=[7], faults="default,kill=0.2,power=0.1")
def test_it(strataflow_world):
    strataflow_world.simulate(workload, check=broken)
"""
    (tmp_path / "test_it.py").write_text(WORKLOAD + text)
    first = _pytest(tmp_path, PYTHONHASHSEED="1").stdout
    command = re.search(r"^repeat: pytest (.*)$", first, re.MULTILINE)
    places = re.search(r"^its faults one by one, .*: (--strataflow-faults .*)$", first, re.MULTILINE)
    assert command is not None, first
    assert places is not None, first
    again = _pytest(tmp_path, *shlex.split(command[1]), PYTHONHASHSEED="2").stdout
    exact = _pytest(tmp_path, *shlex.split(f"{command[1]} {places[1]}"), PYTHONHASHSEED="3").stdout
    hashes = [re.findall(r"^trace ([0-9a-f]{64})$", output, re.MULTILINE) for output in (first, again, exact)]
    assert len(hashes[0]) == 1
    assert hashes[0] == hashes[1] == hashes[2]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-n", "2"], ["-p", "no:trio"]])
def test_it_gets_along_with_other_plugins_and_strict_settings(options: list[str], tmp_path: Path) -> None:
    if "-n" in options:
        pytest.importorskip("xdist")
    trio_mode = "" if "no:trio" in options else "trio_mode = true\n"
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\n{trio_mode}addopts = --strict-markers --strict-config\nfilterwarnings = error\n"
    )
    (tmp_path / "test_it.py").write_text(
        WORKLOAD
        + """
@pytest.mark.strataflow(seeds=3)
def test_it(strataflow_world):
    strataflow_world.simulate(workload, processes=2)

def test_plain():
    pass
"""
    )
    done = _pytest(tmp_path, *options, alone=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "warning" not in done.stdout


def test_the_reference_has_every_fixture_option_and_member_of_the_plugin() -> None:
    text = sections("docs/reference/simulation.md")["In pytest"]
    words = set(re.findall(r"[\w-]+", " ".join(code_words(text))))
    world = StrataflowWorld(0, FaultPlan(), None, mock.Mock())
    members = {name for name in [*vars(world), *vars(StrataflowWorld)] if not name.startswith("_")} - {"shrink"}
    options = {f"--strataflow-{name}" for name in ("seeds", "seed", "faults", "shrink")}
    assert members | options | {"strataflow_world", "strataflow_faults", "StrataflowWorld"} <= words


def test_the_package_registers_the_plugin_for_every_project() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert declared == {"pytest11": {"strataflow": "strataflow.pytest_plugin"}}
    installed = {point.value for point in entry_points(group="pytest11", name="strataflow")}
    assert installed == {"strataflow.pytest_plugin"}, "install the package anew: make test does"
