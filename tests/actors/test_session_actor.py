"""The session actor over a store on a simulated machine: modes, answers, blocked memory, cancellation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.holds import holds
from kit.simulated_runtimes import LoneStore, lone_store
from kit.simulated_stores import SimulatedStore
from strataflow.actors import AcceptResponse, ActorRef, Mailbox, SelectMode, SessionActor, SessionCell
from strataflow.actors.actor import run_life
from strataflow.store import CallError, Mode, StoreError


@asynccontextmanager
async def opened(
    store: LoneStore, wanted: Mode | None, fresh: Mode = "off", session_id: str = "new"
) -> AsyncIterator[tuple[SessionCell, ActorRef]]:
    """A session actor with one life."""
    cell, mailbox = SessionCell("/project", session_id, memory=store.state), Mailbox("session")
    actor = SessionActor(cell, store.ref, wanted, fresh, "passive")
    async with trio.open_nursery() as nursery:
        await nursery.start(run_life, actor, mailbox)
        yield cell, ActorRef(mailbox)
        mailbox.close()


def run_of(store: LoneStore, session_id: str = "new") -> Any:
    return store.state.image(f"--project--/{session_id}").run


async def test_a_new_session_takes_the_default_and_off_touches_no_storage(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        before = dict(store.machine.disk.contents())
        async with opened(store, "off") as (cell, _):
            assert (cell.mode, cell.address) == ("off", None)
        assert store.machine.disk.contents() == before
        async with opened(store, None, fresh="passive") as (cell, _):
            assert cell.mode == "passive"
            assert run_of(store) is None  # passive writes nothing for a session that does not exist
        async with opened(store, None, fresh="active") as (cell, _):
            assert (cell.mode, run_of(store).mode) == ("active", "active")


async def test_an_existing_session_keeps_its_mode_unless_one_is_named(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        async with opened(store, "active"):
            pass
        async with opened(store, None, fresh="off") as (cell, _):
            assert cell.mode == "active"
        async with opened(store, "passive") as (cell, _):
            assert (cell.mode, run_of(store).mode) == ("passive", "passive")


async def test_modes_are_selected_in_the_order_in_which_they_are_asked_for(autojump_clock: MockClock) -> None:
    async with lone_store() as store, opened(store, "active") as (cell, ref):
        modes: list[Mode] = ["off", "passive", "active", "off", "active"]
        async with trio.open_nursery() as nursery:
            for mode in modes:
                nursery.start_soon(ref.ask, SelectMode(mode))
                await wait_all_tasks_blocked()
        assert (cell.mode, run_of(store).mode) == ("active", "active")


async def test_off_refuses_the_tools_and_passive_refuses_answers(autojump_clock: MockClock) -> None:
    async with lone_store() as store, opened(store, "off") as (cell, ref):
        with pytest.raises(CallError) as caught:
            cell.writable()
        assert caught.value.code == "E_OFF"
        await ref.ask(SelectMode("passive"))
        cell.writable()
        with pytest.raises(CallError) as caught:
            await ref.ask(AcceptResponse("done"))
        assert caught.value.code == "E_OFF"
        await ref.ask(SelectMode("active"))
        assert (await ref.ask(AcceptResponse("done"))).changed
        state = store.state.image("--project--/new").state
        assert state is not None
        assert state.value["response"]


async def test_unreadable_memory_blocks_the_session_and_does_not_end_it(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        path = f"{store.machine.root}/--project--/new/runtime.json"
        store.machine.disk.plant(path, "file", b"{broken")
        async with opened(store, "active") as (cell, ref):
            assert cell.mode == "active"
            assert cell.problem is not None
            assert cell.problem.code == "E_CORRUPT"
            store.machine.disk.unlink(path)
            await ref.ask(SelectMode("active"))
            assert cell.problem is None


async def test_selecting_a_mode_accepts_the_files_as_they_are_and_ends_a_fence(autojump_clock: MockClock) -> None:
    async with lone_store() as store, opened(store, "active", session_id="main") as (_, ref):
        other = SimulatedStore.open(store.machine, "other")
        other.patch(session={"working": {"other": 1000}})
        with pytest.raises(StoreError) as caught:
            await store.patch(1, scope="session")
        assert caught.value.code == "E_CHANGED"
        await ref.ask(SelectMode("active"))
        await store.patch(1, scope="session")
        assert store.numbers("--project--/main") == {1, 1000}
        other.abandon()
        store.machine.kill("other")


async def test_a_cancelled_choice_that_had_begun_is_carried_out(autojump_clock: MockClock) -> None:
    async with lone_store() as store, opened(store, "passive") as (cell, ref):
        release = store.threads.hold("commit")
        with trio.move_on_after(1) as scope:
            await ref.ask(SelectMode("active"))
        assert (scope.cancelled_caught, cell.mode) == (True, "passive")
        release.set()
        await wait_all_tasks_blocked()
        assert (cell.mode, run_of(store).mode) == ("active", "active")


async def test_a_choice_withdrawn_while_another_is_carried_out_never_happens(autojump_clock: MockClock) -> None:
    async with lone_store() as store, opened(store, "passive") as (cell, ref), trio.open_nursery() as nursery:
        release = store.threads.hold("commit")
        nursery.start_soon(ref.ask, SelectMode("active"))
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await ref.ask(SelectMode("off"))
        release.set()
        await wait_all_tasks_blocked()
        assert cell.mode == "active"


@holds("store 4.2.3", "T9", "Ours-17")
async def test_a_choice_of_passive_that_can_not_be_stored_applies_and_pauses_writing(autojump_clock: MockClock) -> None:
    async with lone_store() as store, opened(store, "active") as (cell, ref):
        await ref.ask(AcceptResponse("done"))
        store.machine.disk.capacity_bytes = 0
        assert await ref.ask(SelectMode("passive")) == "passive"
        with pytest.raises(CallError, match="paused") as caught:
            cell.writable()
        assert caught.value.code == "E_FENCED"
        assert cell.readable() == cell.address
        store.machine.disk.capacity_bytes = None
        await ref.ask(SelectMode("passive"))
        assert (cell.problem, run_of(store).mode) == (None, "passive")
        assert cell.writable() == cell.address


@holds("store 6.1.4", "Ours-17")
async def test_a_choice_of_active_that_can_not_be_stored_is_refused_and_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with lone_store() as store, opened(store, "passive") as (cell, ref):
        store.machine.disk.capacity_bytes = 0
        with pytest.raises(StoreError) as caught:
            await ref.ask(SelectMode("active"))
        assert caught.value.code == "E_DISK"
        assert (cell.mode, cell.problem) == ("passive", None)
        store.machine.disk.capacity_bytes = None


async def test_an_actor_cancelled_while_it_opens_leaves_the_store_usable(autojump_clock: MockClock) -> None:
    async with lone_store() as store:
        release = store.threads.hold("work")
        with trio.move_on_after(1) as scope:
            async with opened(store, "active"):
                pytest.fail("it can not have opened")
        assert scope.cancelled_caught
        release.set()
        await wait_all_tasks_blocked()
        async with opened(store, "active") as (cell, _):
            assert cell.mode == "active"
