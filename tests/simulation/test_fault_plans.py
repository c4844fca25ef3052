"""Fault plans as text and JSON, and what they refuse."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strataflow import ConfigError
from strataflow.simulation import KINDS, Fault, FaultPlan

DETAILS = {
    "power": "torn:7",
    "enospc": "3",
    "short": "0",
    "readonly": "0.5",
    "slow": "0.002:14",
    "freeze": "8:kill",
    "cancel": "5",
    "stop": "2:1",
    "jump": "-60000",
    "foreign": "12",
}
PLACES = st.sampled_from([*KINDS]).flatmap(
    lambda kind: st.builds(Fault, st.just(kind), st.integers(1, 10**9), st.sampled_from(["", DETAILS.get(kind, "")]))
)
PLANS = st.builds(
    FaultPlan,
    st.dictionaries(st.sampled_from([*KINDS]), st.sampled_from([0.5, 0.25, 0.001, 1.0])),
    st.lists(PLACES, max_size=4).map(tuple),
)


@given(PLANS)
def test_a_plan_is_the_same_after_text_json_and_pickle(plan: FaultPlan) -> None:
    assert FaultPlan.parse(str(plan)) == plan
    assert FaultPlan.from_json(plan.to_json()) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_names_rates_and_places_can_be_mixed_by_hand() -> None:
    plan = FaultPlan.parse("default, kill=0.5, power@903:torn:7, busy")
    assert plan.rates == {**FaultPlan.default().rates, "kill": 0.5}
    assert plan.places == (Fault("power", 903, "torn:7"),)
    assert FaultPlan.parse("none") == FaultPlan.parse("") == FaultPlan.none()
    assert (str(FaultPlan.none()), str(FaultPlan.default())) == ("none", "default")


def test_the_default_plan_has_every_kind_of_fault() -> None:
    assert set(FaultPlan.default().rates) == set(KINDS)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("kil=0.1", "there is no fault"),
        ("kil@7", "there is no fault"),
        ("kill=2", "from 0 to 1"),
        ("kill=-1", "from 0 to 1"),
        ("kill=nan", "from 0 to 1"),
        ("kill=often", "is none of"),
        ("kill@0", "a number from 1"),
        ("kill@soon", "a number from 1"),
        ("sometimes", "is none of"),
        ("power@3:upside-down", "detail"),
        ("freeze@3:long", "detail"),
        ("cancel@1:x", "detail"),
        ("kill@1:x", "detail"),
    ],
)
def test_a_bad_plan_is_refused_with_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        FaultPlan.parse(text)
    assert caught.value.code == "E_CONFIG"


@pytest.mark.parametrize(
    "document", [None, 7, [], {}, {"rates": {}}, {"rates": {}, "places": [{}]}, {"rates": 1, "places": []}]
)
def test_a_document_that_is_no_plan_is_refused(document: object) -> None:
    with pytest.raises(ConfigError):
        FaultPlan.from_json(document)
