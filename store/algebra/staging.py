"""Staging: what a call would change, decided without changing anything (P10, P17, P21).

Per scope, in the order global, cwd, session::

    authored operations -> pruning -> ownership cascade -> pruning -> compiled cards -> net record -> checks

The first refusal refuses the whole call. The result holds new values that share everything untouched with the old
ones, and one net record per changed scope. Whoever accepts it publishes all of it or nothing.

Invariants:
  A1  A scope without a net record is not in the result; its value is the one before.
  A2  replay(value before, record) is the same as the value after.
  A3  Nothing reachable from the scopes handed in is mutated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .cards import check_cards
from .compiling import NO_READS, Compilation, with_cards, without_cards
from .errors import CallError, shown
from .history import SCOPES, ScopeName, ScopeState
from .merge import Json, is_index_form, merge, merge_pruned, prune, replay
from .missing import MissingDeletion, missing_deletions
from .ownership import cascade, deletion_patch
from .record import EVERYTHING, joined_guide, net_record
from .values import detach_checked, pointer_token

RESPONSE = {"response": EVERYTHING}


@attrs.frozen
class StagedCall:
    """The outcome of a call that was not refused.

    Attributes:
      values: the new value of each changed scope.
      records: the net record of each changed scope, in the order global, cwd, session.
      missing_deletions: authored deletions whose target was absent.
      cascaded: read paths of what was deleted with its intent, in scope order, inside a scope by code point.
      evidence: the whole new evidence of each scope in which some of it went with its card (store 1.5.8), or came.
    """

    values: Mapping[ScopeName, Json]
    records: Mapping[ScopeName, Json]
    missing_deletions: tuple[MissingDeletion, ...] = ()
    cascaded: tuple[str, ...] = ()
    evidence: Mapping[ScopeName, Mapping[str, Any]] = attrs.field(factory=dict)

    @property
    def changed(self) -> bool:
        """Whether accepting this changes anything (T15). Evidence alone is no transition (store 3.1.10)."""
        return bool(self.records) or bool(self.evidence)


@attrs.define
class _Draft:
    values: dict[ScopeName, Json] = attrs.field(factory=dict)
    records: dict[ScopeName, Json] = attrs.field(factory=dict)
    missing_deletions: list[MissingDeletion] = attrs.field(factory=list)
    cascaded: list[str] = attrs.field(factory=list)
    evidence: dict[ScopeName, Mapping[str, Any]] = attrs.field(factory=dict)

    def note(
        self, name: ScopeName, scope: ScopeState, after: Json, record: Json, proofs: Mapping[str, Json] | None = None
    ) -> None:
        """Keep a scope's outcome, if there is one (A1). ``proofs``: evidence that comes with it."""
        if record:
            self.values[name] = after
            self.records[name] = record
        evidence = _kept_evidence(scope, after, record) if record else None
        if proofs:
            evidence = {**(scope.evidence if evidence is None else evidence), **proofs}
        if evidence is not None and evidence != scope.evidence:
            self.evidence[name] = evidence

    def finished(self) -> StagedCall:
        return StagedCall(self.values, self.records, tuple(self.missing_deletions), tuple(self.cascaded), self.evidence)


def stage_patch(
    scopes: Mapping[ScopeName, ScopeState], patches: Mapping[ScopeName, Json], compilation: Compilation = NO_READS
) -> StagedCall:
    """Stage the patches of one call, as ``check_patch_arguments`` returned them.

    The result shares containers with ``patches``: their owner must not change them afterwards.

    Args:
      compilation: what was read for cards that the patches may or must hold.

    Raises:
      CallError: E_SOURCE_CHANGED, E_SKILL_SCOPE, E_INDEX, E_COMPILE_MISSING, E_SKILL, E_NULL, E_ARTIFACT or E_RETIRED;
        nothing happened.
    """
    draft = _Draft()
    has_reads = compilation is not NO_READS  # hardly ever, and this is on the way of every commit
    if has_reads:
        compilation.check_call(patches)
    for name in SCOPES:
        if name in patches:
            _stage_scope(draft, name, scopes[name], patches[name], compilation)
        elif has_reads:
            compilation.check_scope(name, {})
    return draft.finished()


def apply_patch(value: Json, patch: Json) -> Json:
    """One value after one patch: merging and pruning, without planes, ownership or history.

    Returns a value of the caller's own; the arguments are left alone.

    Raises:
      CallError: E_SHAPE, E_JSON, E_INDEX or E_NULL.
    """
    for argument in (value, patch):
        if not isinstance(argument, dict):
            raise CallError("E_SHAPE", f"a value and its patch are objects, not {shown(argument)}")
    patch = detach_checked(patch, allow_null=True)
    after: Json = prune(merge(detach_checked(value, allow_null=False), patch))
    _check_nulls(after, patch, "")
    return after


