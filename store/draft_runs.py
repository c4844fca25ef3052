"""What a session's run and its modes store, besides patches and answers: preparations and activations (store 3.5, 6.1).

Like the calls of a draft they change it and return, or raise and leave it as it was.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from .algebra import SCOPES, Json, ScopeName, StagedCall, stage_patch
from .documents import RunRecord
from .draft import Draft
from .draft_rows import states_of
from .layout import SessionAddress
from .receipts import Receipt


def stage_preparation(
    draft: Draft,
    address: SessionAddress,
    specification: str,
    *,
    bootstrap: bool = False,
    missing: Collection[str] = (),
) -> Receipt:
    """Stage the beginning of a run: its prompt is recorded, and cards whose source is gone are removed in every scope
    that has them (store 3.5.1, L10). Only removals are a transition.

    Args:
      missing: paths at which, a moment ago, certainly nothing was.

    Raises:
      StoreError: as ``Draft.stage_patch``.
    """
    trio = draft.writable(address)
    states = states_of(trio)
    patches: dict[ScopeName, Json] = {}
    for name in SCOPES:
        cards = states[name].value.get("artifacts", {})
        removed: Json = {path: None for path in missing if path in cards}
        if removed:
            patches[name] = {"artifacts": removed}
    staged = stage_patch(states, patches) if patches else StagedCall({}, {})
    before = trio[2].run or RunRecord("active")
    prepared = attrs.evolve(before, specification=specification, bootstrap=before.bootstrap or bootstrap)
    return draft.accept(address, trio, staged, tuple(patches), ended=prepared)


def stage_activation(draft: Draft, address: SessionAddress, *, bootstrap: bool) -> None:
    """Stage the choice of active: an old prompt is dropped, private memory is created where there is none (L25).

    Args:
      bootstrap: whether there is a conversation that memory does not know of.
    """
    trio = draft.readable(address)
    run = trio[2].run
    if run is None:
        draft.create(address, trio, RunRecord("active", bootstrap=bootstrap))
        return
    active = RunRecord("active", run.step, run.bootstrap or bootstrap)
    if active != run:
        draft.add("lifecycle", address, trio, run=active)


def stage_bootstrap(draft: Draft, address: SessionAddress) -> None:
    """Stage that the next run still carries the conversation from before (store 6.2.5)."""
    trio = draft.readable(address)
    run = trio[2].run
    if run is not None and not run.bootstrap:
        draft.add("lifecycle", address, trio, run=attrs.evolve(run, bootstrap=True))
