"""Tasks that send one message each, and the sum that a mailbox must always obey."""

from __future__ import annotations

from typing import Any

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from strataflow.actors.mailbox import Mailbox
from strataflow.store import StrataflowError


@attrs.define(eq=False)
class Caller:
    """A task that sends one message and keeps what came of it, in its own cancel scope."""

    mailbox: Mailbox
    message: object
    is_ask: bool = True
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    result: Any = attrs.field(default="pending", init=False)

    async def run(self) -> None:
        with self.scope:
            try:
                send = self.mailbox.ask if self.is_ask else self.mailbox.tell
                self.result = await send(self.message)
            except StrataflowError as error:
                self.result = error.code
        if self.scope.cancelled_caught:
            self.result = "cancelled"


async def start(nursery: trio.Nursery, *callers: Caller) -> None:
    """Start callers one after the other, so that they stand in the mailbox in this order."""
    for caller in callers:
        nursery.start_soon(caller.run)
        await wait_all_tasks_blocked()


def check_sum(mailbox: Mailbox) -> None:
    numbers = mailbox.statistics()
    assert 0 <= numbers.depth <= numbers.capacity  # B1
    assert not numbers.waiting or numbers.depth == numbers.capacity  # B2
    ended = numbers.handled + numbers.withdrawn + numbers.refused
    assert numbers.accepted == numbers.depth + numbers.handling + ended
