"""A transaction before it commits: what its function did, step by step, over one moment of memory.

No versions are kept of what was read. There is a *log*: each read with its outcome, each patch with its refusal or
none, in their order. A transaction commits by running the log once more, on memory as it is then::

    begun --read, patch--> begun --the moment is still the same----------------> one net record per scope
                             +---- another one: the log again ---all the same--> one net record per scope
                                                            +---- not the same -> conflicts, nothing is stored

Invariants:
  X1  A log that is run again on the moment it was made on has the outcomes it holds: steps are pure.
  X2  A log that is run again without a conflict saw what it would see now. So its function, run now, would do the same,
      and the transaction is as if it had happened now, at once. Who else changed what does not matter.
  X5  A refusal is an outcome like any other: a function may decide on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, final

import attrs

from .algebra import (
    CallError,
    Conflict,
    Json,
    ReadError,
    ReadPath,
    ReadResult,
    ScopeName,
    StrataflowError,
    acknowledgement,
    check_patch_arguments,
    check_read_arguments,
    parse_path,
    same,
)
from .draft import Draft
from .layout import SessionAddress
from .receipts import Receipt
from .transactions_conflict import conflict_error, place_of
from .transactions_moment import Moment, moment_of
from .transactions_workspace import Workspace

# All of them may have to be run again in one go, on the event loop.
TRANSACTION_STEPS_MAX: Final = 10_000

ReadProjection = Literal["value", "keys"]


@attrs.frozen
class Outcome:
    """What a step gave: a value, or the code with which it ended. Of a patch that was accepted neither."""

    value: Any = None
    code: str | None = None
    # Of a stored record, the transition that made it.
    transition_id: str | None = None

    def is_same_as(self, other: Outcome) -> bool:
        """Whether a function could not tell one from the other."""
        return self.code == other.code and self.transition_id == other.transition_id and same(self.value, other.value)


@attrs.frozen
class ReadStep:
    """A read. The hint that may take the place of E_MISSING is advice, and no part of the outcome."""

    path: ReadPath
    projection: ReadProjection
    outcome: Outcome

    def again(self, work: Workspace) -> Conflict | None:
        """Read once more, elsewhere; the conflict, if that gives something else."""
        try:
            now = outcome_of(work.look(self.path, self.projection))
        except StrataflowError as error:
            now = Outcome(code=error.code)
        if now.is_same_as(self.outcome):
            return None
        return Conflict(self.path.text, self.projection, self.outcome.value, now.value)


@attrs.frozen
class PatchStep:
    """The patches of one call, and the read path of what refused them, if they were."""

    patches: dict[ScopeName, Json]
    code: str | None = None
    place: str = ""

    def again(self, work: Workspace) -> Conflict | None:
        """Patch once more, elsewhere; the conflict, if that ends in another way."""
        code, place = None, self.place
        try:
            work.stage(self.patches)
        except StrataflowError as error:
            code, place = error.code, place_of(error, self.patches)
        return None if code == self.code else Conflict(place, "patch", self.code, code)


def outcome_of(result: ReadResult) -> Outcome:
    """What a function learns from a read."""
    if result.projection == "value":
        return Outcome(result.value)
    return Outcome(result.to_json() if result.projection == "keys" else result.patch, None, result.transition_id)


@final
@attrs.define(eq=False)
class Attempt:
    """One run of a transaction's function: the moment it began at, what it laid over it, and its log."""

    moment: Moment
    log: list[ReadStep | PatchStep] = attrs.field(factory=list, init=False)
    work: Workspace = attrs.field(init=False)
    # Reads since the last patch: a read that is repeated gives the same and need not be logged.
    _noted: set[tuple[str, str]] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.work = Workspace(self.moment)

    def read(self, path: str, projection: ReadProjection = "value") -> ReadResult:
        """Read one path. The result shares containers with memory.

        Raises:
          ReadError: the arguments, the path, or what it names; as the algebra's ``read``.
          CallError: E_SHAPE, the transaction has too many steps.
          StrataflowError: the reason why a scope that is needed can not be read.
        """
        check_read_arguments({"path": path, "projection": projection})
        if projection not in ("value", "keys"):
            raise ReadError("E_READ_SHAPE", "a transaction reads values and keys; read patches outside of it")
        parsed = parse_path(path)
        try:
            result = self.work.look(parsed, projection)
        except StrataflowError as error:
            self._note(parsed, projection, Outcome(code=error.code))
            hint = self.work.hint(parsed, projection, error) if isinstance(error, ReadError) else None
            if hint is None:
                raise
            return hint
        self._note(parsed, projection, outcome_of(result))
        return result

    def patch(self, arguments: Any) -> None:
        """Check, apply and log the patches of one call; later reads see them.

        Raises:
          CallError: as of ``patch_state``; E_SHAPE also if the transaction has too many steps. Nothing was changed.
          StrataflowError: the reason why a scope can not be read.
        """
        patches = check_patch_arguments(arguments)
        self._check_room()
        try:
            self.work.stage(patches)
        except StrataflowError as error:
            self.log.append(PatchStep(patches, error.code, place_of(error, patches)))
            raise
        self.log.append(PatchStep(patches))
        self._noted.clear()

    def _note(self, path: ReadPath, projection: ReadProjection, outcome: Outcome) -> None:
        key = (path.text, projection)
        if key not in self._noted:
            self._check_room()
            self._noted.add(key)
            self.log.append(ReadStep(path, projection, outcome))

    def _check_room(self) -> None:
        if len(self.log) >= TRANSACTION_STEPS_MAX:
            text = f"a transaction has at most {TRANSACTION_STEPS_MAX:,} reads and patches; split it"
            raise CallError("E_SHAPE", text)

    @property
    def has_read(self) -> bool:
        """Whether anything of memory was looked at, so that a change of memory can mean something."""
        return any(isinstance(step, ReadStep) or step.code is not None for step in self.log)

    def again(self, moment: Moment) -> tuple[Workspace, list[Conflict]]:
        """Run the log on another moment. With conflicts the workspace is of no use. (X1, X2)"""
        work = Workspace(moment)
        conflicts: dict[tuple[str, str], Conflict] = {}
        for step in self.log:
            conflict = step.again(work)
            if conflict is not None:
                conflicts.setdefault((conflict.path, conflict.projection), conflict)
                if conflict.projection == "patch":
                    break  # what comes after it differs for this reason alone
        return work, list(conflicts.values())

    def holds_at(self, moment: Moment) -> bool:
        """Whether its function, run at that moment, would see what it saw."""
        return moment.is_same_as(self.moment) or not self.again(moment)[1]


