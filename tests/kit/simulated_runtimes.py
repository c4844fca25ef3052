"""Runtimes on simulated machines, under virtual time: several processes in one trio run, every order from a seed."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio
import trio.testing

from strataflow.actors import ActorRef, Commit, Mailbox, OpenScopes, StoreActor, StoreWorld
from strataflow.actors.actor import run_life
from strataflow.runtime import Mode, Runtime, Session
from strataflow.runtime.joining import Choices, Seams, join_store, leave_store
from strataflow.runtime.opening import open_runtime_in
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.simulation.threads import SimulatedThreads
from strataflow.store import Durability, KernelLock, MemoryStore, Receipt, SessionAddress, check_patch_arguments

T = TypeVar("T")


def run_seeded(seed: int, body: Callable[[], Awaitable[T]]) -> T:
    """Run ``body`` under virtual time. The seed decides in which order trio runs what is ready."""
    trio._core._run._r = random.Random(seed)  # type: ignore[attr-defined]
    return trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))  # type: ignore[arg-type,return-value]


@asynccontextmanager
async def simulated(
    machine: SimulatedMachine,
    process: str = "first",
    *,
    durability: Durability = "power",
    history_limit: int | None = None,
    share_with_pi: bool = False,
    threads: GatedThreads | None = None,
) -> AsyncIterator[Runtime]:
    """A runtime in a process of the machine."""
    seams = machine.seams(process)
    if threads is not None:
        seams = attrs.evolve(seams, threads=threads.over(seams))
    async with open_runtime_in(seams, durability, history_limit, share_with_pi) as runtime:
        yield runtime


@asynccontextmanager
async def session_in(
    machine: SimulatedMachine, process: str = "first", session_id: str = "main", mode: Mode = "active", **options: Any
) -> AsyncIterator[tuple[Runtime, Session]]:
    """A session in a runtime of its own."""
    async with simulated(machine, process, **options) as runtime:
        yield runtime, await runtime.open_session("/project", session_id, mode)


def fail_once(operation: str, name: str, code: int = errno.EIO) -> Any:
    """A hook that refuses the next such operation."""
    left = [operation]

    def before(found: str, path: str) -> None:
        if found in left and path.endswith(name):
            left.clear()
            raise OSError(code, "injected")

    return before


@attrs.define(eq=False)
class GatedThreads:
    """Threads whose calls can be held up: ``hold("commit")`` before the call, ``hold("commit", after=True)`` after it,
    ``hold("work", skip=1)`` from the second call on.

    Held calls can not be cancelled, as a thread can not. ``calls`` counts the calls that have begun.
    """

    inner: SimulatedThreads = attrs.field(factory=SimulatedThreads)
    calls: dict[str, int] = attrs.field(factory=lambda: {"commit": 0, "work": 0, "wait_lock": 0})
    _gates: dict[tuple[str, bool], tuple[trio.Event, int]] = attrs.field(factory=dict)

    def over(self, seams: Seams) -> GatedThreads:
        assert isinstance(seams.threads, SimulatedThreads)
        self.inner = seams.threads
        return self

    def hold(self, name: str, *, after: bool = False, skip: int = 0) -> trio.Event:
        """Hold up calls of this kind until the event is set."""
        gate = trio.Event()
        self._gates[name, after] = (gate, self.calls[name] + skip)
        return gate

    async def _pass(self, name: str, after: bool) -> None:
        gate, from_call = self._gates.get((name, after), (None, 0))
        if gate is not None and self.calls[name] > from_call:
            # A thread can not be cancelled. It ends when the test opens the gate.
            with trio.CancelScope(shield=True):
                await gate.wait()

    async def _gated(self, name: str, call: Callable[[], T], run: Callable[[Callable[[], T]], Awaitable[T]]) -> T:
        self.calls[name] += 1
        await self._pass(name, False)
        value = await run(call)
        await self._pass(name, True)
        return value

    async def commit(self, call: Callable[[], T], settle: Callable[[T], None] | None = None) -> T:
        value = await self._gated("commit", call, self.inner.commit)
        if settle is not None:
            settle(value)
        return value

    async def work(self, call: Callable[[], T]) -> T:
        return await self._gated("work", call, self.inner.work)

    async def work_abandonable(self, call: Callable[[], T]) -> T:
        return await self._gated("work", call, self.inner.work_abandonable)

    def give_up(self) -> int:
        return 0

    async def wait_lock(self, lock: KernelLock) -> None:
        self.calls["wait_lock"] += 1
        await self.inner.wait_lock(lock)


@attrs.define(eq=False)
class LoneStore:
    """A store actor without supervisor or sessions, one life at a time, with an address to patch."""

    machine: SimulatedMachine
    world: StoreWorld
    state: MemoryStore
    threads: GatedThreads
    mailbox: Mailbox
    events: list[str]
    nursery: trio.Nursery
    actor: StoreActor = attrs.field(init=False)
    life: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    failure: BaseException | None = None
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def ref(self) -> ActorRef:
        return ActorRef(self.mailbox)

    def address(self, session_id: str = "main") -> SessionAddress:
        return SessionAddress("/project", session_id, session_id)

    def commit(self, number: int, session_id: str = "main", scope: str = "global") -> Commit[Receipt]:
        """The message that sets one member."""
        patches = check_patch_arguments({scope: {"working": {f"n{number}": number}}})
        return Commit(lambda draft: draft.stage_patch(self.address(session_id), patches))

    async def patch(self, number: int, **where: Any) -> Receipt:
        return await self.ref.ask(self.commit(number, **where))

    def numbers(self, scope: str = "") -> set[int]:
        """What readers of this process see."""
        image = self.state.images.get(scope)
        value = image.state.value if image and image.state else {}
        return set(value.get("working", {}).values())

    async def live(self) -> None:
        """Begin a life and wait until it has started."""
        self.actor, self.life, self.ended = StoreActor(self.world, self.state), trio.CancelScope(), trio.Event()
        await self.nursery.start(self._live)

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self.life:
                await run_life(self.actor, self.mailbox, task_status)
        except Exception as error:
            while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            self.failure = error
        finally:
            self.ended.set()


@asynccontextmanager
async def lone_store(
    machine: SimulatedMachine | None = None, process: str = "first", level: Durability = "power", **choices: Any
) -> AsyncIterator[LoneStore]:
    """A joined store with its actor alive. It leaves the store at the end, whatever became of the actor."""
    machine = machine or SimulatedMachine()
    threads = GatedThreads()
    seams = machine.seams(process)
    seams = attrs.evolve(seams, threads=threads.over(seams))
    events: list[str] = []
    choice = Choices(**{"durability": level, "share_with_pi": False, "history_limit": 7, **choices})
    world, state = await join_store(seams, choice, lambda name, **data: events.append(name))
    async with trio.open_nursery() as nursery:
        store = LoneStore(machine, world, state, threads, Mailbox("store"), events, nursery)
        await store.live()
        for session_id in ("main", "other"):
            await store.ref.ask(OpenScopes("/project", session_id))
        yield store
        store.mailbox.close()
        store.life.cancel()
    await leave_store(world, state)
