"""The answer to a call that changes memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from .algebra import SCOPES, Json, MissingDeletion, ScopeName, ScopeState, detach, pointer_token


@attrs.frozen(eq=False)
class Before:
    """What a call found: global, cwd and session, which nobody mutates, and its net records."""

    states: tuple[ScopeState, ScopeState, ScopeState]
    records: Mapping[ScopeName, Json]


@attrs.frozen
class Receipt:
    """The answer to a call that changes memory.

    Attributes:
      changed: whether a transition was accepted.
      scopes: the scopes given, in the order global, cwd, session.
      step: accepted transitions in this session's life.
      revision: the vector of the three revisions, such as ``"g1c0s2"``.
      missing_deletions: authored deletions of what was not there.
      cascaded: read paths of what was deleted together with the intent that owned it.
      text: the acknowledgement for a model.
      transition_id: None if nothing changed.
      seq: the newest row of the journal this answer rests on.
    """

    changed: bool
    scopes: tuple[ScopeName, ...]
    step: int
    revision: str
    missing_deletions: tuple[MissingDeletion, ...] = ()
    cascaded: tuple[str, ...] = ()
    text: str = ""
    transition_id: str | None = None
    seq: int = 0
    # Shared with memory: to work out what was replaced costs nothing until somebody asks.
    _before: Before | None = attrs.field(default=None, eq=False, repr=False)
    _reconcile: Callable[[], Json | None] | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def state_updates(self) -> Json | None:
        """What the author of a patch could not foresee: ``{projection, effective, lazy_navigation, cascaded}``, the
        last two only if there is something to tell; None if everything came out as written.

        ``projection`` is the id of the prompt's head that this updates, None if there is none yet. A model gets it with
        the result of its call. None also for a call that was not a patch, and for one that was remembered by its
        request id alone.
        """
        return self._reconcile() if self._reconcile is not None else None

    @property
    def replaced(self) -> Json:
        """The arrays and scalars that the call replaced or deleted: JSON Pointer, scope first -> what was there.

        A dict of your own, worked out when it is asked for; a receipt that is kept keeps the old values alive. Empty if
        this is the receipt of an earlier call that was remembered by its request id.
        """
        before = self._before
        if before is None:
            return {}
        found: Json = {}
        for name, state in zip(SCOPES, before.states, strict=True):
            if name in before.records:
                found.update(_replaced(state.value, before.records[name], f"/{name}"))
        return found

    def to_json(self) -> Json:
        """The result of ``patch_state`` as the tool protocol gives it."""
        updates = self.state_updates
        return self._kept() if updates is None else {**self._kept(), "state_updates": updates}

    def _kept(self) -> Json:
        """What is kept of it under a request id: everything that does not depend on what was told before."""
        return {
            "changed": self.changed,
            "scopes": list(self.scopes),
            "step": self.step,
            "revision": self.revision,
            "missing_deletions": [attrs.asdict(item) for item in self.missing_deletions],
            "cascaded": list(self.cascaded),
            "text": self.text,
        }


def found_by(receipt: Receipt) -> Mapping[ScopeName, ScopeState] | None:
    """The scopes that a call changed, as it found them; None if it changed nothing or is remembered by its id alone."""
    before = receipt._before
    return dict(zip(SCOPES, before.states, strict=True)) if before is not None else None


def with_updates(receipt: Receipt, reconcile: Callable[[], Json | None]) -> Receipt:
    """The receipt with what ``reconcile`` tells whenever ``state_updates`` is asked for."""
    # Written out: ``attrs.evolve`` takes as long as a lookup in the store, and this is on the way of every commit.
    return Receipt(
        receipt.changed,
        receipt.scopes,
        receipt.step,
        receipt.revision,
        receipt.missing_deletions,
        receipt.cascaded,
        receipt.text,
        receipt.transition_id,
        receipt.seq,
        receipt._before,
        reconcile,
    )


def _replaced(old: Json, record: Json, pointer: str) -> Iterator[tuple[str, Any]]:
    """What a net record replaced or deleted in an object."""
    for key, new in record.items():
        if key in old:
            place = pointer + pointer_token(key)
            if type(old[key]) is not dict:
                yield place, detach(old[key])
            elif type(new) is dict:
                yield from _replaced(old[key], new, place)
            else:
                yield from _leaves(old[key], place)


def _leaves(value: Json, pointer: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        place = pointer + pointer_token(key)
        if type(item) is dict:
            yield from _leaves(item, place)
        else:
            yield place, detach(item)


def receipt_row(receipt: Receipt) -> Json:
    """A receipt as the row of a call with a request id keeps it."""
    return {**receipt._kept(), "transition_id": receipt.transition_id, "seq": receipt.seq}


def receipt_from(document: Json) -> Receipt:
    """The inverse of ``receipt_row``."""
    return Receipt(
        changed=document["changed"],
        scopes=tuple(document["scopes"]),
        step=document["step"],
        revision=document["revision"],
        missing_deletions=tuple(MissingDeletion(**item) for item in document["missing_deletions"]),
        cascaded=tuple(document["cascaded"]),
        text=document["text"],
        transition_id=document["transition_id"],
        seq=document["seq"],
    )
