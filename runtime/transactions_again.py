"""``session.transact``: run a function as a transaction, again and again until it commits.

::

    attempt --committed--> done
      ^ |---- conflict --> queue up, and begin anew    (at most ``attempts`` in a row)
      | +------- retry --> parked until something that was read changes
      +--------------------------------------------------+
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final, Generic, TypeVar, cast, final

import attrs

from ..actors import Refresh, Wait
from ..store import Attempt, CallError, ConflictError, moment_of, shown
from .requests import check_request_id
from .transactions import Home, Retry, Transaction
from .transactions_queue import Turn

T = TypeVar("T")

# Far beyond what the queue leaves to chance: who needs more of them takes longer than anybody waits for.
TRANSACT_ATTEMPTS: Final = 64


@attrs.frozen
class _Done(Generic[T]):
    value: T


@attrs.frozen
class _Conflicted:
    """The attempt met a conflict."""

    attempt: Attempt
    error: ConflictError


@final
@attrs.define(eq=False)
class Transacting(Generic[T]):
    """One call of ``session.transact``. ``functions``: the function, and the one that is tried when it retries."""

    _home: Home
    _functions: Sequence[Callable[[Transaction], Awaitable[T] | T]]
    _attempts: int
    _request_id: str | None

    async def run(self) -> T:
        """See ``Session.transact``."""
        check_request_id(self._request_id)
        if type(self._attempts) is not int or self._attempts < 1:
            raise CallError("E_SHAPE", f"attempts {shown(self._attempts)} is not a number from 1 on")
        home, desk, conflicts = self._home, self._home.desk, 0
        while True:
            if conflicts or desk.queue.is_hot(home.cell):
                async with desk.queue.turn(conflicts) as turn:
                    # What others did while we waited is news: without it this attempt would be in vain.
                    await home.cell.waits.ask(Wait("read"), home.store, Refresh())
                    desk.note_look()
                    found = await self._attempt(turn)
            else:
                found = await self._attempt(None)
            if isinstance(found, _Done):
                return found.value
            if isinstance(found, _Conflicted):
                conflicts += 1
                desk.queue.note_conflict(home.cell)
                if conflicts == self._attempts:
                    raise await desk.explained(found.error, found.attempt)
            else:
                await self._changed(found)
                conflicts = 0

    async def _attempt(self, turn: Turn | None) -> _Done[T] | _Conflicted | list[Attempt]:
        """Run each function until one does not retry, and commit that. A list: all of them retry."""
        begun = await self._home.begin()
        given_up: list[Attempt] = []
        for function in self._functions:
            # All on the same moment: what one of them saw, the next one sees too.
            attempt = Attempt(begun.moment)
            transaction = Transaction(self._home, attempt, may_retry=True)
            try:
                value = function(transaction)
                if isawaitable(value):
                    value = await (value if turn is None else turn.awaited(value))
            except BaseException as error:
                other = _without_retry(error, transaction)
                if other is error:
                    raise
                if other is not None:
                    raise other from None
            finally:
                transaction._is_open = False
            if transaction._is_retrying:
                given_up.append(attempt)
                continue
            try:
                transaction.receipt = await self._home.commit(attempt, self._request_id, given_up)
            except ConflictError as error:
                return _Conflicted(attempt, error)
            return _Done(cast(T, value))
        return given_up

    async def _changed(self, given_up: Sequence[Attempt]) -> None:
        """Wait until one of the functions, run again, would see something else."""
        if not any(attempt.has_read for attempt in given_up):
            raise CallError("E_SHAPE", "retry waits for a change of what was read, and nothing was read")
        home = self._home

        def has_changed() -> bool:
            home.check()
            moment = moment_of(home.state, home.cell.readable())
            return not all(attempt.holds_at(moment) for attempt in given_up)

        await home.desk.world.hub.wait_until(has_changed, home.cell.watched())


def _without_retry(error: BaseException, transaction: Transaction) -> BaseException | None:
    """What is left of an exception without this transaction's retry; None: nothing."""

    def is_retry(found: BaseException) -> bool:
        return isinstance(found, Retry) and found.transaction is transaction

    if is_retry(error):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    retries, others = error.split(is_retry)
    return error if retries is None else others
