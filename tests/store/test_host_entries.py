"""The policy that a session's own log leads to: checkpoints, markers, old and malformed forms."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from strataflow.store import CHECKPOINT_ENTRY, MARKER_ENTRY, HostPolicy, checkpoint_data, read_policy


def checkpoint(**data: Any) -> dict[str, Any]:
    return {"type": "custom", "customType": CHECKPOINT_ENTRY, "data": data}


def marker(**data: Any) -> dict[str, Any]:
    return {"type": "custom", "customType": MARKER_ENTRY, "data": {"owner": "me", "at": 5, **data}}


def message(role: str = "user") -> dict[str, Any]:
    return {"type": "message", "message": {"role": role}}


def policy(*entries: dict[str, Any]) -> HostPolicy:
    """What entries, oldest first, say."""
    return read_policy(entries, "me", "passive")


@holds("store 6.3.1")
def test_a_checkpoint_says_mode_step_and_the_unfinished_prompt() -> None:
    data = checkpoint_data("t1", "active", 3, bootstrap=True, specification="go")
    assert data == {"boundary": "t1", "mode": "active", "step": 3, "bootstrap": True, "specification": "go"}
    found = policy(checkpoint(**data))
    assert (found.mode, found.step, found.bootstrap, found.specification) == ("active", 3, True, "go")
    assert checkpoint_data(None, "off") == {"mode": "off"}
    assert policy(checkpoint(mode="off")).mode == "off"


@holds("store 6.3.1", "store 6.3.3")
@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "active"},
        {"mode": "loud"},
        {"boundary": " ", "mode": "active", "step": 1},
        {"boundary": "t", "mode": "active", "step": -1},
        {"boundary": "t", "mode": "active", "step": True},
        {"boundary": "t", "mode": "active", "step": 1, "bootstrap": False},
        {"boundary": "t", "mode": "active", "step": 1, "extra": 1},
        {"boundary": "t", "mode": "active", "enabled": True, "step": 1},
        {"boundary": "t", "mode": "active", "step": 1, "specification": 1},
        {},
    ],
)
def test_a_malformed_checkpoint_is_skipped_and_alone_leaves_nothing_to_select(wrong: dict[str, Any]) -> None:
    assert policy(checkpoint(mode="off"), checkpoint(**wrong)).mode == "off"
    assert policy(checkpoint(mode="off"), checkpoint(**wrong)).skipped == 1
    found = policy(checkpoint(**wrong))
    assert (found.mode, found.is_unavailable, found.is_new) == (None, True, False)


@holds("store 6.3.2", "case store 94", "case store 95")
def test_old_forms_are_read_and_an_unsupported_one_stops_the_search() -> None:
    found = policy(checkpoint(mode="off"), checkpoint(boundary="t3", enabled=True, step=3), checkpoint(broken=1))
    assert (found.boundary, found.mode, found.skipped) == ("t3", "active", 1)
    assert policy(checkpoint(disabled=True)).mode == "passive"
    assert policy(checkpoint(boundary="t", enabled=False, step=0)).mode == "passive"
    assert read_policy([checkpoint(disabled=True)], "me", "off").mode == "off"
    stopped = policy(checkpoint(disabled=True), checkpoint(revision="r"))
    assert (stopped.mode, stopped.is_unavailable) == (None, True)


@holds("store 6.3.4", "L2")
def test_a_marker_of_the_owner_overrides_and_a_later_checkpoint_ends_it() -> None:
    active = checkpoint(boundary="t", mode="active", step=1)
    stop = marker(mode="passive", persistenceError="disk full", preserveContext=True, **{"from": "active"})
    found = policy(active, stop)
    assert (found.mode, found.fence, found.left_active_at, found.keeps_context) == ("passive", "disk full", 5.0, True)
    later = policy(active, stop, checkpoint(boundary="t", mode="passive", step=1))
    assert (later.mode, later.fence, later.left_active_at) == ("passive", None, 5.0)
    ended = policy(active, stop, marker(reset=True))
    assert (ended.fence, ended.left_active_at) == (None, None)
    assert policy(active, marker(mode="off", memoryDeferred=True)).mode == "off"
    assert policy(marker(forkPending=True)).is_fork_pending


@holds("store 6.3.4")
def test_markers_of_another_session_do_not_count_and_ownerless_ones_give_a_boundary_alone() -> None:
    other = marker(owner="other", mode="off", persistenceError="x", **{"from": "active"})
    assert policy(checkpoint(mode="passive"), other) == policy(checkpoint(mode="passive"))
    ownerless = marker(owner=None, mode="off", persistenceError="x", **{"from": "active"})
    found = policy(checkpoint(mode="passive"), ownerless)
    assert (found.mode, found.fence, found.left_active_at) == ("passive", None, 5.0)


@holds("L1", "store 6.2.1", "L6", "store 6.2.5")
def test_a_log_is_new_until_somebody_spoke_or_a_mode_was_recorded() -> None:
    assert policy().is_new
    assert policy({"type": "model_change"}, message("custom")).is_new
    assert not policy(message()).is_new
    assert not policy(checkpoint(mode="off")).is_new
    assert policy(checkpoint(mode="passive"), message()).has_news
    assert not policy(message(), checkpoint(mode="passive")).has_news
