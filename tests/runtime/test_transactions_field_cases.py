"""What breaks in the field, as far as it is a matter of transactions: each test names its case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from kit.runtimes import conflicting, value
from kit.simulated_runtimes import session_in, simulated
from strataflow import CallError, ConflictError, Transaction
from strataflow.runtime.simulation.seams import SimulatedMachine

LOCKS = ("open.lock", "turn.lock", "checkpoint.lock", "queue.lock")
TASKS = 16


@pytest.mark.parametrize("how", ["transact", "transaction", "blind"])
async def test_the_field_case_of_tasks_that_each_add_one_element_to_a_list(autojump_clock: MockClock, how: str) -> None:
    """Field case: N tasks released by a barrier each add one element to the same list by read, change, write: with
    transaction() all N survive; with blind patches the last wins and the receipt shows what it replaced."""
    async with session_in(SimulatedMachine(1)) as (_, session):
        await session.patch_state(cwd={"working": {"items": []}})
        barrier, receipts = trio.Event(), []

        def add(tx: Transaction, number: int) -> None:
            tx.patch(cwd={"working": {"items": [*tx.read("cwd.working.items").value, number]}})

        async def one(number: int) -> None:
            await barrier.wait()
            if how == "transact":
                await session.transact(lambda tx: add(tx, number))
            elif how == "transaction":
                while True:
                    with suppress(ConflictError):
                        async with session.transaction() as tx:
                            add(tx, number)
                        return
            else:
                old = await value(session, "cwd.working.items")
                receipts.append(await session.patch_state(cwd={"working": {"items": [*old, number]}}))

        async with trio.open_nursery() as nursery:
            for number in range(TASKS):
                nursery.start_soon(one, number)
            barrier.set()
        found = await value(session, "cwd.working.items")
        if how != "blind":
            assert sorted(found) == list(range(TASKS))
            return
        assert len(found) == 1
        receipts.sort(key=lambda receipt: receipt.seq)
        lost = [receipt.replaced["/cwd/working/items"] for receipt in receipts[1:]]
        assert sorted([found, *lost]) == [[number] for number in range(TASKS)]


async def test_a_lock_is_never_held_while_user_code_runs_or_an_iterator_is_suspended(
    autojump_clock: MockClock,
) -> None:
    """Field case: a lock is never held while user code runs, an iterator is suspended, or a model answers."""
    machine = SimulatedMachine(9)

    async def thoughts(tx: Transaction) -> AsyncIterator[int]:
        for number in range(3):
            tx.patch(cwd={"working": {"thought": number}})
            yield number  # suspended here, with the transaction open

    async with session_in(machine) as (runtime, session), simulated(machine, "second") as second:
        other = await second.open_session("/project", "other", "active")
        private = runtime._world.ground.layout.private
        async with session.transaction() as tx:
            async for number in thoughts(tx):
                await trio.sleep(120)  # a model answers
                assert [machine.locks.holder(private(name)) for name in LOCKS] == [None] * len(LOCKS)
                assert (await other.patch_state(cwd={"lazy": {f"n{number}": number}})).changed
        assert await value(session, "cwd.working.thought") == 2
        assert await value(session, "cwd.lazy.n2") == 2


async def test_a_failing_or_cancelled_operation_leaves_no_open_transaction(autojump_clock: MockClock) -> None:
    """Field case: a failing or cancelled operation leaves no open transaction; the next writer is unaffected."""
    machine = SimulatedMachine(10)
    async with session_in(machine) as (runtime, session), session_in(machine, "second", "other") as (_, other):
        private = runtime._world.ground.layout.private
        await session.patch_state(cwd={"working": {"n": 1, "list": [1]}})
        for number, ending in enumerate(("raises", "refused", "cancelled", "conflict")):
            with trio.move_on_after(10), suppress(ZeroDivisionError, CallError, ConflictError):
                async with session.transaction() as tx:
                    tx.read("cwd.working.n")
                    tx.patch(cwd={"working": {"bad": number}})
                    if ending == "raises":
                        raise ZeroDivisionError
                    if ending == "refused":
                        tx.patch(cwd={"working": {"list": {"[99]": 1}}})
                    if ending == "cancelled":
                        await trio.sleep_forever()
                    await session.patch_state(cwd={"working": {"n": 100 + number}})
            assert [machine.locks.holder(private(name)) for name in LOCKS] == [None] * len(LOCKS)
            assert (await other.patch_state(cwd={"working": {"next": number}})).changed
            assert (await session.patch_state(cwd={"working": {"own": number}})).changed
        found = (await session.read_state("cwd.working", fresh=True)).value
        assert "bad" not in found
        assert (found["next"], found["own"]) == (3, 3)


async def test_the_field_case_of_a_tidy_up_that_waits_for_a_model(autojump_clock: MockClock) -> None:
    """Field case: a tidy-up reads a snapshot, waits 120 s for a model, writes back: nothing stored meanwhile vanishes;
    a conflict names the overlapping paths only."""
    async with session_in(SimulatedMachine(2)) as (_, session), trio.open_nursery() as nursery:
        notes = {f"note{number}": f"text {number}" for number in range(10)}
        await session.patch_state(cwd={"working": {"notes": notes}})

        async def others() -> None:
            await trio.sleep(60)
            await session.patch_state(cwd={"working": {"notes": {"late": "came meanwhile"}, "n": 2}})
            await session.patch_state(session={"working": {"own": 1}})

        nursery.start_soon(others)
        async with session.transaction() as tx:
            old = {name: tx.read(f"cwd.working.notes.{name}").value for name in ("note1", "note2")}
            await trio.sleep(120)  # a model writes a summary
            tx.patch(cwd={"working": {"notes": {**dict.fromkeys(old), "summary": " ".join(old.values())}}})
        found = await value(session, "cwd.working.notes")
        assert found["late"] == "came meanwhile"
        assert found["summary"] == "text 1 text 2"
        assert "note1" not in found

        async def overlapping() -> None:
            await trio.sleep(60)
            await session.patch_state(cwd={"working": {"notes": {"note4": "changed", "more": "x"}}})

        nursery.start_soon(overlapping)
        with conflicting() as caught:
            async with session.transaction() as tx:
                for name in ("note3", "note4", "note5"):
                    tx.read(f"cwd.working.notes.{name}")
                await trio.sleep(120)
                tx.patch(cwd={"working": {"notes": {"note3": None, "note4": None, "note5": None}}})
        assert [found.path for found in caught.value.conflicts] == ["cwd.working.notes.note4"]
        found = await value(session, "cwd.working.notes")
        assert (found["note4"], found["note3"], found["more"]) == ("changed", "text 3", "x")
