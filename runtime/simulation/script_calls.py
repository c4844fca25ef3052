"""The calls of a scripted client: which ones, how often, and with what."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, final

import attrs
import trio

from ...store import CallError, ReadError
from .recorded_transactions import RecordedTransaction
from .recorder import RecordedSession
from .script_waits import WAIT_S, take_in_time, wait_for_others

# Every kind of call with its weight.
KINDS: Mapping[str, int] = MappingProxyType(
    {
        "patch": 30,
        "again": 5,
        "nothing": 3,
        "read": 26,
        "respond": 4,
        "count": 10,
        "add": 5,
        "compare": 5,
        "enlist": 3,
        "edit": 3,
        "look": 4,
        "body": 4,
        "give_up": 1,
        "take": 3,
        "wait": 2,
        "log": 1,
        "visit": 3,
        "checkpoint": 3,
        "close": 4,
        "mode": 2,
    }
)

_SHARED = ("k0", "k1", "k2")
_PATHS = (
    "global.working",
    "cwd.working",
    "session.working",
    "session",
    "effective",
    "effective.working",
    "global.working.k0",
    "cwd.working.k1",
    "effective.working.k2",
    "global.working.count",
    "global[1].working",
    "session[1].working",
)
# What is waited for.
_WATCHED = ("global.working.count", "global.working", "cwd.working")
# How long a list grows.
_LIST_MAX = 8
# How long a function of a transaction thinks, in virtual seconds: meanwhile others go on.
_THINKS_S = (0.0, 0.0, 0.0, 0.0005, 0.05)


@final
@attrs.define(eq=False)
class Calls:
    """Makes the calls of one client. ``name`` is in all values that it writes, so that each is written once only."""

    name: str
    random: random.Random
    _tokens: int = attrs.field(default=0, init=False)
    # The last patch with its request id: asked for again, also after a crash.
    _last: tuple[str, dict[str, Any]] | None = attrs.field(default=None, init=False)

    async def make(self, kind: str, session: RecordedSession) -> None:
        """Make one call of this kind."""
        await getattr(self, f"_{kind}")(session)

    def _token(self) -> str:
        self._tokens += 1
        return f"{self.name}.{self._tokens}"

    # -- without reading ----------------------------------------------------------------------------------------

    async def _patch(self, session: RecordedSession) -> None:
        scopes = self.random.sample(("global_", "cwd", "session"), self.random.choice((1, 1, 1, 2, 3)))
        patches: dict[str, Any] = {scope: {"working": self._change()} for scope in sorted(scopes)}
        self._last = self._token(), patches
        await session.patch_state(**patches, request_id=self._last[0])

    async def _again(self, session: RecordedSession) -> None:
        if self._last is None:
            await self._patch(session)
        else:
            await session.patch_state(**self._last[1], request_id=self._last[0])

    async def _nothing(self, session: RecordedSession) -> None:
        await session.patch_state(session={"working": {"same": 1}}, cwd={"working": {"never": None}})

    async def _respond(self, session: RecordedSession) -> None:
        await session.accept_response(self._token())

    def _change(self) -> dict[str, Any]:
        key = self.random.choice((*_SHARED, f"own-{self.name}"))
        value: Any
        match self.random.randrange(9):
            case 0:
                value = None
            case 1:
                value = [self._token(), self._token()]
            case 2:
                value = {f"[{self.random.randrange(2)}]": self._token()}
            case 3 | 4 | 5:
                value = {self.random.choice("abc"): self._token()}
            case _:
                value = self._token()
        return {key: value}

    # -- transactions -------------------------------------------------------------------------------------------

    async def _think(self) -> None:
        await trio.sleep(self.random.choice(_THINKS_S))

    async def _count(self, session: RecordedSession) -> None:
        """A shared counter goes up by one."""

        async def add_one(tx: RecordedTransaction) -> Any:
            count = _found(tx, "global.working.count") or 0
            await self._think()
            tx.patch(global_={"working": {"count": count + 1}})

        await session.transact(add_one)

    async def _add(self, session: RecordedSession) -> None:
        """A list gets one more element, in the directory or in private; then the new element is edited."""
        scope = self.random.choice(("cwd", "session"))

        async def add(tx: RecordedTransaction) -> int:
            items = _found(tx, f"{scope}.working.list") or []
            await self._think()
            items = items[1 - _LIST_MAX :]
            tx.patch(**{scope: {"working": {"list": [*items, self._token()], "added": self._token()}}})
            token = self._token()
            tx.patch(**{scope: {"working": {"list": {f"[{len(items)}]": token}}}})
            assert _found(tx, f"{scope}.working.list") == [*items, token]
            return len(items)

        length: int = await session.transact(add)
        assert length < _LIST_MAX

    async def _compare(self, session: RecordedSession) -> None:
        """What is written rests on two places, one of which others change in another scope."""

        async def swap(tx: RecordedTransaction) -> Any:
            first, second = _found(tx, "global.working.k0"), _found(tx, "cwd.working.k0")
            await self._think()
            seen = f"{'same' if first == second else 'other'} {self._token()}"
            tx.patch(cwd={"working": {"k0": self._token()}}, session={"working": {"seen": seen}})

        await session.transact(swap, attempts=self.random.choice((1, 3, 64)))

    async def _enlist(self, session: RecordedSession) -> None:
        """A key is added beside all those that are there; whose turn comes is seen by the keys alone."""

        async def enlist(tx: RecordedTransaction) -> Any:
            keys = _keys(tx, "cwd.working.line")
            await self._think()
            places = {f"n{len(keys)}": self._token()}
            tx.patch(cwd={"working": {"line": places if len(keys) < _LIST_MAX else None}})

        await session.transact(enlist)

    async def _edit(self, session: RecordedSession) -> None:
        """An element is edited where there is a list; that there is none is seen by the refusal."""
        does_change = self.random.random() < 0.5

        async def edit(tx: RecordedTransaction) -> Any:
            try:
                tx.patch(global_={"working": {"k1": {"[0]": self._token()}}})
            except CallError:
                tx.patch(session={"working": {"refused": self._token()}})
                after: Any = [self._token()]
            else:
                after = self._token()
            await self._think()
            if does_change:
                tx.patch(global_={"working": {"k1": after}})

        await session.transact(edit)

    async def _look(self, session: RecordedSession) -> None:
        """A transaction that only reads."""

        def look(tx: RecordedTransaction) -> None:
            for path in self.random.sample(_PATHS, 2):
                _found(tx, path)

        await session.transact(look)

    async def _body(self, session: RecordedSession) -> None:
        """A transaction as a block, with a pause in it: conflicts are its own business."""
        async with session.transaction() as tx:
            count = _found(tx, "global.working.count")
            await self._think()
            tx.patch(session={"working": {"last": {"count": count or 0, "by": self._token()}}})

    async def _give_up(self, session: RecordedSession) -> None:
        """A block that ends with an exception of its own: nothing of it is stored."""
        with suppress(_GivenUp):
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"k1": self._token()}})
                raise _GivenUp

    async def _take(self, session: RecordedSession) -> None:
        """Take what somebody has put there; wait if there is nothing, or put something there instead."""

        async def take(tx: RecordedTransaction) -> Any:
            # Whoever retries leaves nothing of this behind.
            tx.patch(session={"working": {"taken": self._token()}})
            if _found(tx, "cwd.working.box") is None:
                await tx.retry()
            tx.patch(cwd={"working": {"box": None}})

        async def put(tx: RecordedTransaction) -> Any:
            await self._think()
            tx.patch(cwd={"working": {"box": self._token()}})

        if self.random.random() < 0.5:
            await session.transact(take, or_else=put)
        else:
            await take_in_time(session, "cwd.working.box", lambda: session.transact(take))

    # -- looking ------------------------------------------------------------------------------------------------

    async def _read(self, session: RecordedSession) -> None:
        path = self.random.choice(_PATHS)
        projection: Any = "keys" if self.random.random() < 0.15 and "[" not in path else "value"
        await session.read_state(path, projection=projection, fresh=self.random.random() < 0.3)

    async def _wait(self, session: RecordedSession) -> None:
        """Wait for a change by somebody else, for a while."""
        if self.random.random() < 0.3:
            with trio.move_on_after(WAIT_S):
                await session.wait_for("global.working.k1", lambda value: isinstance(value, str))
        else:
            await wait_for_others(session, *self.random.sample(_WATCHED, 2))

    async def _log(self, session: RecordedSession) -> None:
        await session.log("global.working", limit=3)


def _found(tx: RecordedTransaction, path: str) -> Any:
    """The value at a path; None if there is nothing."""
    try:
        return tx.read(path).value
    except ReadError:
        return None


def _keys(tx: RecordedTransaction, path: str) -> list[str]:
    """The keys of an object; none if there is nothing."""
    try:
        return sorted(tx.read(path, "keys").keys or ())
    except ReadError:
        return []


class _GivenUp(Exception):
    """Ends a block."""
