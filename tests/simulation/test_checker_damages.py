"""Correct histories are judged correct, and one damage makes them wrong under its own name: a checker that can not fail
is a defect.

The histories come from a perfect store (``kit/perfect_histories``), the damages from ``kit/damaged_histories``.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kit.damaged_histories import DAMAGES, Damage, damaged
from kit.perfect_histories import Chronicle, perfect_history
from strataflow.runtime.simulation.checker import RULES, check, is_explainable, told
from strataflow.runtime.simulation.history import call_from

# What is judged by hand-made histories only: an offset is not part of those that are made by chance.
BY_HAND = {"wrong-past"}
CASES = [pytest.param(rule, damage, id=damage.__name__) for rule, damages in DAMAGES.items() for damage in damages]
TIMES = 12
# Damages of answers and reads: the end stays true, so every violation must be proven by its calls alone.
OF_ANSWERS = {
    "not-serializable",
    "stale-read",
    "future-read",
    "false-conflict",
    "forgotten-request",
    "wrong-revision",
}


def test_every_rule_has_a_damage_that_breaks_it() -> None:
    assert DAMAGES.keys() | BY_HAND == RULES.keys()


@settings(print_blob=True, deadline=None, max_examples=80)
@given(st.integers(0, 2**32), st.sampled_from([15, 40, 100]))
def test_a_correct_history_is_judged_correct(seed: int, calls: int) -> None:
    chronicle = perfect_history(seed, calls)
    found = check(chronicle.history)
    assert found == [], "\n".join(told(violation, chronicle.history) for violation in found)


def test_a_correct_history_is_as_correct_after_it_was_written_down() -> None:
    for seed in range(20):
        history = perfect_history(seed).history
        history.calls = [call_from(call.to_json()) for call in history.calls]
        assert check(history) == []


@pytest.mark.parametrize("rule, damage", CASES)
def test_a_damage_is_found_under_its_name(rule: str, damage: Damage) -> None:
    count = 0
    for seed in range(400):
        chronicle = damaged(seed, damage)
        if chronicle is None:
            continue
        count += 1
        if count > TIMES:
            return
        found = check(chronicle.history)
        texts = [told(violation, chronicle.history) for violation in found]
        assert rule in {violation.rule for violation in found}, f"seed {seed}\n" + "\n".join(texts)
    pytest.fail(f"the damage finds only {count} places")


@settings(print_blob=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.integers(2**16, 2**32), st.sampled_from(CASES))
def test_a_damage_anywhere_is_found_under_its_name(seed: int, case: object) -> None:
    rule, damage = case.values  # type: ignore[attr-defined]
    chronicle = damaged(seed, damage)
    assume(chronicle is not None)
    assert chronicle is not None
    assert rule in {violation.rule for violation in check(chronicle.history)}, (rule, damage.__name__, seed)


@pytest.mark.parametrize("rule, damage", [case for case in CASES if case.values[0] in OF_ANSWERS])
def test_without_any_one_of_the_named_calls_the_rest_is_explainable(rule: str, damage: Damage) -> None:
    for seed in range(10):
        chronicle = damaged(seed, damage)
        for violation in check(chronicle.history) if chronicle is not None else ():
            assert chronicle is not None
            text = f"seed {seed}: {told(violation, chronicle.history)}"
            assert violation.calls, text
            assert not is_explainable(chronicle.history, violation.calls), text
            for number in violation.calls:
                rest = set(violation.calls) - {number}
                assert is_explainable(chronicle.history, rest), f"{text}\nwithout {number}"


def test_no_set_of_calls_of_a_correct_history_is_impossible() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        history = perfect_history(seed).history
        numbers = [call.number for call in history.calls]
        for size in (0, 1, 3, 6):
            chosen = chance.sample(numbers, size)
            assert is_explainable(history, chosen), (seed, sorted(chosen))


@pytest.mark.slow
def test_many_thousand_calls_are_judged_without_growing_slower() -> None:
    chronicle = Chronicle(random.Random("many"))
    chronicle.write(10_000)
    assert check(chronicle.history) == []
