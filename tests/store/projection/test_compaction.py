"""Compaction of completed history (C30 to C34, cases 145 to 147)."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest

from kit.holds import holds
from strataflow.store.projection import (
    CompactionPlan,
    CompactionRequest,
    CompactionSituation,
    Compactor,
    NativeCompaction,
    answer_compaction,
    ask_compaction,
    compaction_plan,
)

Json = dict[str, Any]
ANCHOR = 20


def entry(number: int, role: str, timestamp: int, **more: Any) -> Json:
    message = {"role": role, "timestamp": timestamp, "content": [], **more}
    return {"type": "message", "id": f"e{number}", "message": message}


def branch(*before: Json, stop: str = "stop") -> list[Json]:
    return [
        entry(1, "user", 10),
        entry(2, "assistant", 11, stopReason="stop"),
        *before,
        entry(3, "user", ANCHOR),
        entry(4, "user", 21),
        entry(5, "assistant", 22, stopReason=stop),
    ]


def custom(name: Any, kind: str = "custom") -> Json:
    return {"type": kind, "id": "x", "customType": name}


NOW = CompactionSituation(
    mode="active",
    run="run-1",
    is_idle=True,
    has_queued_input=False,
    is_loaded=True,
    is_in_flight=False,
    usage_tokens=24_000,
    transcript_tokens=24_000,
    anchor=ANCHOR,
    boundary="b9",
    step=9,
)


def asked(run: str = "run-1", request_id: str = "r1", compactor: Compactor | None = None) -> Any:
    """A compactor that has asked, and what it asked for."""
    compactor, request = ask_compaction(compactor or Compactor("i"), attrs.evolve(NOW, run=run), branch(), request_id)
    assert isinstance(request, CompactionRequest)
    return compactor, request


def hook(request: CompactionRequest, **more: Any) -> NativeCompaction:
    fields = {"reason": "manual", "instructions": request.marker, "leaf": "e5", "tokens_before": 30_000}
    return NativeCompaction(**{**fields, "mode": "active", **more})


@holds("C30", "C31", "case agent 145")
def test_a_settled_run_over_a_large_transcript_is_asked_for_once() -> None:
    compactor, request = asked()
    assert request.marker == "state-flow-boundary:i:r1"
    assert (request.first_kept_entry, request.leaf, request.boundary, request.step) == ("e3", "e5", "b9", 9)
    assert ask_compaction(compactor, NOW, branch(), "r2")[1] == "done"


@holds("C30", "case agent 145")
@pytest.mark.parametrize(
    "member, value, refusal",
    [
        ("mode", "passive", "mode"),
        ("run", None, "run"),
        ("is_idle", False, "busy"),
        ("has_queued_input", True, "queue"),
        ("is_loaded", False, "view"),
        ("is_in_flight", True, "flight"),
        ("usage_tokens", 23_999, "usage"),
        ("usage_tokens", None, "usage"),
        ("transcript_tokens", 23_999, "transcript"),
    ],
)
def test_each_condition_alone_is_enough_not_to_ask(member: str, value: Any, refusal: str) -> None:
    compactor = Compactor("i")
    assert ask_compaction(compactor, attrs.evolve(NOW, **{member: value}), branch(), "r1") == (compactor, refusal)


@holds("C31")
@pytest.mark.parametrize("stop", ["aborted", "error", "length"])
def test_a_run_that_ended_badly_is_not_compacted(stop: str) -> None:
    assert compaction_plan(branch(stop=stop), ANCHOR) == "answer"
    assert ask_compaction(Compactor("i"), NOW, branch(stop=stop), "r1")[1] == "answer"


@holds("C31", "case agent 146")
def test_the_anchor_must_be_one_user_entry_before_the_answer() -> None:
    assert compaction_plan(branch(), ANCHOR) == CompactionPlan("e3")
    assert compaction_plan(branch(), 99) == "anchor"
    assert compaction_plan(branch(), None) == "anchor"
    assert compaction_plan(branch(entry(9, "user", ANCHOR)), ANCHOR) == "anchor"
    assert compaction_plan([entry(1, "assistant", 1), entry(2, "user", ANCHOR)], ANCHOR) == "anchor"
    assert compaction_plan([entry(2, "user", ANCHOR)], ANCHOR) == "answer"
    assert compaction_plan([], ANCHOR) == "answer"


@holds("C31", "case agent 146")
@pytest.mark.parametrize(
    "odd, is_foreign",
    [
        (custom("todo"), True),
        (custom(None), True),
        (custom("codemode-store-2"), True),
        (custom("state-flow-note", "custom_message"), True),
        (custom("state-flow-snapshot"), False),
        (custom("codemode-store"), False),
        ({"type": "label", "id": "x", "targetId": "e1"}, False),
    ],
)
def test_nothing_foreign_may_stand_before_the_anchor(odd: Json, is_foreign: bool) -> None:
    assert compaction_plan(branch(odd), ANCHOR) == ("foreign" if is_foreign else CompactionPlan("e3"))
    assert compaction_plan([*branch(), odd], ANCHOR) == CompactionPlan("e3")


@holds("C32")
def test_the_own_marker_is_answered_with_a_fixed_summary() -> None:
    compactor, request = asked()
    found = answer_compaction(compactor, hook(request))
    assert not isinstance(found, str)
    assert found.to_json() == {
        "summary": found.summary,
        "firstKeptEntryId": "e3",
        "tokensBefore": 30_000,
        "details": {"version": 1, "owner": "state-flow", "boundary": "b9", "step": 9},
    }


@holds("C33", "case agent 147")
@pytest.mark.parametrize("reason", ["manual", "threshold", "overflow"])
@pytest.mark.parametrize("instructions", [None, "", "keep the tests"])
def test_compactions_of_others_pass_untouched(
    reason: Literal["manual", "threshold", "overflow"], instructions: str | None
) -> None:
    compactor, request = asked()
    for state in (compactor, compactor.shut(), Compactor("i")):
        assert answer_compaction(state, hook(request, reason=reason, instructions=instructions)) == "pass"


@holds("C33", "C34", "case agent 147")
def test_an_own_marker_out_of_time_is_cancelled() -> None:
    compactor, request = asked()
    for change in (
        {"mode": "passive"},
        {"mode": "off"},
        {"is_cancelled": True},
        {"leaf": "e6"},
        {"instructions": "state-flow-boundary:other:r1"},
    ):
        assert answer_compaction(compactor, hook(request, **change)) == "cancel", change
    assert answer_compaction(compactor.shut(), hook(request)) == "cancel"
    assert answer_compaction(compactor.settle(request.marker), hook(request)) == "cancel"
    newer, second = asked("run-2", "r2", compactor)
    assert answer_compaction(newer, hook(request)) == "cancel"
    assert answer_compaction(newer, hook(second)) not in ("cancel", "pass")


@holds("C34")
def test_a_late_completion_clears_only_its_own_request() -> None:
    compactor, first = asked()
    compactor, second = asked("run-2", "r2", compactor)
    compactor = compactor.settle(first.marker)
    assert compactor.pending == second
    assert compactor.settle(second.marker).pending is None


@holds("C34")
def test_after_a_refusal_a_later_run_may_try_with_a_new_marker() -> None:
    compactor, first = asked()
    compactor = compactor.settle(first.marker)
    assert ask_compaction(compactor, NOW, branch(), "r2")[1] == "done"
    compactor, second = asked("run-2", "r2", compactor)
    assert second.marker != first.marker
    assert ask_compaction(compactor.shut(), attrs.evolve(NOW, run="run-3"), branch(), "r3")[1] == "shut"
