"""Defects that are planted into the store and its actors are found by the simulator, each within its number of seeds.

Goal: whoever breaks a promise is caught, and a healthy store is not accused. Method: the code of a function is replaced
for one run (``kit.planting``); its worlds are run until one is found wrong, by a rule that was stated before; the same
world without the defect must be well.
"""

from __future__ import annotations

import pytest

from kit.planted_bugs import PAGE, Bug, page_with, rows
from kit.planted_bugs_list import BUGS
from kit.planting import Edit, function_of, planted


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name.replace(" ", "-") for bug in BUGS])
def test_each_planted_defect_is_found_within_its_number_of_seeds(bug: Bug) -> None:
    for seed in bug.seeds():
        report = bug.world(seed, is_planted=True)
        if not report.is_ok:
            found = {violation.rule for violation in report.violations}
            assert found & bug.rules, report.to_text()
            bug.world(seed, is_planted=False).require_ok()
            return
    raise AssertionError(f"not found in {bug.within} worlds: {bug.name}")


def test_there_are_at_least_fifteen_defects_and_no_two_of_one_name() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 15


def test_the_published_table_is_the_list_of_defects() -> None:
    assert PAGE.read_text() == page_with(rows(BUGS)), "write it anew: PYTHONPATH=tests python -m kit.planted_bugs"


def test_the_product_is_as_before_when_a_defect_is_gone() -> None:
    for bug in BUGS:
        functions = [function_of(edit.where) for edit in bug.edits]
        before = [function.__code__ for function in functions]
        with planted(bug.edits):
            assert all(function.__code__ is not code for function, code in zip(functions, before, strict=True))
        assert [function.__code__ for function in functions] == before


def test_a_defect_whose_place_is_gone_from_the_product_is_refused() -> None:
    with pytest.raises(AssertionError, match="is there 0 times"), planted([Edit("store.renames:carry_out", "no such")]):
        pass
