"""Actors that write down their lives, for tests of whoever keeps them, under ``autojump_clock`` or a MockClock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

from strataflow.actors.actor import Actor, serve
from strataflow.actors.child import ActorSpec
from strataflow.actors.mailbox import Mailbox
from strataflow.actors.supervision import Budget, ChildSpec, RestartPolicy

# Longer than any test, yet not for ever: under virtual time a mistake ends in a failure, not in a hang.
LONG_S = 80_000


@attrs.define(eq=False)
class Scripted:
    """An actor that writes down its life and crashes on ``"crash"``."""

    name: str
    log: list[str]
    last_words: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        self.log.append(f"+{self.name}")
        task_status.started()
        try:
            await serve(mailbox, self.handle)
            await self.last_words()
        finally:
            self.log.append(f"-{self.name}")

    async def handle(self, message: Any) -> Any:
        if message == "crash":
            raise ZeroDivisionError(self.name)
        if message == "return":
            raise Returned
        if message == "nap":
            await trio.sleep(1)
        if message == "sleep":
            await trio.sleep(LONG_S)
        return message


class Returned(Exception):
    """Makes ``Loose`` return without being asked to."""


@attrs.define(eq=False)
class Loose:
    """An actor that returns while its mailbox is open."""

    inner: Scripted

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        try:
            await self.inner.run(mailbox, task_status)
        except Returned:
            return


@attrs.define(eq=False)
class World:
    """Makes specifications of scripted children that share one log."""

    log: list[str] = attrs.field(factory=list)

    def spec(
        self,
        name: str,
        restart: RestartPolicy = "permanent",
        budget: Budget | None = None,
        shutdown_s: float = 5.0,
        last_words: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
    ) -> ActorSpec:
        def make() -> Actor:
            return Loose(Scripted(name, self.log, last_words))

        return ChildSpec(name, make, restart, Budget() if budget is None else budget, shutdown_s)


async def never() -> None:
    await trio.sleep(LONG_S)
