"""Request ids: asking again with the same id returns the first outcome (Ours-12).

What a call was told is remembered in three places, asked in this order::

    the draft      calls staged before in the same batch, whose rows are not in the journal yet
    the journal    accepted calls: the receipt in the row, later in ``requests`` when the row is pruned
    the process    refused calls

Invariants:
  I1  An id is accepted at most once: who stages a call looks here first, and the append is conditional on the head that
      was looked at (R1).
  I2  The receipt becomes durable with the change it tells of, in the same row, and leaves the row only in the
      transaction that puts it into ``requests``.
  I3  Only what was decided about the call itself is a refusal. What the store was unable to do is no outcome, and
      neither is a request that was withdrawn: ask again.
  I4  A conflict is told to who asks for the outcome, and yet the next attempt is judged anew.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

import attrs

from .algebra import ConflictError, StoreError, StrataflowError, without_values
from .journal_types import Journal
from .receipts import Receipt, receipt_from

# Refused calls that a process remembers, the newest.
REFUSALS_KEPT: Final = 10_000

# What a call was told.
Told: TypeAlias = Receipt | StrataflowError


def is_refusal(error: StrataflowError) -> bool:
    """Whether an error is the outcome of a call. (I3)"""
    return not isinstance(error, StoreError) and error.code != "E_ABORTED"


@final
@attrs.define(eq=False)
class Refusals:
    """The newest refusals of this process, by request id."""

    _kept: dict[str, StrataflowError] = attrs.field(factory=dict, init=False)

    def get(self, request_id: str) -> StrataflowError | None:
        """Why a call was refused, if it is remembered."""
        return self._kept.get(request_id)

    def keep(self, refused: Iterable[tuple[str, StrataflowError]]) -> None:
        """Remember some more; the oldest are forgotten."""
        for request_id, error in refused:
            self._kept.pop(request_id, None)
            self._kept[request_id] = error
            if len(self._kept) > REFUSALS_KEPT:
                del self._kept[next(iter(self._kept))]


def recalled(journal: Journal, refusals: Refusals, request_id: str) -> Told | None:
    """What the store and this process remember of a call. Quick: an event loop may call it.

    Raises:
      StoreError: E_CORRUPT if what is kept can not be read, or as ``Journal.outcome_of``.
    """
    found = journal.outcome_of(request_id)
    if found is None:
        return refusals.get(request_id)
    try:
        return receipt_from(found)
    except (LookupError, TypeError) as error:
        text = f"the receipt that the journal keeps of a request can not be read ({error!r}); try `strataflow doctor`"
        raise StoreError("E_CORRUPT", text, request_id=request_id) from error


def _nobody(request_id: str) -> Told | None:
    """Nothing is remembered."""
    return None


@final
@attrs.define(eq=False)
class Requests:
    """What calls were told in one draft, and before it. ``recall`` is asked for what came before."""

    _recall: Callable[[str], Told | None] = _nobody
    _told: dict[str, Told] = attrs.field(factory=dict, init=False)

    def find(self, request_id: str) -> Told | None:
        """What a call with this id was told; None: it was never seen, or had no outcome."""
        return self._told.get(request_id) or self._recall(request_id)

    def known(self, request_id: str | None) -> Receipt | None:
        """The receipt of an earlier call with this id; None: nothing stands against staging it.

        Raises:
          StrataflowError: the earlier call was refused; this is why. (I4: never E_CONFLICT.)
        """
        found = None if request_id is None else self.find(request_id)
        if isinstance(found, StrataflowError):
            if found.code == "E_CONFLICT":
                return None
            raise copy.copy(found)
        return found

    def once(self, request_id: str | None, stage: Callable[[], Receipt]) -> Receipt:
        """What an earlier call with this id was told, else what ``stage`` says now.

        ``stage`` hands its receipt to ``accept`` itself, since that belongs into its row; refusals are noted here.
        """
        if request_id is None:
            return stage()
        found = self.known(request_id)
        if found is not None:
            return found
        try:
            return stage()
        except StrataflowError as error:
            if is_refusal(error):
                # A copy has no traceback, which would keep everything alive that the call has seen.
                slim = without_values(error) if isinstance(error, ConflictError) else copy.copy(error)
                self._told[request_id] = slim
            raise

    def accept(self, request_id: str, receipt: Receipt) -> None:
        """A call was staged and has this receipt once its row is in the journal."""
        self._told[request_id] = receipt

    def refused(self) -> list[tuple[str, StrataflowError]]:
        """What was refused in this draft. Of account once its answers are given: another draft may accept it."""
        return [(request_id, told) for request_id, told in self._told.items() if isinstance(told, StrataflowError)]
