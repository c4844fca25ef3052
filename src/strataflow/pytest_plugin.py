"""strataflow for pytest: run a test in simulated worlds, one test for each seed.

A test that asks for ``strataflow_world`` becomes as many tests as it has seeds. A seed is a parameter of the test, so
that its name, its run and its place among several workers are the same every time.

::

    @pytest.mark.strataflow(seeds=50, faults="default,kill=0.05")
    def test_no_answer_is_lost(strataflow_world):
        strataflow_world.simulate(workload, check=check)

pytest loads this module in every project where strataflow is installed, also where nobody simulates anything. So it
imports nothing but pytest; the event loop and the simulator come with the first fixture that needs them.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shlex
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, final

import pytest

if TYPE_CHECKING:
    from .simulation import FaultPlan, Process, Report

__all__ = ["SEEDS_DEFAULT", "StrataflowWorld", "strataflow_faults", "strataflow_world"]

# How many seeds a test has that does not say. A world of some dozen calls takes a tenth of a second.
SEEDS_DEFAULT = 10

# How much of what happened a failure shows.
_TIMELINE_LINES = 60
_MARKER = "strataflow"
_SEED = "_strataflow_seed"
_MARKER_HELP = (
    f"{_MARKER}(seeds=…, faults=…): seeds of a test that uses strataflow_world, a number or a list; and its fault plan "
    "as text"
)


@final
class StrataflowWorld:
    """What the fixture ``strataflow_world`` gives.

    Attributes:
      seed: of this test.
      faults: the plan of this test.
      reports: of the runs so far, also of one that has failed.
    """

    def __init__(self, seed: int, faults: FaultPlan, forced: str | None, item: pytest.Item) -> None:
        self.seed = seed
        self.faults = faults if forced is None else _plan_of(forced)
        self.reports: list[Report] = []
        self._forced = forced
        self._item = item
        # The plan of the runs that look for fewer faults.
        self._tried: FaultPlan | None = None

    def __repr__(self) -> str:
        return f"<StrataflowWorld of seed {self.seed}>"

    def simulate(
        self,
        workload: Callable[[Process], Awaitable[None]] | None = None,
        *,
        faults: FaultPlan | str | None = None,
        **options: Any,
    ) -> Report:
        """Run one world with the seed of the test; the test fails if a promise was not kept.

        Args:
          workload, options: as for ``strataflow.simulate``, without ``seed``.
          faults: another plan for this run. ``--strataflow-faults`` counts more.

        It runs an event loop of its own: call it from a plain ``def``.
        """
        from trio.lowlevel import in_trio_run

        from . import simulation

        if in_trio_run():
            _fail("strataflow_world.simulate runs an event loop of its own: make the test a plain def, not async def")
        if "seed" in options:
            raise TypeError("strataflow_world.simulate takes the seed of the test; strataflow.simulate takes any")
        plan = self.faults if faults is None or self._forced is not None else _plan_of(faults)
        report = simulation.simulate(workload, seed=self.seed, faults=self._tried or plan, **options)
        self.reports.append(report)
        if not report.is_ok:
            if self._tried is None:
                self._show("strataflow", report)
            _fail(self._text_of(report))
        return report

    def shrink(self, again: Callable[[], object]) -> str:
        """Look for fewer faults with which the test fails in the same way; a line that tells them.

        Args:
          again: calls the test.
        """
        import attrs

        from .runtime.simulation import shrink
        from .simulation import Violation

        # As small as can be, so that the size is left as it is: that of its world is the test's business.
        failed = attrs.evolve(self.reports[-1], processes=1, writers=1, steps_wanted=1)
        runs = len(self.reports)

        def run(size: object, plan: FaultPlan) -> Report:
            self._tried = plan
            try:
                again()
            except pytest.fail.Exception:
                pass  # the report says why
            except Exception as error:
                other = Violation("another failure", repr(error), ())
                return attrs.evolve(failed, plan=plan, violations=(other,))
            return attrs.evolve(self.reports[-1], processes=1, writers=1, steps_wanted=1)

        smallest = shrink(failed, run)
        self._show("strataflow, with fewer faults", smallest)
        faults = shlex.quote(str(smallest.plan))
        return f"{len(self.reports) - runs} runs to find that these are enough: --strataflow-faults {faults}"

    def _show(self, title: str, report: Report) -> None:
        from . import simulation

        self._item.add_report_section("call", title, simulation.timeline(report, _TIMELINE_LINES))

    def _text_of(self, report: Report) -> str:
        told = report.to_text().splitlines()
        if told[-1].startswith("repeat: "):
            told.pop()  # how to do it without pytest
        repeat = f"pytest {shlex.quote(_name_of(self._item))} --strataflow-seed {self.seed}"
        if self._forced is not None:
            repeat += f" --strataflow-faults {shlex.quote(self._forced)}"
        told.append(f"repeat: {repeat}")
        if report.struck:
            places = ",".join(map(str, report.struck))
            told.append(f"its faults one by one, to leave some out: --strataflow-faults {shlex.quote(places)}")
        return "\n".join(told)


# -- fixtures ---------------------------------------------------------------------------------------------------------


@pytest.fixture(name=_SEED)
def _seed(request: pytest.FixtureRequest) -> int:
    # A test that asks for the world only while it runs has no parameter: it gets the first seed.
    return request.param if hasattr(request, "param") else _seeds_of(request.node, request.config)[0]


@pytest.fixture
def strataflow_faults(request: pytest.FixtureRequest) -> FaultPlan:
    """Which faults strike in ``strataflow_world``: a ``strataflow.simulation.FaultPlan``.

    By default all of the default plan, but for writers that do not know our locks.
    Choose others with ``@pytest.mark.strataflow(faults="kill=0.05")``, or with a fixture of your own that has this name
    and returns a plan or its text.
    """
    return _plan_of(_marked(request.node, "faults", "default"))


@pytest.fixture
def strataflow_world(
    request: pytest.FixtureRequest, strataflow_faults: FaultPlan | str, _strataflow_seed: int
) -> StrataflowWorld:
    """A simulated world for your agents: ``strataflow_world.simulate(workload, check=check)``.

    The test is run once for each seed: 10 of them, or as ``@pytest.mark.strataflow(seeds=50)`` says.
    """
    forced = request.config.getoption("strataflow_faults")
    return StrataflowWorld(_strataflow_seed, _plan_of(strataflow_faults), forced, request.node)


# -- hooks ------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line."""
    group = parser.getgroup("strataflow", "strataflow: simulated worlds")
    group.addoption(
        "--strataflow-seeds", type=_from_one, metavar="N", help="so many seeds for each test that uses strataflow_world"
    )
    group.addoption(
        "--strataflow-seed", type=_from_zero, metavar="N", help="this seed only; with --strataflow-seeds the first one"
    )
    group.addoption(
        "--strataflow-faults", metavar="PLAN", help="this fault plan instead of the ones of the tests, such as kill@31"
    )
    group.addoption(
        "--strataflow-shrink", action="store_true", help="run a test that fails again and again, with fewer faults"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER_HELP)


