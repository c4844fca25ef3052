"""The handles of a runtime for asyncio: the names and contracts of the trio ones, whose docstrings count here too.

Arguments are copied before the call leaves for the other thread. Cancelling a task cancels the call there and waits for
its end: nothing was stored, or the change completes whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Literal, TypeVar, final

import attrs

from ...store import (
    CheckpointReport,
    HostEntries,
    Json,
    LogEntry,
    Mode,
    ReadResult,
    Receipt,
    Settings,
    Status,
    StrataflowError,
)
from ...store.projection import Message, PrefixReport
from ...store.trace import TraceTree
from .. import assembly, session, transactions
from ..call_arguments import copied
from ..reports import CLOSE_DEADLINE_S, CloseReport, RuntimeEvent
from ..requests import Outcome
from ..session_log import LOG_LIMIT_DEFAULT
from ..transactions_again import TRANSACT_ATTEMPTS
from .bridge import Bridge
from .tree import OwnedTree
from .work import RunContext, Transaction, TransactionContext, Watch

T = TypeVar("T")


@final
@attrs.frozen(eq=False, repr=False)
class Runtime:
    """An open store, for asyncio. See ``strataflow.Runtime``."""

    _bridge: Bridge
    _inner: assembly.Runtime

    def __repr__(self) -> str:
        return f"<asyncio {self._inner!r}>"

    @property
    def store_path(self) -> str:
        """See there."""
        return self._inner.store_path

    @property
    def settings(self) -> Settings:
        """See there."""
        return self._inner.settings

    @property
    def events(self) -> tuple[RuntimeEvent, ...]:
        """See there."""
        return self._inner.events

    async def open_session(
        self,
        cwd: str,
        session_id: str = "main",
        mode: Mode | None = None,
        *,
        entries: HostEntries | None = None,
        tree: TraceTree | bool | None = None,
    ) -> Session:
        """See there. ``entries`` is called in the other thread."""
        inner = self._inner
        found = await self._bridge.call(lambda: inner.open_session(cwd, session_id, mode, entries=entries, tree=tree))
        return Session(self._bridge, found)

    async def checkpoint(self) -> CheckpointReport:
        """See there."""
        return await self._bridge.call(self._inner.checkpoint)

    async def outcome(self, request_id: str) -> Outcome:
        """See there."""
        return await self._bridge.call(lambda: self._inner.outcome(request_id))

    async def inspect(self, cwd: str, session_id: str = "main") -> Status:
        """See there."""
        return await self._bridge.call(lambda: self._inner.inspect(cwd, session_id))

    async def status(self) -> Json:
        """See there."""
        return await self._bridge.call(self._inner.status)

    def statistics(self) -> Any:
        """See there."""
        return self._inner.statistics()

    async def aclose(self, deadline: float = CLOSE_DEADLINE_S) -> CloseReport:
        """See there."""
        return await self._bridge.call(lambda: self._inner.aclose(deadline))


@final
@attrs.frozen(eq=False, repr=False)
class Session:
    """One session, for asyncio. See ``strataflow.Session``."""

    _bridge: Bridge
    _inner: session.Session

    def __repr__(self) -> str:
        return f"<asyncio {self._inner!r}>"

    @property
    def cwd(self) -> str:
        """See there."""
        return self._inner.cwd

    @property
    def session_id(self) -> str:
        """See there."""
        return self._inner.session_id

    @property
    def mode(self) -> Mode:
        """See there."""
        return self._inner.mode

    @property
    def indicator(self) -> str | None:
        """See there."""
        return self._inner.indicator

    @property
    def tree(self) -> OwnedTree | None:
        """See there."""
        tree = self._inner.tree
        return None if tree is None else OwnedTree(self._bridge, tree)

    async def patch_state(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        call_id: str | None = None,
    ) -> Receipt:
        """See there."""
        patches: Any = {"global_": copied(global_), "cwd": copied(cwd), "session": copied(session)}
        call = self._inner.patch_state
        return await self._bridge.call(lambda: call(**patches, request_id=request_id, call_id=call_id))

    async def accept_response(self, text: str, *, request_id: str | None = None) -> Receipt:
        """See there."""
        return await self._bridge.call(lambda: self._inner.accept_response(text, request_id=request_id))

    async def set_mode(self, mode: Mode) -> Mode:
        """See there."""
        return await self._bridge.call(lambda: self._inner.set_mode(mode))

    async def read_state(
        self,
        path: str | None = None,
        *,
        paths: Sequence[str] | None = None,
        projection: Literal["value", "keys", "patch"] = "value",
        fresh: bool = False,
    ) -> ReadResult:
        """See there."""
        read = self._inner.read_state
        return await self._bridge.call(lambda: read(path, paths=paths, projection=projection, fresh=fresh))

    async def read_json(
        self,
        path: str | None = None,
        *,
        paths: Sequence[str] | None = None,
        projection: Literal["value", "keys", "patch"] = "value",
        fresh: bool = False,
    ) -> str:
        """See there."""
        read = self._inner.read_json
        return await self._bridge.call(lambda: read(path, paths=paths, projection=projection, fresh=fresh))

    async def log(self, path: str | None = None, limit: int = LOG_LIMIT_DEFAULT) -> list[LogEntry]:
        """See there."""
        return await self._bridge.call(lambda: self._inner.log(path, limit))

    async def call(
        self,
        name: str,
        arguments: Any,
        *,
        admit: Callable[[], None] | None = None,
        request_id: str | None = None,
        call_id: str | None = None,
    ) -> Any:
        """See there. ``admit`` is called in the other thread."""
        given, call = copied(arguments), self._inner.call
        return await self._bridge.call(lambda: call(name, given, admit=admit, request_id=request_id, call_id=call_id))

    async def status(self) -> Json:
        """See there."""
        return await self._bridge.call(self._inner.status)

    async def inspect(self) -> Status:
        """See there."""
        return await self._bridge.call(self._inner.inspect)

    def transaction(self, *, request_id: str | None = None) -> TransactionContext:
        """See there."""
        return TransactionContext(self._bridge, self._inner.transaction(request_id=request_id))

    async def transact(
        self,
        fn: Callable[[Transaction], Awaitable[T] | T],
        *,
        attempts: int = TRANSACT_ATTEMPTS,
        request_id: str | None = None,
        or_else: Callable[[Transaction], Awaitable[T] | T] | None = None,
    ) -> T:
        """See there. The functions run on the asyncio loop."""
        functions = [self._on_asyncio(function) for function in (fn, or_else) if function is not None]
        transact = self._inner.transact
        other = functions[1] if or_else is not None else None
        return await self._bridge.call(
            lambda: transact(functions[0], attempts=attempts, request_id=request_id, or_else=other)
        )

    def _on_asyncio(
        self, function: Callable[[Transaction], Awaitable[T] | T]
    ) -> Callable[[transactions.Transaction], Awaitable[T]]:
        async def run_there(inner: transactions.Transaction) -> T:
            async def run_here() -> T:
                value = function(Transaction(inner))
                return await value if isawaitable(value) else value

            return await self._bridge.call_back(run_here)

        return run_there

    def watch(self, *paths: str) -> Watch:
        """See there."""
        return Watch(self._bridge, self._inner, paths)

    async def wait_for(self, path: str, predicate: Callable[[Any], Any]) -> Any:
        """See there. The predicate is called in the other thread, and must be quick."""
        return await self._bridge.call(lambda: self._inner.wait_for(path, predicate))

    def run(self, prompt: str, *, anchor: float | None = None) -> RunContext:
        """See there."""
        return RunContext(self._bridge, self._inner.run(prompt, anchor=anchor))

    async def project(self, messages: Sequence[Message]) -> list[Message]:
        """See there."""
        given = list(messages)
        return await self._bridge.call(lambda: self._inner.project(given))

    def prefix_report(self) -> PrefixReport | None:
        """See there."""
        return self._inner.prefix_report()

    def note_compaction(self) -> None:
        """See there."""
        self._bridge.ask(self._inner.note_compaction)

    async def fork(self, child_id: str, *, entries: HostEntries | None = None) -> Session:
        """See there."""
        made: list[session.Session] = []

        async def fork() -> None:
            made.append(await self._inner.fork(child_id, entries=entries))

        try:
            await self._bridge.call(fork)
        except asyncio.CancelledError:
            for child in made:  # it was there when its caller was cancelled, who never saw it
                with suppress(asyncio.CancelledError, StrataflowError):
                    await self._bridge.call(child.aclose)
            raise
        return Session(self._bridge, made[0])

    async def aclose(self) -> None:
        """See there."""
        await self._bridge.call(self._inner.aclose)
