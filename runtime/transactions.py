"""Transactions as their authors see them: ``session.transaction()`` and ``Transaction``.

::

    open --body ends--> ended --the store runs the log again--> committed: tx.receipt
      |                                                  +----> ConflictError, nothing was stored
      +----- raised --> ended, nothing was stored

Between the beginning and the end nothing is held: neither a lock nor a row, and what a transaction has read may change
under it. The end finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, final

import attrs

from ..actors import ActorRef, Commit, SessionCell, Wait, refusal
from ..store import (
    Attempt,
    CallError,
    ConflictError,
    Draft,
    MemoryStore,
    ReadProjection,
    ReadResult,
    Receipt,
    detach,
    moment_of,
    stage_transaction,
)
from .changes import always
from .requests import check_request_id
from .transactions_desk import TransactionDesk


@attrs.frozen(eq=False)
class Home:
    """What a session's transactions need of it. ``check`` raises StoreError E_CLOSED once the session has ended."""

    cell: SessionCell
    store: ActorRef
    state: MemoryStore
    desk: TransactionDesk
    check: Callable[[], None]

    async def begin(self) -> Attempt:
        """An attempt on memory as it is published now, after a look at other processes if the last one is old.

        A checkpoint only then. If it raises Cancelled, nothing has begun.

        Raises:
          CallError: E_OFF.
          StoreError: E_CLOSED; E_CHANGED for a fenced session.
        """
        self.check()
        self.cell.readable()
        await self.desk.freshen(self.store)
        self.check()
        return Attempt(moment_of(self.state, self.cell.readable()))

    async def commit(self, attempt: Attempt, request_id: str | None, given_up: Sequence[Attempt] = ()) -> Receipt:
        """Have the store stage and append an attempt; see ``stage_transaction``.

        Always a checkpoint. If it raises Cancelled, nothing was written, or the change completes whole.
        """
        self.check()
        cell, wait = self.cell, Wait("patch")
        try:
            address = cell.writable() if attempt.work.names else cell.readable()
        except CallError as error:
            return await self.store.ask(refusal(error, request_id, always))

        def stage(draft: Draft) -> Receipt:
            wait.admit()
            receipt = stage_transaction(draft, address, attempt, request_id, given_up=given_up)
            cell.context.note_own(receipt.transition_id)
            return receipt

        receipt = await cell.waits.ask(wait, self.store, Commit(stage))
        self.desk.note_look()
        if receipt.changed:
            cell.note_accepted()
        return receipt


class Retry(BaseException):
    """Ends a function that has called ``tx.retry()``. No handler for errors may catch it, and none can undo it."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__("the transaction waits until something that it has read changes")
        self.transaction = transaction


@final
@attrs.define(eq=False, repr=False)
class Transaction:
    """A consistent look at a session's three scopes, and patches that become one change at the end.

    Given to the body of ``session.transaction()`` and to the functions of ``session.transact``. Its methods raise
    CallError E_ABORTED once that has ended.

    Attributes:
      receipt: the answer of the store, once everything was accepted; None before.
    """

    _home: Home
    _attempt: Attempt
    _may_retry: bool = False
    _is_open: bool = attrs.field(default=True, init=False)
    _is_retrying: bool = attrs.field(default=False, init=False)
    receipt: Receipt | None = attrs.field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<Transaction {'open' if self._is_open else 'ended'}, {len(self._attempt.log)} steps>"

    def read(self, path: str, projection: ReadProjection = "value") -> ReadResult:
        """Read one path: memory as it was when the transaction began, with its own patches laid over the present. The
        past (``cwd[1].working``, ``cwd.patches[0]``) shows what was accepted then.

        What comes back is your own copy. What it shows is what the end of the transaction insists on; of ``keys`` that
        is the keys and their kinds. That there was nothing is insisted on too.

        Raises:
          ReadError: the arguments, the path, or what it names.
          CallError: E_ABORTED; E_SHAPE if there are more than 10,000 steps.
          StoreError: the reason why a scope that is needed can not be read; E_CLOSED.
        """
        self._check()
        found = self._attempt.read(path, projection)
        return ReadResult(
            found.projection,
            detach(found.value),
            detach(found.keys),
            detach(found.meta),
            detach(found.patch),
            found.hint,
            found.transition_id,
        )

    def patch(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> None:
        """Change memory at the end of the transaction, and for its later reads now. Patches as in ``patch_state``.

        A patch that is refused changes nothing and leaves the transaction as it was. All others become one transition.

        Raises:
          CallError: the patch is refused; E_ABORTED; E_SHAPE if there are more than 10,000 steps.
          StoreError: the reason why a scope can not be read; E_CLOSED.
        """
        self._check()
        self._home.cell.writable()
        given = {"global": global_, "cwd": cwd, "session": session}
        self._attempt.patch({name: patch for name, patch in given.items() if patch is not None})

    def retry(self) -> NoReturn:
        """Give this attempt up, wait until something that it has read changes, by whomever, and run the function again.

        Only in functions of ``session.transact``. It never returns: it ends the function with an exception that must be
        let through. Whatever becomes of that exception, nothing of this attempt is stored.

        ``await tx.retry()`` says that somebody waits. It is no coroutine function, which would do nothing where the
        ``await`` was forgotten: ``tx.retry()`` does the same, also in functions that are not async.

        Raises:
          CallError: E_SHAPE outside of ``transact``; E_ABORTED.
        """
        self._check()
        if not self._may_retry:
            raise CallError("E_SHAPE", "retry belongs into a function of session.transact, which can be run again")
        self._is_retrying = True
        raise Retry(self)

    def _check(self) -> None:
        if not self._is_open:
            raise CallError("E_ABORTED", "the transaction has ended; begin another one")
        if self._is_retrying:
            raise Retry(self)  # somebody has stopped the first one
        self._home.check()


@final
@attrs.define(eq=False)
class TransactionContext:
    """What ``session.transaction()`` returns: a transaction for the body of an ``async with``."""

    _home: Home
    _request_id: str | None
    _open: list[Transaction] = attrs.field(factory=list, init=False)

    async def __aenter__(self) -> Transaction:
        # Mostly no checkpoint: the end is one, and a pass of a busy loop would make the snapshot old before it is used.
        check_request_id(self._request_id)
        transaction = Transaction(self._home, await self._home.begin())
        self._open.append(transaction)
        return transaction

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        transaction = self._open.pop()
        transaction._is_open = False
        if kind is not None:
            return
        attempt = transaction._attempt
        try:
            transaction.receipt = await self._home.commit(attempt, self._request_id)
        except ConflictError as conflict:
            found = conflict
        else:
            return
        raise await self._home.desk.explained(found, attempt)
