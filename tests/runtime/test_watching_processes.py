"""Watching what other processes do, under virtual time: patches, foreign bytes, fences, gaps, kills."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from kit.json_strategies import SCALARS
from kit.simulated_processes import Process
from kit.simulated_runtimes import run_seeded, session_in
from strataflow import Change, ReadError, Session, StoreError, Watch
from strataflow.actors.limits import POLL_BEAT_S
from strataflow.runtime.simulation.seams import STORE, SimulatedMachine
from strataflow.store.algebra import detach, same

ABSENT = object()


async def read(session: Session, path: str) -> Any:
    """What a session reads now; a dangling hint is nothing too."""
    try:
        return (await session.read_state(path)).value
    except ReadError:
        return ABSENT


def alike(left: Any, right: Any) -> bool:
    """Whether two reads gave the same."""
    return left is right or (ABSENT not in (left, right) and same(left, right))


async def next_or_none(watch: Watch) -> Change | None:
    """The next change, None if there is none within a beat and what a look takes."""
    with trio.move_on_after(2 * POLL_BEAT_S):
        return await anext(watch)
    return None


async def test_a_change_by_another_process_is_told_within_a_beat(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (_, mine), session_in(machine, "second", "other") as (_, theirs):
        watch = mine.watch("cwd.working")
        receipt = await theirs.patch_state(cwd={"working": {"n": 1}})
        with trio.fail_after(POLL_BEAT_S + 0.001):
            change = await anext(watch)
        assert change.transition is not None
        assert (change.transition.session, change.transition_id) == ("other", receipt.transition_id)
        assert await read(mine, "cwd.working") == {"n": 1}
        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(mine.wait_for, "working.n", lambda value: value == 2)
                await theirs.patch_state(cwd={"working": {"n": 2}})


async def test_a_fenced_session_sees_its_kept_memory_until_it_is_selected_again(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (_, mine), session_in(machine, "second") as (_, same_session):
        await mine.patch_state(session={"working": {"n": 1}})
        watch = mine.watch("session.working.n", "cwd.working")
        await same_session.set_mode("active")
        await same_session.patch_state(session={"working": {"n": 2}}, cwd={"working": {"shared": 1}})
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("cwd.working",)
        assert await next_or_none(watch) is None
        assert await read(mine, "session.working.n") == 1
        await mine.set_mode("active")
        change = await next_or_none(watch)
        assert change is not None
        assert (change.scope, change.paths) == ("session", ("session.working.n",))
        assert await read(mine, "session.working.n") == 2


async def test_foreign_bytes_that_win_are_told_without_a_transition(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"n": 1}})
        await runtime.checkpoint()
        watch = session.watch()
        path = f"{STORE}/--project--/checkpoint.json"
        machine.disk.unlink(path)
        machine.disk.write_new(path, b'{"working":{"by-hand":1}}\n')
        await session.patch_state(cwd={"working": {"lost": 1}})
        assert await next_or_none(watch) is not None
        report = await runtime.checkpoint()
        assert report.superseded == ("--project--",)
        change = await next_or_none(watch)
        assert change is not None
        assert (change.scope, change.paths, change.transition) == ("cwd", ("cwd.working",), None)
        assert "lost" not in await read(session, "cwd.working")


async def test_a_scope_that_can_not_be_read_any_more_is_told_and_so_is_its_return(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (runtime, session):
        await session.patch_state(cwd={"working": {"n": 1}})
        watch = session.watch("cwd.working.n", "session.working", "working.n")
        state = runtime._state
        state.errors["--project--"] = StoreError("E_CORRUPT", "damaged")
        state.on_change(("--project--",), None)
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("cwd.working.n", "working.n")
        with pytest.raises(StoreError, match="damaged"):
            await session.wait_for("cwd.working.n", bool)
        del state.errors["--project--"]
        state.on_change(("--project--",), None)
        change = await next_or_none(watch)
        assert change is not None
        assert change.paths == ("cwd.working.n", "working.n")


async def test_rows_that_were_pruned_meanwhile_are_read_from_the_files(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (_, mine), session_in(machine, "second", "other") as (busy, theirs):
        watch = mine.watch("global.working.n", "global.contract")
        for number in range(150):
            await theirs.patch_state(global_={"working": {"n": number}})
        assert (await busy.checkpoint()).pruned_rows > 0
        change = await next_or_none(watch)
        assert change is not None
        assert (change.paths, change.transition) == (("global.working.n",), None)
        assert await read(mine, "global.working.n") == 149
        assert await next_or_none(watch) is None


async def test_handles_of_a_session_opened_twice_end_together_and_others_go_on(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (runtime, first):
        second = await runtime.open_session("/project", "main")
        other = await runtime.open_session("/project", "other", "active")
        watches = [session.watch("cwd.working") for session in (first, second, other)]
        await second.aclose()
        for watch in watches[:2]:
            with pytest.raises(StopAsyncIteration):
                await anext(watch)
        await other.patch_state(cwd={"working": {"n": 1}})
        assert await next_or_none(watches[2]) is not None
        again = await runtime.open_session("/project", "main")
        watch = again.watch("cwd.working")
        await other.patch_state(cwd={"working": {"n": 2}})
        assert await next_or_none(watch) is not None
        with pytest.raises(StopAsyncIteration):
            await anext(watches[0])


async def test_a_process_killed_in_the_middle_of_its_changes_leaves_watchers_with_the_truth(
    autojump_clock: MockClock,
) -> None:
    machine = SimulatedMachine()
    async with session_in(machine) as (_, mine), trio.open_nursery() as nursery:
        watch = mine.watch("cwd.working")
        process = await Process.start(nursery, machine, "second")
        theirs = await process.session("/project", "other")
        receipt = await theirs.patch_state(cwd={"working": {"n": 1}})
        await process.kill()
        change = await next_or_none(watch)
        assert change is not None
        assert change.transition_id == receipt.transition_id
        assert await read(mine, "cwd.working") == {"n": 1}


PATHS = ["working", "effective.working.a", "global.working", "cwd.working.a", "session.working.a.b", "cwd[1].working.a"]
MEMBERS = st.dictionaries(
    st.sampled_from("ab"), st.one_of(st.none(), SCALARS, st.dictionaries(st.sampled_from("bc"), SCALARS, max_size=2))
)
STEP = st.tuples(
    st.integers(0, 3), st.dictionaries(st.sampled_from(["global_", "cwd", "session"]), MEMBERS, min_size=1)
)


@settings(max_examples=60, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.one_of(STEP, st.just("look"), st.just("checkpoint")), max_size=25),
    watched=st.lists(st.sampled_from(PATHS), max_size=4),
    seed=st.integers(0, 1000),
)
def test_applying_every_notice_leads_a_mirror_to_the_final_values(
    steps: list[Any], watched: list[str], seed: int
) -> None:
    run_seeded(seed, lambda: _mirror(steps, watched, seed))


async def _mirror(steps: list[Any], watched: list[str], seed: int) -> None:
    machine = SimulatedMachine(seed)
    async with session_in(machine) as (runtime, mine), session_in(machine, "second", "other") as (second, theirs):
        sessions = [
            mine,
            theirs,
            await runtime.open_session("/project", "third", "active"),
            await second.open_session("/elsewhere", "main", "active"),
        ]
        watch = mine.watch(*watched)
        paths = watched or [f"{scope}.working" for scope in ("global", "cwd", "session")]
        mirror = {path: detach(await read(mine, path)) for path in paths}

        async def note(change: Change) -> None:
            assert change.paths
            for path in change.paths:
                now = await read(mine, path)
                assert not alike(mirror[path], now), (path, now)
                mirror[path] = detach(now)

        for step in steps:
            if step == "checkpoint":
                await second.checkpoint()
            elif step == "look":
                change = await next_or_none(watch)
                if change is not None:
                    await note(change)
            else:
                number, patches = step
                await sessions[number].patch_state(**{name: {"working": members} for name, members in patches.items()})
        while (change := await next_or_none(watch)) is not None:
            await note(change)
        for path in paths:
            assert alike(await read(mine, path), mirror[path])
