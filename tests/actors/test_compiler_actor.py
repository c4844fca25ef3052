"""The compiler actor: bursts become one look, answers are not older than their questions, nobody waits in vain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from kit.holds import holds
from strataflow.actors import ActorRef, CompilerActor, HashSource, Inspect, Mailbox
from strataflow.actors.actor import run_actor
from strataflow.runtime.simulation.sources import SimulatedSources
from strataflow.store import StoreError
from strataflow.store.artifacts import Digest, Seen


@attrs.define(eq=False)
class GatedSources:
    """Sources whose looks wait at a gate, while it is closed."""

    inner: SimulatedSources = attrs.field(factory=SimulatedSources)
    gate: trio.Event = attrs.field(factory=trio.Event)
    begun: list[tuple[str, ...]] = attrs.field(factory=list)
    left: int = 0

    async def inspect(self, paths: Sequence[str]) -> Mapping[str, Seen]:
        self.begun.append(tuple(paths))
        try:
            await self.gate.wait()
        except trio.Cancelled:
            self.left += 1
            raise
        return await self.inner.inspect(paths)

    async def digest(self, path: str) -> Digest:
        return await self.inner.digest(path)


@asynccontextmanager
async def compiling(sources: GatedSources) -> AsyncIterator[tuple[ActorRef, CompilerActor]]:
    mailbox, actor = Mailbox("compiler"), CompilerActor(sources)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: run_actor(actor, mailbox, task_status=task_status))
        yield ActorRef(mailbox), actor
        mailbox.close()
        sources.gate.set()


@pytest.fixture
def sources() -> GatedSources:
    found = GatedSources()
    for name in "abcd":
        found.inner.write(f"/{name}", name.encode())
    return found


async def test_a_burst_of_requests_is_one_look_after_the_one_that_is_under_way(sources: GatedSources) -> None:
    answers: dict[int, Mapping[str, Seen]] = {}

    async def ask(ref: ActorRef, number: int, *paths: str) -> None:
        answers[number] = await ref.ask(Inspect(paths))

    async with compiling(sources) as (ref, actor):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ref, 0, "/a")
            await trio.testing.wait_all_tasks_blocked()
            for number in range(1, 9):
                nursery.start_soon(ask, ref, number, "/b", "/c" if number % 2 else "/d")
            await trio.testing.wait_all_tasks_blocked()
            assert sources.begun == [("/a",)]
            sources.inner.write("/a", b"later")
            sources.gate.set()
        assert sources.begun == [("/a",), ("/b", "/c", "/d")]
        assert actor.statistics() == attrs.evolve(actor.statistics(), rounds=2, answered=9, inspected=4)
    for number in range(1, 9):
        assert {"/b", "/c" if number % 2 else "/d"} <= answers[number].keys()


async def test_an_answer_rests_on_a_look_that_began_after_the_question(sources: GatedSources) -> None:
    async with compiling(sources) as (ref, _), trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Inspect(("/a",)))
        await trio.testing.wait_all_tasks_blocked()
        sources.inner.write("/a", b"changed while the first look was under way")
        changed, found = sources.inner.at("/a"), []

        async def ask() -> None:
            found.append((await ref.ask(Inspect(("/a",))))["/a"])

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        sources.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert found == [changed]
        assert len(sources.begun) == 2


async def test_the_look_is_given_up_when_the_last_who_waits_for_it_leaves(sources: GatedSources) -> None:
    async with compiling(sources) as (ref, _):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ref.ask, Inspect(("/a",)))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert (sources.left, sources.begun) == (1, [("/a",)])  # those who came meanwhile had not begun one
        sources.gate.set()
        assert "/b" in await ref.ask(Inspect(("/b",)))


async def test_one_who_leaves_does_not_take_the_look_of_others_along(sources: GatedSources) -> None:
    found = []

    async def ask(ref: ActorRef) -> None:
        found.append(await ref.ask(Inspect(("/b",))))

    async with compiling(sources) as (ref, _), trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Inspect(("/a",)))
        await trio.testing.wait_all_tasks_blocked()
        leaving = trio.CancelScope()

        async def leave() -> None:
            with leaving:
                await ref.ask(Inspect(("/c",)))

        nursery.start_soon(leave)
        nursery.start_soon(ask, ref)
        await trio.testing.wait_all_tasks_blocked()
        sources.gate.set()
        sources.gate = trio.Event()
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        sources.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sources.left == 0
        assert len(found) == 1


@holds("A27")
async def test_hashing_does_not_wait_for_a_look(sources: GatedSources) -> None:
    async with compiling(sources) as (ref, _), trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Inspect(("/a",)))
        await trio.testing.wait_all_tasks_blocked()
        digest = await ref.ask(HashSource("/b"))
        assert digest.source_hash is not None
        sources.gate.set()


async def test_requests_that_wait_when_the_actor_stops_are_answered_and_later_ones_refused(
    sources: GatedSources,
) -> None:
    found = []

    async def ask(ref: ActorRef, path: str) -> None:
        found.append(await ref.ask(Inspect((path,))))

    async with compiling(sources) as (ref, _), trio.open_nursery() as nursery:
        nursery.start_soon(ask, ref, "/a")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, ref, "/b")
        await trio.testing.wait_all_tasks_blocked()
        ref.stop()
        sources.gate.set()
        await ref.wait_stopped()
        with pytest.raises(StoreError) as caught:
            await ref.ask(Inspect(("/c",)))
        assert caught.value.code == "E_CLOSED"
    assert len(found) == 2
