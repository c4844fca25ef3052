"""Transactions as the history keeps them: the steps of the attempt that was the last one, and how it ended."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

import attrs

from ...store import ReadError, ReadProjection, ReadResult, Receipt
from .history import Call, Read, Step

if TYPE_CHECKING:
    from ..transactions import Transaction

T = TypeVar("T")
Function = Callable[["RecordedTransaction"], Awaitable[T] | T]

ABSENT = frozenset({"E_MISSING", "E_RANGE"})


def note_receipt(call: Call, receipt: Receipt) -> None:
    """What a receipt says."""
    call.changed, call.seq = receipt.changed and not _is_evidence_alone(call, receipt), receipt.seq
    call.revision, call.transition_id = receipt.revision, receipt.transition_id


def _is_evidence_alone(call: Call, receipt: Receipt) -> bool:
    """Whether all that a call changed is evidence of its cards: memory itself stays as it was."""
    has_cards = any("artifacts" in patch for patch in (call.patches or {}).values())
    return receipt.transition_id is None and has_cards


@final
@attrs.define(eq=False, repr=False)
class RecordedTransaction:
    """A ``Transaction`` whose steps are recorded. It has the methods of a transaction; see there."""

    _transaction: Transaction
    _call: Call

    def __repr__(self) -> str:
        return f"<Recorded {self._transaction!r}>"

    @property
    def receipt(self) -> Receipt | None:
        """See ``Transaction``."""
        return self._transaction.receipt

    def read(self, path: str, projection: ReadProjection = "value") -> ReadResult:
        """See ``Transaction.read``."""
        try:
            result = self._transaction.read(path, projection)
        except ReadError as error:
            if error.code in ABSENT:
                self._call.steps.append(Read(path, None, True, projection))
            raise
        found = result.keys if projection == "keys" else result.value
        self._call.steps.append(Read(path, copy.deepcopy(found), result.hint is not None, projection))
        return result

    def patch(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> None:
        """See ``Transaction.patch``."""
        self._transaction.patch(global_=global_, cwd=cwd, session=session)
        given = {"global": global_, "cwd": cwd, "session": session}
        self._call.steps.append(copy.deepcopy({name: patch for name, patch in given.items() if patch is not None}))

    def retry(self) -> NoReturn:
        """See ``Transaction.retry``. What was patched before does not count any more."""
        self._call.steps[:] = self._seen
        self._transaction.retry()

    @property
    def _seen(self) -> list[Step]:
        """What was read before the first patch: what memory showed."""
        return list(takewhile(lambda step: isinstance(step, Read), self._call.steps))


@final
@attrs.define(eq=False)
class Attempts:
    """The attempts of one ``transact``: each begins the record anew. What a function has seen that retried stays there
    when the alternative is tried, which rests on it too."""

    _call: Call
    last: Transaction | None = attrs.field(default=None, init=False)

    def of(self, function: Function[T], *, is_alternative: bool = False) -> Callable[[Transaction], Awaitable[T] | T]:
        """The function as ``Session.transact`` takes it."""

        def attempt(transaction: Transaction) -> Awaitable[T] | T:
            self.last = transaction
            if not is_alternative:
                self._call.steps.clear()
            return function(RecordedTransaction(transaction, self._call))

        return attempt

    def note(self) -> None:
        """The last attempt was accepted."""
        if self.last is not None and self.last.receipt is not None:
            note_receipt(self._call, self.last.receipt)
