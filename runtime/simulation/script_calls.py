"""The calls of a scripted client: which ones, how often, and with what."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, final

import attrs
import trio

from ...store import ReadError
from .recorded_transactions import RecordedTransaction
from .recorder import RecordedSession

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
        "look": 4,
        "body": 4,
        "take": 3,
        "wait": 2,
        "log": 1,
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
# How long a list grows.
_LIST_MAX = 8
# How long a client waits for a change, in virtual seconds.
_WAIT_S = 2.0


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
        patches = {scope: {"working": self._change()} for scope in sorted(scopes)}
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

    async def _count(self, session: RecordedSession) -> None:
        """A shared counter goes up by one."""

        def add_one(tx: RecordedTransaction) -> None:
            tx.patch(global_={"working": {"count": (_found(tx, "global.working.count") or 0) + 1}})

        await session.transact(add_one)

    async def _add(self, session: RecordedSession) -> None:
        """A list gets one more element, in the directory or in private."""
        scope = self.random.choice(("cwd", "session"))

        async def add(tx: RecordedTransaction) -> int:
            items = _found(tx, f"{scope}.working.list") or []
            await trio.lowlevel.checkpoint()
            patch = {"working": {"list": [*items[1 - _LIST_MAX :], self._token()]}}
            tx.patch(**{scope: patch})
            assert _found(tx, f"{scope}.working.list")[-1] == patch["working"]["list"][-1]
            return len(items)

        length: int = await session.transact(add)
        assert length <= _LIST_MAX

    async def _compare(self, session: RecordedSession) -> None:
        """What is written rests on two places and a set of keys that others change."""

        def swap(tx: RecordedTransaction) -> None:
            first, second = _found(tx, "global.working.k0"), _found(tx, "cwd.working.k0")
            keys = sorted(tx.read("global.working", "keys").keys or ()) if _found(tx, "global.working") else []
            seen = f"{len(keys)} keys, {'same' if first == second else 'other'}"
            tx.patch(cwd={"working": {"k0": self._token()}}, global_={"working": {"seen": f"{seen} {self._token()}"}})

        await session.transact(swap, attempts=self.random.choice((1, 3, 64)))

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
            await trio.sleep(self.random.choice((0.0, 0.001, 0.1)))
            tx.patch(session={"working": {"last": {"count": count or 0, "by": self._token()}}})

    async def _take(self, session: RecordedSession) -> None:
        """Take what somebody has put there; wait if there is nothing, or put something there instead."""

        async def take(tx: RecordedTransaction) -> Any:
            if _found(tx, "cwd.working.box") is None:
                await tx.retry()
            tx.patch(cwd={"working": {"box": None}})

        def put(tx: RecordedTransaction) -> Any:
            tx.patch(cwd={"working": {"box": self._token()}})

        with trio.move_on_after(_WAIT_S):
            await session.transact(take, or_else=put if self.random.random() < 0.5 else None)

    # -- looking ------------------------------------------------------------------------------------------------

    async def _read(self, session: RecordedSession) -> None:
        path = self.random.choice(_PATHS)
        projection: Any = "keys" if self.random.random() < 0.15 and "[" not in path else "value"
        await session.read_state(path, projection=projection, fresh=self.random.random() < 0.3)

    async def _wait(self, session: RecordedSession) -> None:
        """Wait for a change by somebody else, for a while."""
        with trio.move_on_after(_WAIT_S):
            if self.random.random() < 0.5:
                await session.wait_for("global.working.k1", lambda value: isinstance(value, str))
            else:
                async with session.watch("cwd.working", "global.working.count") as watch:
                    async for _ in watch:
                        break

    async def _log(self, session: RecordedSession) -> None:
        await session.log("global.working", limit=3)


def _found(tx: RecordedTransaction, path: str) -> Any:
    """The value at a path; None if there is nothing."""
    try:
        return tx.read(path).value
    except ReadError:
        return None
