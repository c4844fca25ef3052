"""The pure decision: the whole table, and laws over random histories."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strataflow.actors import supervision
from strataflow.actors.limits import RESTART_DELAY_S_MAX, RESTARTS_DEFAULT
from strataflow.actors.supervision import (
    Budget,
    ChildSpec,
    Done,
    GiveUp,
    Outcome,
    Restart,
    RestartPolicy,
    decide,
    recent,
)

POLICIES: tuple[RestartPolicy, ...] = get_args(RestartPolicy)
RESTARTED = {
    ("permanent", Outcome.RETURNED),
    ("permanent", Outcome.FAILED),
    ("transient", Outcome.FAILED),
}

budgets = st.builds(Budget, restarts=st.integers(0, 6), within_s=st.floats(0.5, 100))
gaps = st.lists(st.floats(0, 60), max_size=30)


def spec(restart: RestartPolicy, budget: Budget | None = None) -> ChildSpec[None]:
    return ChildSpec("child", None, restart, Budget() if budget is None else budget)


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("restart", POLICIES)
def test_a_fresh_child_is_judged_by_the_table(restart: RestartPolicy, outcome: Outcome) -> None:
    expected = Restart(0.0) if (restart, outcome) in RESTARTED else Done()
    assert decide(spec(restart), (), outcome, 100.0) == expected


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("restart", POLICIES)
def test_a_used_up_budget_is_given_up_where_a_restart_was_due(restart: RestartPolicy, outcome: Outcome) -> None:
    expected = GiveUp() if (restart, outcome) in RESTARTED else Done()
    assert decide(spec(restart), (99.0,) * RESTARTS_DEFAULT, outcome, 100.0) == expected


def test_a_budget_of_zero_never_restarts() -> None:
    assert decide(spec("permanent", Budget(0, 1)), (), Outcome.FAILED, 0.0) == GiveUp()


def test_delays_begin_at_once_and_double() -> None:
    budget = Budget(restarts=9, within_s=100)
    delays = []
    for count in range(8):
        decision = decide(spec("permanent", budget), (0.0,) * count, Outcome.FAILED, 1.0)
        assert isinstance(decision, Restart)
        delays.append(decision.delay_s)
    assert delays == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_thousands_of_restarts_do_not_overflow_the_delay() -> None:
    decision = decide(spec("permanent", Budget(10**5, 10)), (0.0,) * 50_000, Outcome.FAILED, 1.0)
    assert decision == Restart(RESTART_DELAY_S_MAX)


def test_a_restart_leaves_the_window_exactly_at_its_end() -> None:
    budget = Budget(restarts=1, within_s=10)
    assert recent((0.0,), budget, 9.999) == (0.0,)
    assert recent((0.0,), budget, 10.0) == ()
    assert decide(spec("permanent", budget), (0.0,), Outcome.FAILED, 10.0) == Restart(0.0)


@given(budget=budgets, lives_s=gaps)
def test_no_window_ever_sees_more_restarts_than_the_budget(budget: Budget, lives_s: list[float]) -> None:
    granted: list[float] = []
    now = 0.0
    for life_s in lives_s:
        now += life_s
        decision = decide(spec("permanent", budget), granted, Outcome.FAILED, now)
        if isinstance(decision, GiveUp):
            break
        assert isinstance(decision, Restart)
        granted.append(now)
        now += decision.delay_s
    for index, start in enumerate(granted):
        assert sum(moment - start < budget.within_s for moment in granted[index:]) <= budget.restarts


@given(budget=budgets)
def test_a_crash_loop_ends_after_its_budget(budget: Budget) -> None:
    budget = attrs.evolve(budget, within_s=budget.within_s + budget.restarts * RESTART_DELAY_S_MAX)
    history: tuple[float, ...] = ()
    now = 5.0
    for restarts in itertools.count():
        decision = decide(spec("transient", budget), history, Outcome.FAILED, now)
        if isinstance(decision, GiveUp):
            assert restarts == budget.restarts
            return
        assert isinstance(decision, Restart)
        history = (*recent(history, budget, now), now)
        now += decision.delay_s


@given(budget=budgets, history=st.lists(st.floats(0, 100)), now=st.floats(100, 200))
def test_forgetting_old_restarts_changes_no_decision(budget: Budget, history: list[float], now: float) -> None:
    child = spec("permanent", budget)
    pruned = recent(history, budget, now)
    assert decide(child, history, Outcome.FAILED, now) == decide(child, pruned, Outcome.FAILED, now)


@given(policy=st.sampled_from(POLICIES), outcome=st.sampled_from(Outcome), history=st.lists(st.floats(0, 9)))
def test_a_delay_is_finite_and_bounded(policy: RestartPolicy, outcome: Outcome, history: list[float]) -> None:
    decision = decide(spec(policy, Budget(50, 10)), history, outcome, 9.0)
    if isinstance(decision, Restart):
        assert 0 <= decision.delay_s <= RESTART_DELAY_S_MAX


@pytest.mark.parametrize(
    "make",
    [
        lambda: Budget(-1, 1.0),
        lambda: Budget(1, 0.0),
        lambda: Budget(1, float("inf")),
        lambda: ChildSpec("child", None, "sometimes"),  # type: ignore[arg-type]
        lambda: ChildSpec("child", None, shutdown_s=-1.0),
        lambda: ChildSpec("child", None, shutdown_s=float("inf")),
    ],
)
def test_senseless_data_is_a_programming_error(make: object) -> None:
    with pytest.raises(AssertionError):
        make()  # type: ignore[operator]


def test_the_decision_imports_nothing_that_waits() -> None:
    tree = ast.parse(Path(supervision.__file__).read_text())
    names = {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names == {"__future__", "enum", "math", "collections.abc", "typing", "attrs", "limits"}
