"""The handle of a session for asyncio: the names and contracts of the trio one, whose docstrings count here too.

Arguments are copied before the call leaves for the other thread. Cancelling a task cancels the call there and waits for
its end: nothing was stored, or the change completes whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Literal, TypeVar, final

import attrs

from ...store import (
    HostEntries,
    Json,
    LogEntry,
    Mode,
    ReadResult,
    Receipt,
    ScopeName,
    Status,
    StrataflowError,
)
from ...store.artifacts import ArtifactCard, Invalidation, Match, RegisteredSkill
from ...store.projection import Message, PrefixReport
from .. import session, transactions
from ..call_arguments import copied
from ..session_log import LOG_LIMIT_DEFAULT
from ..transactions_again import TRANSACT_ATTEMPTS
from .bridge import Bridge
from .tree import OwnedTree
from .work import RunContext, Transaction, TransactionContext, Watch

T = TypeVar("T")


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

    def note_repair(self, count: int) -> None:
        """See there."""
        self._bridge.ask(lambda: self._inner.note_repair(count))

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

    def registered_skills(self, inventory: Iterable[RegisteredSkill | Mapping[str, Any]]) -> dict[str, ScopeName]:
        """See there."""
        return self._inner.registered_skills(inventory)

    async def invalidations(self) -> list[Invalidation]:
        """See there."""
        return await self._bridge.call(self._inner.invalidations)

    async def artifacts(self, *tags: str, match: Match = "all") -> list[ArtifactCard]:
        """See there."""
        return await self._bridge.call(lambda: self._inner.artifacts(*tags, match=match))

    async def aclose(self) -> None:
        """See there."""
        await self._bridge.call(self._inner.aclose)
