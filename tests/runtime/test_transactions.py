"""``session.transaction()``: snapshots, ends, errors with names, and nothing held meanwhile."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from kit.runtimes import conflicting, refused, value
from kit.simulated_runtimes import GatedThreads, session_in
from strataflow import CallError, ChangedBy, Runtime, Session, StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.transactions_desk import FRESH_S

WORKING = {"working": {"n": 1, "list": [1, 2], "tree": {"a": 1}}}


@asynccontextmanager
async def opened(machine: SimulatedMachine | None = None, **options: Any) -> AsyncIterator[tuple[Runtime, Session]]:
    """A session with something in its directory's memory."""
    async with session_in(machine or SimulatedMachine(1), **options) as (runtime, session):
        await session.patch_state(cwd=WORKING)
        yield runtime, session


# -- the good end ------------------------------------------------------------------------------------------------------


async def test_a_transaction_reads_a_snapshot_and_commits_at_its_end(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as tx:
            found = tx.read("cwd.working.n").value
            tx.patch(cwd={"working": {"n": found + 1}}, session={"lazy": {"seen": found}})
            assert tx.read("cwd.working.n").value == 2
            assert await value(session, "cwd.working.n") == 1
            assert tx.receipt is None
        assert tx.receipt is not None
        assert (tx.receipt.changed, tx.receipt.scopes, tx.receipt.step) == (True, ("cwd", "session"), 2)
        assert tx.receipt.replaced == {"/cwd/working/n": 1}
        assert await value(session, "effective.lazy.seen") == 1


async def test_what_a_transaction_reads_is_a_copy_of_its_own(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as tx:
            tx.read("cwd.working.list").value.append(3)
            keys = tx.read("cwd.working", "keys")
            keys.keys["x"], keys.meta["size"] = "y", 0
            tx.read("cwd.patches[0]").patch["working"]["n"] = 100
            await session.patch_state(session={"lazy": {"x": 1}})  # so that all of it is looked at once more
            assert tx.read("cwd.working.list").value == [1, 2]
        assert await value(session, "cwd.working") == WORKING["working"]


async def test_a_snapshot_stays_as_it_was_while_others_write(autojump_clock: MockClock) -> None:
    async with opened() as (_, session), session.transaction() as tx:
        await session.patch_state(global_={"lazy": {"x": 1}}, session={"lazy": {"y": 1}})
        with refused("E_CONFLICT"):
            async with session.transaction() as other:
                assert other.read("global.lazy.x").value == 1
                await session.patch_state(global_={"lazy": {"x": 2}})
        assert tx.read("cwd.working.n").value == 1
        with refused("E_MISSING"):
            tx.read("cwd.lazy.x")


async def test_transactions_of_one_session_are_independent(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as first, session.transaction() as second:
            first.patch(cwd={"working": {"first": first.read("cwd.working.n").value}})
            second.patch(cwd={"working": {"second": second.read("cwd.working.list[0]").value}})
        assert await value(session, "cwd.working") == {**WORKING["working"], "first": 1, "second": 1}


async def test_a_transaction_that_only_reads_says_whether_all_of_it_is_still_true(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as tx:
            tx.read("cwd.working.n")
        assert tx.receipt is not None
        assert (tx.receipt.changed, tx.receipt.scopes, tx.receipt.text) == (False, (), "")
        with refused("E_CONFLICT"):
            async with session.transaction() as tx:
                tx.read("cwd.working.n")
                await session.patch_state(cwd={"working": {"n": 2}})


async def test_an_empty_transaction_is_accepted_and_changes_nothing(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as tx:
            pass
        assert tx.receipt is not None
        assert not tx.receipt.changed


async def test_the_end_of_a_transaction_is_a_checkpoint(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        for patch in (None, {"lazy": {"x": 1}}):
            context = session.transaction()
            tx = await context.__aenter__()
            tx.read("cwd.working.n")
            if patch:
                tx.patch(session=patch)
            with assert_checkpoints():
                await context.__aexit__(None, None, None)


# -- conflicts ---------------------------------------------------------------------------------------------------------


async def test_a_conflict_names_path_values_and_who_did_it(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(2)
    async with opened(machine) as (_, mine), session_in(machine, "second", "other") as (_, other):
        with conflicting() as caught:
            async with mine.transaction() as tx:
                tx.read("cwd.working.n")
                tx.read("effective.working.tree", "keys")
                await mine.patch_state(session={"working": {"unrelated": 1}})
                receipt = await other.patch_state(cwd={"working": {"n": 9}}, request_id="r-9")
        (found,) = caught.value.conflicts
        assert (found.path, found.projection, found.read, found.now) == ("cwd.working.n", "value", 1, 9)
        assert isinstance(found.transition, ChangedBy)
        assert found.transition.time_ms > 1_000
        by = (found.transition.transition_id, found.transition.seq, found.transition.session, found.transition.cwd)
        assert by == (receipt.transition_id, receipt.seq, "other", "/project")
        assert found.transition.request_id == "r-9"
        assert caught.value.data["conflicts"] == [found.to_json()]
        twin = pickle.loads(pickle.dumps(caught.value))
        assert (twin.code, twin.conflicts) == ("E_CONFLICT", (found,))


async def test_a_conflict_names_the_newest_transition_that_touched_the_path(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        with conflicting() as caught:
            async with session.transaction() as tx:
                tx.read("working.n")
                await session.patch_state(cwd={"working": {"n": 2}})
                receipt = await session.patch_state(session={"working": {"n": 3}})
                await session.patch_state(session={"working": {"m": 3}})
        assert caught.value.conflicts[0].transition is not None
        assert caught.value.conflicts[0].transition.transition_id == receipt.transition_id


async def test_a_conflict_names_who_uncovered_what_was_hidden(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        await session.patch_state(global_={"working": {"n": {"a": 1}}})
        with conflicting() as caught:
            async with session.transaction() as tx:
                with refused("E_MISSING"):
                    tx.read("working.n.a")  # the directory's 1 hides the object
                receipt = await session.patch_state(cwd={"working": {"n": {"b": 2}}})
        (found,) = caught.value.conflicts
        assert (found.read, found.now) == (None, 1)
        assert found.transition is not None
        assert found.transition.transition_id == receipt.transition_id


async def test_values_of_a_conflict_belong_to_its_reader(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        with conflicting() as caught:
            async with session.transaction() as tx:
                tx.read("cwd.working")
                await session.patch_state(cwd={"working": {"n": 2}})
        caught.value.conflicts[0].now["list"].append(8)
        caught.value.data["conflicts"][0]["read"]["list"].append(8)
        assert await value(session, "cwd.working.list") == [1, 2]


async def test_a_conflict_whose_transition_can_not_be_looked_up_is_told_without(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as (runtime, session):
        with conflicting() as caught:
            async with session.transaction() as tx:
                tx.read("cwd.working.list")
                await session.patch_state(cwd={"working": {"list": [7]}})

                def fail(*_: Any) -> Any:
                    raise StoreError("E_DISK", "the journal can not be read")

                monkeypatch.setattr(type(runtime._world.journal), "rows_of", fail)
        assert [(found.now, found.transition) for found in caught.value.conflicts] == [([7], None)]


async def test_a_conflict_leaves_no_trace_and_the_next_writer_is_unaffected(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        with refused("E_CONFLICT"):
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": tx.read("cwd.working.n").value + 1}}, global_={"lazy": {"x": 1}})
                await session.patch_state(cwd={"working": {"n": 5}})
        assert tx.receipt is None
        assert await value(session, "cwd.working.n") == 5
        assert await value(session, "global.lazy") is None
        assert (await session.patch_state(cwd={"working": {"n": 6}})).step == 3


# -- other ends --------------------------------------------------------------------------------------------------------


async def test_a_body_that_raises_stores_nothing(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        with suppress(ZeroDivisionError):
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": 2}})
                raise ZeroDivisionError
        assert await value(session, "cwd.working.n") == 1
        assert tx.receipt is None


async def test_after_its_end_every_use_of_a_transaction_is_refused(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        for fails in (False, True):
            with suppress(KeyError):
                async with session.transaction() as tx:
                    if fails:
                        raise KeyError
            for use in (lambda tx=tx: tx.read("cwd.working.n"), lambda tx=tx: tx.patch(cwd={"working": {"n": 2}})):
                with refused("E_ABORTED"):
                    use()
            with refused("E_ABORTED"):
                await tx.retry()


async def test_a_refused_patch_leaves_the_transaction_usable(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as tx:
            tx.patch(cwd={"working": {"n": 2}})
            for patch in ({"working": {"list": {"[9]": 1}}}, {"nowhere": {}}, {"working": {"x": [None]}}):
                with pytest.raises(CallError):
                    tx.patch(cwd=patch, session={"lazy": {"x": 1}})
            with refused("E_NO_SCOPE"):
                tx.patch()
        assert await value(session, "cwd.working.n") == 2
        assert await value(session, "session.lazy") is None


async def test_retry_is_refused_where_nobody_could_run_the_body_again(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        with refused("E_SHAPE"):
            async with session.transaction() as tx:
                await tx.retry()


async def test_a_body_that_is_cancelled_stores_nothing(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        with trio.move_on_after(1) as scope:
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": 2}})
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert await value(session, "cwd.working.n") == 1


async def test_a_transaction_cancelled_before_it_is_staged_never_happened(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(3)
    async with opened(machine) as (runtime, session):
        rival = machine.locks.of("rival").open(runtime._world.ground.layout.private("turn.lock"))
        assert rival.try_acquire()
        with trio.move_on_after(1) as scope:
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": 2}})
        assert scope.cancelled_caught
        rival.release()
        assert await value(session, "cwd.working.n") == 1
        assert (await session.patch_state(cwd={"working": {"n": 3}})).step == 2


async def test_a_transaction_cancelled_while_it_is_appended_happens_whole(autojump_clock: MockClock) -> None:
    threads = GatedThreads()
    async with opened(threads=threads) as (_, session):
        gate, scope = threads.hold("commit"), trio.CancelScope()

        async def cancel() -> None:
            await wait_all_tasks_blocked()
            scope.cancel()
            await wait_all_tasks_blocked()
            gate.set()

        async with trio.open_nursery() as nursery:
            with scope:
                nursery.start_soon(cancel)
                async with session.transaction() as tx:
                    tx.patch(cwd={"working": {"n": tx.read("cwd.working.n").value + 1}}, session={"lazy": {"x": 1}})
        assert scope.cancelled_caught
        assert tx.receipt is None
        assert (await session.read_state("cwd.working.n", fresh=True)).value == 2
        assert await value(session, "session.lazy.x") == 1


# -- who may -----------------------------------------------------------------------------------------------------------


async def test_a_session_that_is_off_begins_no_transaction(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        async with session.transaction() as tx:
            tx.patch(session={"lazy": {"x": 1}})
            kept = tx
        await session.set_mode("off")
        with refused("E_OFF"):
            async with session.transaction():
                pytest.fail("it began")
        assert kept.receipt is not None


@pytest.mark.parametrize("patches", [True, False])
async def test_a_session_that_is_switched_off_meanwhile_ends_none(autojump_clock: MockClock, patches: bool) -> None:
    async with opened() as (_, session):
        with refused("E_OFF"):
            async with session.transaction() as tx:
                tx.read("cwd.working.n")
                if patches:
                    tx.patch(cwd={"working": {"n": 2}})
                await session.set_mode("off")
        await session.set_mode("active")
        assert await value(session, "cwd.working.n") == 1


@pytest.mark.parametrize("what", ["session", "runtime"])
async def test_a_session_that_is_closed_meanwhile_ends_none(autojump_clock: MockClock, what: str) -> None:
    machine = SimulatedMachine(4)
    async with opened(machine) as (runtime, session):
        with refused("E_CLOSED"):
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": 2}})
                await (session if what == "session" else runtime).aclose()
                with refused("E_CLOSED"):
                    tx.read("cwd.working.n")
        with refused("E_CLOSED"):
            async with session.transaction():
                pytest.fail("it began")
    async with session_in(machine, "later") as (_, session):
        assert await value(session, "cwd.working.n") == 1


async def test_a_conflict_of_a_session_that_is_off_by_then_is_explained_all_the_same(
    autojump_clock: MockClock,
) -> None:
    async with opened() as (runtime, session):
        attempt = await session._home().begin()
        attempt.read("cwd.working.list")
        await session.patch_state(cwd={"working": {"list": [7]}})
        with conflicting() as caught:
            await session._home().commit(attempt, None)
        await session.set_mode("off")
        error = await runtime.desk.explained(caught.value, attempt)
        (found,) = error.conflicts
        assert found.transition is not None
        assert found.now == [7]


async def test_a_fenced_session_neither_begins_nor_ends_a_transaction(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(5)
    async with opened(machine) as (_, mine), session_in(machine, "second") as (_, twin):
        with refused("E_CHANGED"):
            async with mine.transaction() as tx:
                tx.read("cwd.working.n")
                await twin.patch_state(session={"lazy": {"theirs": 1}})
        with refused("E_CHANGED"):
            async with mine.transaction():
                pytest.fail("it began")
        await mine.set_mode("active")
        async with mine.transaction() as tx:
            assert tx.read("session.lazy.theirs").value == 1


async def test_a_session_that_may_not_write_is_told_by_the_patch_and_at_the_end(autojump_clock: MockClock) -> None:
    async with opened() as (_, session):
        fence = CallError("E_FENCED", "the choice of passive could not be stored")
        async with session.transaction() as tx:
            session._cell.problem = fence
            with refused("E_FENCED"):
                tx.patch(cwd={"working": {"n": 2}})
            assert tx.read("cwd.working.n").value == 1
        session._cell.problem = None
        with refused("E_FENCED"):
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": 2}})
                session._cell.problem = fence
        assert await value(session, "cwd.working.n") == 1


async def test_a_passive_session_may_use_transactions(autojump_clock: MockClock) -> None:
    async with opened(mode="passive") as (_, session):
        async with session.transaction() as tx:
            tx.patch(cwd={"working": {"n": tx.read("cwd.working.n").value + 1}})
        assert await value(session, "cwd.working.n") == 2


# -- other processes ---------------------------------------------------------------------------------------------------


async def test_a_change_by_a_process_that_was_not_followed_yet_conflicts(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(6)
    async with opened(machine) as (_, mine), session_in(machine, "second", "other") as (_, other):
        await trio.sleep(5)  # alone for long: the next commit is staged without reading the journal first
        for only_reads in (True, False):
            with refused("E_CONFLICT"):
                async with mine.transaction() as tx:
                    found = tx.read("cwd.working.n").value
                    if not only_reads:
                        tx.patch(session={"lazy": {"n": found}})
                    await other.patch_state(cwd={"working": {"n": found + 1}})
            await trio.sleep(5)


async def test_a_transaction_is_staged_again_when_somebody_else_was_faster(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(7)
    async with opened(machine) as (_, mine), session_in(machine, "second", "other") as (_, other):
        await trio.sleep(5)
        async with mine.transaction() as tx:
            tx.read("cwd.working.n")
            tx.patch(cwd={"working": {"tree": {"b": 2}, "list": {"[0]": 10}}})
            await other.patch_state(cwd={"working": {"list": [5, 6, 7], "tree": {"c": 3}}})
        assert await value(mine, "cwd.working") == {"n": 1, "list": [10, 6, 7], "tree": {"a": 1, "b": 2, "c": 3}}
        await other.read_state("cwd.working", fresh=True)
        assert await value(other, "cwd.working.list") == [10, 6, 7]


async def test_a_transaction_begins_with_what_other_processes_did_lately(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine(11)
    async with opened(machine) as (_, mine), session_in(machine, "second", "other") as (_, other):
        for pause_s in (2 * FRESH_S, 60.0):
            await trio.sleep(pause_s)
            receipt = await other.patch_state(cwd={"working": {"n": pause_s}})
            assert await value(mine, "cwd.working.n") != pause_s  # nobody has looked
            async with mine.transaction() as tx:
                assert tx.read("cwd.working.n").value == pause_s
                tx.patch(session={"lazy": {"seen": receipt.seq}})


async def test_a_transaction_that_follows_another_one_does_not_look_again(autojump_clock: MockClock) -> None:
    async with opened() as (runtime, session):
        async with session.transaction() as tx:
            tx.read("cwd.working.n")
        rounds = runtime._store.statistics().handled
        for number in range(3):
            async with session.transaction() as tx:
                tx.patch(cwd={"working": {"n": number}})
        assert runtime._store.statistics().handled == rounds + 3
        await trio.sleep(1)
        for _ in range(3):
            with suppress(KeyError):
                async with session.transaction():
                    raise KeyError
        assert runtime._store.statistics().handled == rounds + 4


async def test_a_store_whose_turn_is_not_to_be_had_keeps_no_transaction_from_beginning(
    autojump_clock: MockClock,
) -> None:
    machine = SimulatedMachine(12)
    async with opened(machine) as (runtime, session):
        await trio.sleep(5)
        rival = machine.locks.of("rival").open(runtime._world.ground.layout.private("turn.lock"))
        assert rival.try_acquire()
        started = trio.current_time()
        async with session.transaction() as tx:
            assert trio.current_time() - started == pytest.approx(FRESH_S, abs=0.01)
            assert tx.read("cwd.working.n").value == 1
            rival.release()
        rival.close()
