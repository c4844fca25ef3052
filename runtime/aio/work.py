"""What a session's work is made of, for asyncio: runs, transactions, watches. See ``handles``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, final

import attrs

from ...store import Change, ReadProjection, ReadResult, Receipt, StrataflowError, detach
from ...store.projection import Message, ToolCall, Verdict
from .. import run, session, transactions, watching
from .bridge import Bridge


@final
@attrs.frozen(eq=False, repr=False)
class Run:
    """One run, for asyncio. See ``strataflow.Run``."""

    _bridge: Bridge
    _inner: run.Run

    @property
    def prompt(self) -> str:
        """See there."""
        return self._inner.prompt

    @property
    def receipt(self) -> Receipt | None:
        """See there."""
        return self._inner.receipt

    async def project(self, messages: Sequence[Message]) -> list[Message]:
        """See there."""
        given = list(messages)
        return await self._bridge.call(lambda: self._inner.project(given))

    def preflight(self, calls: Sequence[ToolCall | Mapping[str, Any]] | Mapping[str, Any]) -> tuple[Verdict, ...]:
        """See there."""
        return self._inner.preflight(calls)

    def preflight_call(self, call_id: str, entry_of: run.EntryOf, leaf: str | None) -> Verdict | None:
        """See there."""
        return self._inner.preflight_call(call_id, entry_of, leaf)

    async def note_read(self, path: str, call_id: str) -> str | None:
        """See there."""
        return await self._bridge.call(lambda: self._inner.note_read(path, call_id))

    async def finish(self, answer: str, *, request_id: str | None = None) -> Receipt | None:
        """See there."""
        return await self._bridge.call(lambda: self._inner.finish(answer, request_id=request_id))

    async def settle(self, message: Mapping[str, Any]) -> Receipt | None:
        """See there."""
        return await self._bridge.call(lambda: self._inner.settle(message))


@final
@attrs.define(eq=False)
class RunContext:
    """What ``session.run`` returns."""

    _bridge: Bridge
    _context: run.RunContext

    async def __aenter__(self) -> Run:
        try:
            return Run(self._bridge, await self._bridge.call(self._context.__aenter__))
        except BaseException:
            self._leave()  # it may have begun when its caller was cancelled
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        with suppress(StrataflowError):  # with the runtime all its runs have ended
            self._bridge.ask(self._context.leave)


@final
@attrs.frozen(eq=False, repr=False)
class Transaction:
    """A transaction, for asyncio. See ``strataflow.Transaction``."""

    _inner: transactions.Transaction

    @property
    def receipt(self) -> Receipt | None:
        """See there."""
        return self._inner.receipt

    def read(self, path: str, projection: ReadProjection = "value") -> ReadResult:
        """See there."""
        return self._inner.read(path, projection)

    def patch(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> None:
        """See there."""
        self._inner.patch(global_=global_, cwd=cwd, session=session)

    async def retry(self) -> NoReturn:
        """See there."""
        await self._inner.retry()


@final
@attrs.define(eq=False)
class TransactionContext:
    """What ``session.transaction`` returns."""

    _bridge: Bridge
    _context: transactions.TransactionContext

    async def __aenter__(self) -> Transaction:
        return Transaction(await self._bridge.call(self._context.__aenter__))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._bridge.call(lambda: self._context.__aexit__(kind, error, traceback))


@final
@attrs.define(eq=False, repr=False)
class Watch:
    """Changes of memory, for asyncio. See ``strataflow.Watch``. A wrong path is refused at the first use."""

    _bridge: Bridge
    _session: session.Session
    _paths: tuple[str, ...]
    _inner: watching.Watch | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        # In its turn before every later call of this loop: what those change is seen.
        self._bridge.ask(self._begin)

    def _begin(self) -> None:
        with suppress(StrataflowError):  # tried again where it can be raised
            self._inner = self._session.watch(*self._paths)

    async def _begun(self) -> watching.Watch:
        if self._inner is None:
            self._inner = self._session.watch(*self._paths)
        return self._inner

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        async def following() -> Change:
            return await (await self._begun()).__anext__()

        return await self._bridge.call(following)

    async def aclose(self) -> None:
        """See there."""

        async def close() -> None:
            await (await self._begun()).aclose()

        await self._bridge.call(close)

    async def __aenter__(self) -> Watch:
        await self._bridge.call(self._begun)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def copied(value: Any) -> Any:
    """A copy of an argument; or the argument where it is nested too deeply for one, since it is refused for that."""
    try:
        return detach(value)
    except RecursionError:
        return value