@pytest.hookimpl(trylast=True)  # the seed stands behind the parameters that a test has of its own
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each seed."""
    if _SEED in metafunc.fixturenames:
        seeds = _seeds_of(metafunc.definition, metafunc.config)
        metafunc.parametrize(_SEED, seeds, indirect=True, ids=[f"seed{seed}" for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """After a failure, if asked to: the same with fewer faults."""
    try:
        return (yield)
    except pytest.fail.Exception as error:
        world = pyfuncitem.funcargs.get("strataflow_world")
        if not (isinstance(world, StrataflowWorld) and pyfuncitem.config.getoption("strataflow_shrink")):
            raise
        if not world.reports or world.reports[-1].is_ok:
            raise
        given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
        told = world.shrink(lambda: pyfuncitem.obj(**given))
        raise pytest.fail.Exception(f"{error.msg}\n{told}", pytrace=False) from None


# -- what was asked for -----------------------------------------------------------------------------------------------


def _seeds_of(item: pytest.Item, config: pytest.Config) -> list[int]:
    first, count = config.getoption("strataflow_seed"), config.getoption("strataflow_seeds")
    if first is not None:
        return list(range(first, first + (1 if count is None else count)))
    marked = _marked(item, "seeds", SEEDS_DEFAULT)
    if type(marked) is int and marked > 0:
        return list(range(marked if count is None else count))
    # Seeds that are named one by one are there for a reason: a count from outside does not replace them.
    seeds = list(marked) if isinstance(marked, Iterable) else []
    if not (seeds and all(type(seed) is int and seed >= 0 for seed in seeds)):
        _fail(f"@pytest.mark.{_MARKER}: seeds is {marked!r}; it must be a number from 1 on or a list of seeds")
    return seeds


def _marked(item: pytest.Item, name: str, default: Any) -> Any:
    """An argument of the nearest marker that has it."""
    for marker in item.iter_markers(_MARKER):
        if marker.args or marker.kwargs.keys() - {"seeds", "faults"}:
            _fail(f"@pytest.mark.{_MARKER} takes seeds= and faults=, and nothing else")
        if name in marker.kwargs:
            return marker.kwargs[name]
    return default


def _plan_of(faults: FaultPlan | str) -> FaultPlan:
    from . import simulation
    from .runtime import ConfigError

    if not isinstance(faults, str):
        return faults
    try:
        plan = simulation.FaultPlan.parse(faults)
    except ConfigError as error:
        raise pytest.fail.Exception(error.message, pytrace=False) from None
    if "foreign" in faults:
        return plan
    # The bytes of a writer that does not know our locks win over what was accepted (J6). A server can not keep its word
    # then, so that happens only to those who ask for it.
    rates = {kind: rate for kind, rate in plan.rates.items() if kind != "foreign"}
    return simulation.FaultPlan(rates, plan.places)


def _name_of(item: pytest.Item) -> str:
    """As a command line in the present folder names it; its own name begins at the root of the project."""
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    return "::".join([file, *item.nodeid.split("::")[1:]])


def _from_zero(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number")
    return int(text)


def _from_one(text: str) -> int:
    number = _from_zero(text)
    if number == 0:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


def _fail(text: str) -> NoReturn:
    # The lines of this module say nothing to whoever reads the failure.
    pytest.fail(text, pytrace=False)
