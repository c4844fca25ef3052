"""The page about simulation names every fault, every rule and every member that there is."""

from __future__ import annotations

import inspect
import re

import attrs
import pytest

from kit.documents import code_words
from kit.source_tree import package_modules, read
from strataflow import simulation
from strataflow.runtime.simulation.checker import RULES
from strataflow.simulation import KINDS, FaultPlan, Process, Report

WORDS = set(code_words(read("docs/reference/simulation.md")))
NAMED = {name for word in WORDS for name in re.findall(r"[\w-]+", word)}


def test_every_kind_of_fault_is_described() -> None:
    assert set(KINDS) <= WORDS


def test_every_rule_that_can_be_violated_is_described() -> None:
    found = set(RULES)
    for path in package_modules():
        if path.startswith("runtime/simulation/") and "/checker/" not in path:
            found |= set(re.findall(r"(?:found|Violation)\(\s*\"([a-z-]+)\"", read(path)))
    assert len(found) > len(RULES)
    assert found <= WORDS


def test_every_public_name_and_parameter_is_described() -> None:
    assert set(simulation.__all__) <= NAMED
    assert set(inspect.signature(simulation.simulate).parameters) <= NAMED


@pytest.mark.parametrize("kind", [Report, Process, FaultPlan])
def test_every_public_member_is_described(kind: type) -> None:
    members = {name for name in vars(kind) if not name.startswith("_")} | {item.name for item in attrs.fields(kind)}
    internal = {"attach", "detach", "end", "scope", "gone", "is_gone", "is_opening_or_closing", "program", "has_opened"}
    public = {name for name in members if not name.startswith("_")} - internal
    assert public - NAMED == set()
