"""What a draft and a process remember of calls with request ids: first outcomes, refusals, and what is none."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.runtimes import refused
from kit.stores import OpenedStore
from strataflow.store import CallError, ConflictError, Draft, Receipt, Refusals, Requests, StoreError, requests

RECEIPT = Receipt(True, ("global",), 1, "g1c0s0")


def conflict() -> ConflictError:
    return ConflictError("E_CONFLICT", "changed", conflicts=[])


def raising(error: Exception) -> Any:
    def stage() -> Receipt:
        raise error

    return stage


@holds("Ours-12")
def test_a_call_is_staged_once_and_its_receipt_given_again() -> None:
    found = Requests()

    def stage() -> Receipt:
        found.accept("r", RECEIPT)
        return RECEIPT

    assert found.known("r") is None
    assert found.once("r", stage) is RECEIPT
    assert found.once("r", raising(AssertionError())) is RECEIPT
    assert found.find("r") is RECEIPT
    assert found.refused() == []


@holds("Ours-12")
def test_a_refusal_is_raised_again_as_an_error_of_its_own() -> None:
    found = Requests()
    first = CallError("E_INDEX", "no such element", path="a[3]")
    for error in (first, CallError("E_NULL", "another one")):
        with refused("E_INDEX") as caught:
            found.once("r", raising(error))
        assert (caught.value.message, caught.value.data) == ("no such element", {"path": "a[3]"})
    assert caught.value is not first
    [(request_id, kept)] = found.refused()
    assert (request_id, kept.code) == ("r", "E_INDEX")
    assert kept.__traceback__ is None


@pytest.mark.parametrize("code", ["E_BUSY", "E_DISK", "E_BROKEN", "E_CLOSED", "E_CHANGED", "E_CORRUPT", "E_ABORTED"])
def test_what_the_store_could_not_do_is_no_outcome(code: str) -> None:
    found = Requests()
    with refused(code):
        found.once("r", raising(StoreError(code, "not now")))
    assert found.find("r") is None
    assert found.once("r", lambda: RECEIPT) is RECEIPT


def test_a_withdrawn_call_is_no_outcome_either() -> None:
    found = Requests()
    with refused("E_ABORTED"):
        found.once("r", raising(CallError("E_ABORTED", "withdrawn")))
    assert found.refused() == []


@holds("Ours-12")
def test_a_conflict_is_told_but_does_not_stop_the_next_attempt() -> None:
    found = Requests()
    with refused("E_CONFLICT"):
        found.once("r", raising(conflict()))
    [(_, kept)] = found.refused()
    assert kept.code == "E_CONFLICT"
    later = Requests({"r": kept}.get)
    assert later.find("r") is kept
    assert later.known("r") is None
    assert later.once("r", lambda: RECEIPT) is RECEIPT


def test_without_a_request_id_every_call_is_staged() -> None:
    found = Requests(raising(AssertionError()))
    assert found.known(None) is None
    for _ in range(2):
        with refused("E_INDEX"):
            found.once(None, raising(CallError("E_INDEX", "no")))
    assert found.refused() == []


@holds("Ours-12")
def test_the_newest_refusals_are_kept_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requests.REFUSALS_KEPT == 10_000
    monkeypatch.setattr(requests, "REFUSALS_KEPT", 3)
    kept = Refusals()
    kept.keep((name, CallError("E_INDEX", name)) for name in "abca")  # told again, a is the newest of them
    kept.keep([("d", CallError("E_INDEX", "d"))])
    assert {name: kept.get(name) is not None for name in "abcd"} == {"a": True, "b": False, "c": True, "d": True}


def test_what_is_kept_of_a_refusal_keeps_nothing_else_alive() -> None:
    class Large:
        """Stands for everything that the frames of a call hold."""

    found = Requests()

    def call() -> weakref.ref[Large]:
        large = Large()
        with refused("E_INDEX"):
            found.once("r", raising(CallError("E_INDEX", "no")))
        return weakref.ref(large)

    seen = call()
    gc.collect()
    assert seen() is None
    assert found.refused()


@holds("Ours-12", "design M2")
def test_calls_of_one_draft_see_each_others_outcomes(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path / "state-flow") as store:

        def stage(draft: Draft) -> list[Receipt]:
            first = draft.stage_patch(store.default, {"global": {"working": {"n": 1, "list": [0]}}}, "r")
            again = draft.stage_patch(store.default, {"global": {"working": {"n": 2}}}, "r")
            with refused("E_INDEX"):
                draft.stage_patch(store.default, {"global": {"working": {"list": {"[4]": 1}}}}, "s")
            other = draft.stage_patch(store.default, {"global": {"working": {"list": [1, 2, 3, 4]}}})
            with refused("E_INDEX"):
                draft.stage_patch(store.default, {"global": {"working": {"list": [5]}}}, "s")
            assert len(draft.rows) == 2
            return [first, again, other]

        first, again, other = store.commit(stage)
        assert first == again
        assert (first.seq, other.seq) == (1, 2)
        assert store.read("global.working") == {"n": 1, "list": [1, 2, 3, 4]}


@holds("Ours-12")
def test_a_call_that_changes_nothing_is_remembered_by_an_empty_row(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path / "state-flow") as store:
        first = store.patch(session={"working": {"n": None}}, request_id="r")
        assert not first.changed
        assert store.memory.image(store.default.scope("session")).state is None  # it got no private memory by this
        store.patch(session={"working": {"n": 1}})
        assert store.patch(session={"working": {"n": None}}, request_id="r") == first
        assert store.read("session.working.n") == 1
        assert store.memory.revision(store.default) == "g0c0s1"


def test_empty_rows_of_requests_are_pruned_though_no_file_changes(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path / "state-flow", level="process") as store:
        store.patch(global_={"working": {"n": 1}})
        store.checkpoint()
        for number in range(130):
            store.patch(global_={"working": {"n": 1}}, request_id=f"r{number}")
        report = store.checkpoint()
        assert (report.files, report.pruned_rows) == (0, 30 - 1)
        assert all(store.outcome(f"r{number}") is not None for number in range(130))
