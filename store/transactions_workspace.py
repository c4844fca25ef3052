"""A moment of memory with patches laid over it, which nobody else sees.

Invariants:
  X3  A refused patch leaves everything as it was.
  X4  All patches together are one net record per scope, which leads from the accepted value to the running one (R1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import attrs

from .algebra import (
    SCOPES,
    Json,
    MissingDeletion,
    ReadError,
    ReadPath,
    ReadResult,
    ScopeName,
    ScopeState,
    StagedCall,
    View,
    hint_for,
    joined_guide,
    look,
    record_of_several,
    stage_patch,
)
from .transactions_moment import Moment


@final
@attrs.define(eq=False)
class Workspace:
    """Laid over ``moment``, which is not touched."""

    moment: Moment
    _states: dict[ScopeName, ScopeState] = attrs.field(init=False)
    _running: View = attrs.field(init=False)
    # What the patches changed, by scope: the net record of the only one, or a guide to all places of several.
    _changed: dict[ScopeName, Json] = attrs.field(factory=dict, init=False)
    _several: set[ScopeName] = attrs.field(factory=set, init=False)
    _named: set[ScopeName] = attrs.field(factory=set, init=False)
    _missing: list[MissingDeletion] = attrs.field(factory=list, init=False)
    _cascaded: list[str] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        view = self.moment.view
        self._states = dict(view.scopes)
        self._running = View(self._states, view.history, view.limit, view.unreadable)

    @property
    def names(self) -> tuple[ScopeName, ...]:
        """The scopes of all accepted patches, in their fixed order."""
        return tuple(name for name in SCOPES if name in self._named)

    def look(self, path: ReadPath, projection: str) -> ReadResult:
        """What one path shows, ``projection`` being value or keys; of the past what was accepted. Shares containers.

        Raises:
          ReadError: what it names is not there.
          StrataflowError: the reason why a scope that is needed can not be read.
        """
        # Own patches are no boundary yet and no record: the present is all that they change.
        is_past = path.offset > 0 or path.record_index is not None
        return look(self.moment.view if is_past else self._running, path, "keys" if projection == "keys" else "value")

    def hint(self, path: ReadPath, projection: str, error: ReadError) -> ReadResult | None:
        """The answer in place of ``error``, if memory mentions the path."""
        return hint_for(self._running, path, "keys" if projection == "keys" else "value", error)

    def stage(self, patches: dict[ScopeName, Json]) -> None:
        """Lay checked patches over everything so far.

        Raises:
          CallError: E_INDEX, E_NULL, E_ARTIFACT or E_RETIRED; nothing was changed. (X3)
          StrataflowError: the reason why a scope can not be read.
        """
        for error in self.moment.view.unreadable.values():
            raise type(error)(error.code, error.message, **error.data) from error
        staged = stage_patch(self._states, patches)
        for name, record in staged.records.items():
            if name in self._changed:
                # Where it can not be told as one change, this patch is refused, while its author may still react.
                record_of_several(name, self.moment.view.scopes[name].value, staged.values[name], record)
        for name, record in staged.records.items():
            self._states[name] = _with_value(self._states[name], staged.values[name], staged.evidence.get(name))
            if name in self._changed:
                self._several.add(name)
                record = joined_guide(self._changed[name], record)
            self._changed[name] = record
        self._named.update(patches)
        self._missing += staged.missing_deletions
        self._cascaded += staged.cascaded

    def finished(self) -> StagedCall:
        """All patches as if one call had made them. (X4)"""
        values: dict[ScopeName, Json] = {}
        records: dict[ScopeName, Json] = {}
        evidence = {}
        for name in SCOPES:
            if name not in self._changed:
                continue
            before, after = self.moment.view.scopes[name], self._states[name]
            record = self._changed[name]
            if name in self._several:
                # The places that differ are among those that the records of the steps name.
                record = record_of_several(name, before.value, after.value, record)
            if record:
                values[name], records[name] = after.value, record
                if after.evidence is not before.evidence:
                    evidence[name] = after.evidence
        return StagedCall(values, records, tuple(self._missing), tuple(self._cascaded), evidence)


def _with_value(before: ScopeState, value: Json, evidence: Mapping[str, Any] | None) -> ScopeState:
    """A scope with another value, which is no boundary of its history. Written out: attrs.evolve is much slower."""
    return ScopeState(
        value,
        before.revision,
        before.base,
        before.base_boundary,
        before.tail,
        before.evidence if evidence is None else evidence,
        True,
        before.floor,
    )