def stage_transaction(
    draft: Draft,
    address: SessionAddress,
    attempt: Attempt,
    request_id: str | None = None,
    *,
    given_up: Sequence[Attempt] = (),
) -> Receipt:
    """Stage a transaction on a draft, unless an earlier call had its request id. ``attempt`` is left as it is.

    Args:
      given_up: attempts whose patches do not count, but whose reads led to this one.

    Raises:
      ConflictError: something it saw is not so any more.
      CallError: the session has used up its steps.
      StoreError: E_CHANGED for a fenced session, or the reason why one of its scopes is unusable.
      StrataflowError: why the earlier call was refused.
    """

    def stage() -> Receipt:
        # Who changes nothing and leaves nothing behind needs no more than what it has read.
        if attempt.work.names or request_id is not None:
            draft.writable(address)
        now = moment_of(draft.store, address, draft.images)
        work = attempt.work
        if not now.is_same_as(attempt.moment):
            conflicts = [conflict for earlier in given_up for conflict in earlier.again(now)[1]]
            work, own = attempt.again(now)
            if conflicts or own:
                raise conflict_error([*conflicts, *own])
        staged, names = work.finished(), work.names
        text = acknowledgement(names, staged.changed, staged.missing_deletions) if names else ""
        return draft.accept(address, now.images, staged, names, text=text, request_id=request_id)

    return draft.requests.once(request_id, stage)
