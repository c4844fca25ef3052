"""Watching memory in one process, under virtual time: what is told, when, and how it ends."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.simulated_runtimes import session_in
from strataflow import CallError, Change, ReadError, Session, StoreError, Watch
from strataflow.runtime.simulation.seams import STORE, SimulatedMachine


async def next_or_none(watch: Watch) -> Change | None:
    """The next change, None if there is none at this moment."""
    with trio.move_on_after(0.01):
        return await anext(watch)
    return None


async def put(session: Session, scope: str = "cwd", **working: Any) -> None:
    """Write members of a scope's working plane."""
    name = "global_" if scope == "global" else scope
    await session.patch_state(**{name: {"working": working}})


async def test_a_change_of_a_watched_path_says_who_made_it(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (runtime, session):
        other = await runtime.open_session("/project", "other", "active")
        watch = session.watch("working.plan", "cwd.contract")
        receipt = await other.patch_state(cwd={"working": {"plan": "a"}})
        change = await anext(watch)
        assert (change.scope, change.paths, change.revision) == ("cwd", ("working.plan",), "g0c1s0")
        assert change.transition_id == receipt.transition_id
        assert change.transition is not None
        assert (change.transition.session, change.transition.cwd) == ("other", "/project")
        assert change.transition.seq == receipt.seq
        assert change.to_json()["transition"]["transition_id"] == receipt.transition_id
        assert await next_or_none(watch) is None


async def test_a_change_beside_the_watched_paths_is_not_told(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        watch = session.watch("cwd.working.plan")
        await put(session, "session", plan=1)
        await put(session, "cwd", other=1)
        assert await next_or_none(watch) is None


async def test_of_many_changes_nobody_read_one_is_told_for_each_scope(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        watch = session.watch()
        for number in range(50):
            await put(session, "cwd", n=number)
            await put(session, "global", n=number)
        last = await session.patch_state(cwd={"contract": {"x": 1}})
        changes = [await next_or_none(watch) for _ in range(3)]
        assert [(change.scope, change.paths) for change in changes if change] == [
            ("cwd", ("cwd.contract", "cwd.working")),
            ("global", ("global.working",)),
        ]
        assert changes[0] is not None
        assert changes[0].transition_id == last.transition_id


async def test_what_was_changed_back_before_anybody_asked_is_not_told(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        await put(session, plan=1)
        watch = session.watch("working.plan")
        await put(session, plan=2)
        await put(session, plan=1)
        assert await next_or_none(watch) is None


async def test_a_change_that_a_narrower_scope_hides_is_not_told(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        await put(session, "session", plan="mine")
        watch = session.watch("working.plan", "global.working.plan")
        await put(session, "global", plan="theirs")
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("global.working.plan",)


async def test_an_object_that_uncovers_what_broader_scopes_have_is_told(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        await put(session, "global", plan={"step": 1})
        await put(session, "session", plan="none")
        watch = session.watch("working.plan.step")
        await put(session, "session", plan={"note": "go"})
        change = await next_or_none(watch)
        assert change is not None
        assert (await session.read_state("working.plan.step")).value == 1


async def test_a_cancelled_wait_loses_no_change(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        watch = session.watch("working.plan")
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(watch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(next_or_none, watch)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            # The test itself must not be cancelled with its watcher. It ends: nothing is in the way of a patch.
            with trio.CancelScope(shield=True):
                await put(session, plan=1)
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("working.plan",)


async def test_a_waiting_watcher_is_woken_by_the_change(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session), trio.open_nursery() as nursery:
        seen: list[Change] = []

        async def read_all(watch: Watch) -> None:
            async for change in watch:
                seen.append(change)

        async with session.watch("working") as watch:
            nursery.start_soon(read_all, watch)
            for number in range(5):
                await wait_all_tasks_blocked()
                await put(session, n=number)
            await wait_all_tasks_blocked()
        # Its end ends whoever waits in it.
    assert [change.revision for change in seen] == [f"g0c{number}s0" for number in range(1, 6)]


@pytest.mark.parametrize("end", ["session", "runtime", "watch"])
async def test_a_watch_ends_with_what_it_watches(autojump_clock: MockClock, end: str) -> None:
    async with session_in(SimulatedMachine()) as (runtime, session):
        watch = session.watch()
        ended: list[str] = []

        async def read_all() -> None:
            async for _ in watch:
                ended.append("told of something")
            ended.append("ended")

        async def wait() -> None:
            with pytest.raises(StoreError) as caught:
                await session.wait_for("working.never", bool)
            ended.append(caught.value.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_all)
            if end != "watch":
                nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            await {"session": session, "runtime": runtime, "watch": watch}[end].aclose()  # type: ignore[attr-defined]
        assert sorted(ended) == (["ended"] if end == "watch" else ["E_CLOSED", "ended"])
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
        if end != "watch":
            with pytest.raises(StoreError, match="closed"):
                session.watch()
        await watch.aclose()


async def test_a_session_that_is_off_can_not_be_watched(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (runtime, session):
        other = await runtime.open_session("/project", "other", "active")
        watch = session.watch("global.working")
        codes: list[str] = []

        async def read_one() -> None:
            with pytest.raises(CallError) as caught:
                await anext(watch)
            codes.append(caught.value.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_one)
            await wait_all_tasks_blocked()
            await session.set_mode("off")
        assert codes == ["E_OFF"]
        with pytest.raises(CallError, match="off"):
            session.watch()
        with pytest.raises(CallError, match="off"):
            await session.wait_for("working", bool)
        await put(other, "global", x=1)
        await session.set_mode("passive")
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("global.working",)


async def test_sessions_that_come_and_go_wake_nobody_who_watches_others(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (runtime, session), trio.open_nursery() as nursery:
        looks: list[str] = []

        def look() -> bool:
            looks.append(session.mode)
            return False

        nursery.start_soon(runtime.hub.wait_until, look, session._cell.watched())
        await wait_all_tasks_blocked()
        other = await runtime.open_session("/project", "other", "active")
        await other.set_mode("off")
        await other.aclose()
        await wait_all_tasks_blocked()
        assert looks == ["active"]
        await session.set_mode("off")
        await wait_all_tasks_blocked()
        assert looks == ["active", "off"]
        nursery.cancel_scope.cancel()


async def test_a_session_whose_folder_got_another_name_is_watched_there(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine, mode="passive") as (_, session):
        watch = session.watch("session.working", "cwd.contract")
        await session.set_mode("off")
        machine.disk.make_folder(f"{STORE}/--project--")
        machine.disk.make_folder(f"{STORE}/--project--/2026_main")
        await session.set_mode("passive")
        await put(session, "session", x=1)
        change = await next_or_none(watch)
        assert change is not None
        assert (change.scope, change.paths) == ("session", ("session.working",))
        assert await next_or_none(watch) is None
        await put(session, "session", x=2)
        assert await next_or_none(watch) is not None


async def test_a_watch_that_was_closed_gives_nothing_more(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        watch = session.watch("working")
        assert "main" in repr(watch)
        await watch.aclose()
        assert "closed" in repr(watch)
        await watch.aclose()
        await put(session, x=1)
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_paths_that_can_never_give_anything_are_refused(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        for path in ("nowhere", "cwd[101].working"):
            with pytest.raises(ReadError):
                session.watch(path)
        with pytest.raises(CallError, match="strings"):
            session.watch(7)  # type: ignore[arg-type]
        with pytest.raises(CallError, match="strings"):
            session.watch(*["working"] * 1001)


async def test_a_watch_that_was_dropped_is_told_nothing_more(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (runtime, session):
        async for _ in _with_a_first_change(session):
            break
        session.watch("working")
        gc.collect()
        assert not any(runtime.hub._by_scope.values())


def _with_a_first_change(session: Session) -> Any:
    class Both:
        def __init__(self) -> None:
            self.watch = session.watch("working")

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Change:
            await put(session, x=1)
            return await anext(self.watch)

    return Both()


async def test_two_tasks_may_wait_for_one_watch(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        watch, seen = session.watch(), list[str]()

        async def read_one() -> None:
            seen.append((await anext(watch)).scope)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_one)
            nursery.start_soon(read_one)
            await wait_all_tasks_blocked()
            await session.patch_state(global_={"working": {"x": 1}}, cwd={"working": {"x": 1}})
    assert sorted(seen) == ["cwd", "global"]


async def test_what_lies_in_the_past_changes_with_every_transition(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        await put(session, x=1)
        watch = session.watch("cwd[1].working.x", "cwd.patches[0]")
        await put(session, x=2)
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("cwd[1].working.x", "cwd.patches[0]")


async def test_waiting_gives_the_value_that_the_predicate_accepted(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        asked: list[Any] = []

        def is_done(value: Any) -> bool:
            asked.append(value)
            return value is not None and value["done"] is True

        async def work() -> None:
            for done in (False, True):
                await wait_all_tasks_blocked()
                await put(session, job={"done": done, "log": [1]})
                await put(session, other=1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            value = await session.wait_for("working.job", is_done)
        assert [found and found["done"] for found in asked] == [None, False, True]
        value["log"].append(2)
        asked[-1]["log"].append(3)
        assert (await session.read_state("working.job.log")).value == [1]
        assert await session.wait_for("working.job.done", bool) is True


async def test_what_the_predicate_raises_is_raised_to_the_caller(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        with pytest.raises(ZeroDivisionError):
            await session.wait_for("working", lambda value: 1 / 0)

        async def never(value: Any) -> bool:
            return True

        with pytest.raises(CallError, match="async"):
            await session.wait_for("working", never)


async def test_waiting_for_something_to_vanish_ends_when_it_does(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session), trio.open_nursery() as nursery:
        await put(session, job=1)
        nursery.start_soon(session.wait_for, "working.job", lambda value: value is None)
        await wait_all_tasks_blocked()
        await session.patch_state(cwd={"working": {"job": None}})
