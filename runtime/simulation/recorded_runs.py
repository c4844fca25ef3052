"""Runs of a recorded session: the answer that ends one is a call of the history like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, final

import attrs

from ...store import Receipt
from ...store.projection import accepted_answer
from .history import Call
from .recorded_transactions import note_receipt

if TYPE_CHECKING:
    from ..run import Run
    from ..session import Session

# Begins the record of an answer, given it and its request id.
Record = Callable[[str, str | None], AbstractContextManager[Call]]


@final
@attrs.frozen(eq=False, repr=False)
class RecordedRun:
    """A ``Run`` whose answer is recorded. Everything else goes straight to the run."""

    _run: Run
    _session: Session
    _record: Record

    def __repr__(self) -> str:
        return f"<Recorded {self._run!r}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    async def finish(self, answer: str, *, request_id: str | None = None) -> Receipt | None:
        """See ``Run.finish``."""
        if self._session.mode != "active" or self._run.receipt is not None:
            return await self._run.finish(answer, request_id=request_id)
        with self._record(answer, request_id) as call:
            receipt = await self._run.finish(answer, request_id=request_id)
            if receipt is not None:
                note_receipt(call, receipt)
        return receipt

    async def settle(self, message: Mapping[str, Any]) -> Receipt | None:
        """See ``Run.settle``."""
        text = accepted_answer(dict(message))
        return await self._run.settle(message) if text is None else await self.finish(text)


@asynccontextmanager
async def recorded_run(
    session: Session, prompt: str, anchor: float | None, record: Record
) -> AsyncIterator[RecordedRun]:
    """See ``Session.run``."""
    async with session.run(prompt, anchor=anchor) as run:
        yield RecordedRun(run, session, record)