def _stage_scope(
    draft: _Draft, name: ScopeName, scope: ScopeState, patch: Json, compilation: Compilation = NO_READS
) -> None:
    before = scope.value
    cards = compilation.compiled(name, patch)
    authored = without_cards(patch, cards) if cards else patch
    touched: Json | None
    try:
        if scope.is_pruned:
            after, touched = merge_pruned(before, authored), authored
        else:
            # A scope that others wrote may hold empty objects anywhere; they go once, as recorded deletions (P13).
            after, touched = prune(merge(before, authored)), EVERYTHING
        targets = cascade(name, before, after, patch)
        if targets:
            deletions = deletion_patch(targets)
            after = merge_pruned(after, deletions)
            touched = joined_guide(touched, deletions)
        if cards:
            after = with_cards(after, cards)
            touched = joined_guide(touched, {"artifacts": dict.fromkeys(cards, EVERYTHING)})
        record = net_record(before, after, touched)
    except CallError as error:
        raise _in_scope(error, name) from None
    if compilation is not NO_READS:
        compilation.check_scope(name, patch)
    _check(name, after, patch)
    if cards:
        # With its members in the order in which whoever replays the record will have them: files must not differ.
        after = replay(before, record)
    draft.missing_deletions += missing_deletions(name, before, patch)
    draft.cascaded += sorted(".".join((name, *target)) for target in targets)
    draft.note(name, scope, after, record, compilation.evidence(name, patch) if cards else None)


def stage_response(session: ScopeState, text: str) -> StagedCall:
    """Stage the answer of a run as the session's ``response`` (store 3.4.3, 3.4.4, 3.4.6).

    Raises:
      CallError: E_SHAPE or E_JSON, ``text`` is not a string that can be stored.
    """
    if not isinstance(text, str):
        raise CallError("E_SHAPE", f"an answer is a string, not {shown(text)}")
    text = detach_checked(text, allow_null=False, pointer="/text")
    before = session.value
    after = before if before.get("response", "") == text else {**before, "response": text}
    touched: Any = RESPONSE
    if not session.is_pruned:
        after, touched = prune(after), EVERYTHING
    draft = _Draft()
    draft.note("session", session, after, net_record(before, after, touched))
    return draft.finished()


def record_of_several(name: ScopeName, before: Json, after: Json, guide: Any) -> Json:
    """The net record of several calls on one scope. ``guide`` names what they changed: their own records, joined.

    Raises:
      CallError: E_INDEX, one record can not say what they did one after the other (Ours-7).
    """
    try:
        return net_record(before, after, guide)
    except CallError as error:
        raise _in_scope(error, name) from None


def _in_scope(error: CallError, name: ScopeName) -> CallError:
    """The error of one scope's merge, with its place in the call."""
    pointer = f"/{name}{error.data['pointer']}"
    return CallError(error.code, f"{name}: {error.message}", **{**error.data, "pointer": pointer, "scope": name})


def _check(name: ScopeName, after: Json, patch: Json) -> None:
    """Rows 20 to 22 of T9, for what the patch touched; the rest of the scope was valid before."""
    _check_nulls(after, patch, f"/{name}")
    if "artifacts" in patch:
        check_cards(name, after.get("artifacts", {}), patch["artifacts"])
    if "compiled_skills" in after.get("contract", ()):
        raise CallError(
            "E_RETIRED", f"{name}.contract.compiled_skills is retired; delete it and use artifacts", scope=name
        )


def _check_nulls(after: Json, patch: Json, pointer: str) -> None:
    path = _null_below(after, patch)
    if path is not None:
        found = pointer + "".join(pointer_token(key) for key in reversed(path))
        raise CallError(
            "E_NULL", f"null at {shown(found)} would be stored inside an array; leave it out", pointer=found
        )


def _null_below(value: Any, guide: Any) -> list[str | int] | None:
    """The way to the first null in the parts of ``value`` that the patch ``guide`` wrote, last key first.

    Only a refusal pays for a path, and scalars, the most of a large patch, are passed over without a call.
    """
    if type(value) is dict:
        # Values are walked for nulls only where the patch put them: below an array, or as a whole new object.
        for key in guide if type(guide) is dict else value:
            item = value.get(key, "")
            if item is None:
                return [key]
            if type(item) is dict or type(item) is list:
                found = _null_below(item, guide[key] if type(guide) is dict else EVERYTHING)
                if found is not None:
                    return [*found, key]
    else:
        edits_elements = type(guide) is dict and is_index_form(guide)
        places = [(int(key[1:-1]), guide[key]) for key in guide] if edits_elements else enumerate(value)
        for place in places:
            item, below = value[place[0]], place[1] if edits_elements else EVERYTHING
            if item is None:
                return [place[0]]
            if type(item) is dict or type(item) is list:
                found = _null_below(item, below)
                if found is not None:
                    return [*found, place[0]]
    return None


def _kept_evidence(scope: ScopeState, after: Json, record: Json) -> Mapping[str, Any] | None:
    """The scope's evidence without that of cards that came or went; None if all of it stays.

    A card that is new has no evidence yet: what an old card of its path left behind does not speak for it.
    """
    if not scope.evidence or "artifacts" not in record:
        return None
    old = scope.value.get("artifacts", {})
    new = after.get("artifacts", {})
    touched = record["artifacts"] if type(record["artifacts"]) is dict else old
    gone = {path for path in touched if path in scope.evidence and not (path in old and path in new)}
    if not gone:
        return None
    return {path: value for path, value in scope.evidence.items() if path not in gone}
