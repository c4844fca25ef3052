"""Goal: no sequence of sends, cancels, receives, answers, crashes and closings surprises us.

Method: random operations are done on a mailbox and on a naive model of at most 60 lines, and everything that can be
seen of both is compared after each of them. Who runs first is drawn too.
"""

from __future__ import annotations

from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.callers import Caller, check_sum
from strataflow.actors.envelope import Envelope
from strataflow.actors.mailbox import Mailbox
from strataflow.store import CallError


@attrs.define(eq=False)
class Model:
    """The naive mailbox: one list in order of sending, everything else is looked up in it."""

    capacity: int
    order: list[int] = attrs.field(factory=list)
    where: dict[int, str] = attrs.field(factory=dict)  # waiting queued received taken, or how it ended
    results: dict[int, Any] = attrs.field(factory=dict)  # what its sender saw first
    asks: set[int] = attrs.field(factory=set)
    closed: bool = False

    def at(self, *places: str) -> list[int]:
        return [n for n in self.order if self.where[n] in places]

    def send(self, n: int, is_ask: bool) -> None:
        self.order.append(n)
        self.where[n] = "waiting"
        self.asks |= {n} if is_ask else set()
        if self.closed:
            self.end(n, "E_CLOSED")
        self.settle()

    def settle(self) -> None:
        while self.at("waiting") and len(self.at("queued", "received")) < self.capacity:
            n = self.at("waiting")[0]
            self.where[n] = "queued"
            if n not in self.asks:
                self.results[n] = None

    def end(self, n: int, result: Any) -> None:
        self.where[n] = "ended"
        self.results.setdefault(n, result)
        self.settle()

    def cancel(self, n: int) -> None:
        self.results[n] = "cancelled"
        if self.where[n] != "taken":
            self.where[n] = "withdrawn"
        self.settle()

    def end_life(self) -> None:
        for n in self.at("taken"):
            self.end(n, "E_BROKEN")
        for n in self.at("received"):
            self.where[n] = "queued"

    def close(self) -> None:
        self.closed = True
        for n in self.at("waiting"):
            self.end(n, "E_CLOSED")

    def finish(self) -> None:
        self.close()
        self.end_life()
        for n in self.at("queued"):
            self.end(n, "E_CLOSED")


@attrs.define(eq=False)
class Machine:
    """Does each operation on the mailbox and on the model."""

    mailbox: Mailbox
    model: Model
    nursery: trio.Nursery
    callers: dict[int, Caller] = attrs.field(factory=dict)
    envelopes: dict[int, Envelope] = attrs.field(factory=dict)

    def do(self, name: str, choice: int) -> None:
        model, mailbox = self.model, self.mailbox
        if name in ("ask", "tell"):
            n = len(model.order)
            model.send(n, name == "ask")
            self.callers[n] = Caller(mailbox, n, name == "ask")
            self.nursery.start_soon(self.callers[n].run)
        elif name == "receive":
            batch = mailbox.receive_batch_nowait(choice)
            assert [envelope.message for envelope in batch] == model.at("queued")[:choice]
            for envelope in batch:
                self.envelopes[envelope.message] = envelope
                model.where[envelope.message] = "received"
        elif name in ("end_life", "close", "finish"):
            getattr(mailbox, name)()
            getattr(model, name)()
        elif name == "cancel":
            self.cancel([n for n in self.callers if n not in model.results], choice)
        elif name == "take":
            self.take([n for n in self.envelopes if model.where[n] in ("received", "withdrawn")], choice)
        else:
            self.answer(model.at("received", "taken"), choice, name)

    def cancel(self, numbers: list[int], choice: int) -> None:
        if numbers:
            n = numbers[choice % len(numbers)]
            self.callers[n].scope.cancel()
            self.model.cancel(n)

    def take(self, numbers: list[int], choice: int) -> None:
        if numbers:
            n = numbers[choice % len(numbers)]
            can = self.model.where[n] == "received"
            assert (self.envelopes[n].take(), self.envelopes[n].is_withdrawn) == (can, not can)
            if can:
                self.model.where[n] = "taken" if n in self.model.asks else "ended"
                self.model.settle()

    def answer(self, numbers: list[int], choice: int, name: str) -> None:
        if numbers:
            n = numbers[choice % len(numbers)]
            if name == "reply":
                self.envelopes[n].reply(n)
            else:
                self.envelopes[n].fail(CallError("E_OFF", "no"))
            self.model.end(n, n if name == "reply" else "E_OFF")

    def check(self) -> None:
        check_sum(self.mailbox)
        numbers = self.mailbox.statistics()
        assert numbers.depth == len(self.model.at("queued", "received"))
        assert numbers.waiting == len(self.model.at("waiting"))
        assert numbers.handling == len(self.model.at("taken"))
        seen = {n: caller.result for n, caller in self.callers.items()}
        assert seen == {n: self.model.results.get(n, "pending") for n in self.callers}


NAMES = "ask ask ask tell cancel cancel receive receive take take reply fail end_life".split()
operation = st.tuples(st.sampled_from(NAMES), st.integers(0, 5))
ending = st.tuples(st.sampled_from("close finish receive take reply cancel ask tell".split()), st.integers(0, 5))


@given(
    capacity=st.integers(1, 4),
    operations=st.lists(operation, max_size=40),
    endings=st.lists(ending, max_size=6),
    order=st.random_module(),
)
@settings(print_blob=True, deadline=None)
def test_random_operations_agree_with_a_naive_model(
    capacity: int, operations: list[tuple[str, int]], endings: list[tuple[str, int]], order: object
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            machine = Machine(Mailbox("m", capacity), Model(capacity), nursery)
            for name, choice in [*operations, *endings, ("finish", 0)]:
                machine.do(name, choice)
                await wait_all_tasks_blocked()
                machine.check()
            assert "pending" not in [caller.result for caller in machine.callers.values()]  # B4

    trio.run(main, clock=MockClock(autojump_threshold=0))
