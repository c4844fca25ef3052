"""When a request counts as seen: cancelled callers, calls of one batch, other processes, lives that end."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kit.holds import holds
from kit.runtimes import opened, refused, turn_held, value
from kit.simulated_runtimes import GatedThreads, run_seeded, session_in, simulated
from strataflow.runtime import Outcome, Receipt, Runtime, Session, StrataflowError
from strataflow.runtime.simulation.inodes import FailedSync
from strataflow.runtime.simulation.seams import SimulatedMachine

SET = {"working": {"n": 1}}
NO_SUCH_ELEMENT = {"working": {"list": {"[2]": 0}}}


@attrs.define(eq=False)
class Asker:
    """A call in a task of its own that can be cancelled, and what came of it."""

    call: Callable[[], Awaitable[Any]]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    result: Any = attrs.field(default="pending", init=False)

    async def run(self) -> None:
        with self.scope:
            try:
                self.result = await self.call()
            except StrataflowError as error:
                self.result = error.code
        if self.scope.cancelled_caught:
            self.result = "cancelled"


async def begun(nursery: trio.Nursery, call: Callable[[], Awaitable[Any]]) -> Asker:
    """A call that has come as far as it gets for the moment."""
    asker = Asker(call)
    nursery.start_soon(asker.run)
    await wait_all_tasks_blocked()
    return asker


def calls_of(session: Session) -> dict[str, Callable[[], Awaitable[Receipt]]]:
    """Both calls that take a request id, with the id ``r``."""
    return {
        "patch": lambda: session.patch_state(session=SET, request_id="r"),
        "answer": lambda: session.accept_response("done", request_id="r"),
    }


@holds("Ours-12", "design 2")
@pytest.mark.parametrize("name", ["patch", "answer"])
async def test_a_call_cancelled_while_it_waits_for_its_turn_was_never_seen(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as runtime, trio.open_nursery() as nursery:
        session = await runtime.open_session("/project", "main", "active")
        with turn_held(tmp_path):
            asker = Asker(calls_of(session)[name])
            nursery.start_soon(asker.run)
            while not runtime._store.statistics().handling and runtime._store.statistics().depth < 1:
                await trio.lowlevel.checkpoint()
            question = Asker(lambda: runtime.outcome("r"))
            asker.scope.cancel()
            nursery.start_soon(question.run)
            while asker.result == "pending":
                await trio.lowlevel.checkpoint()
        while question.result == "pending":
            await trio.lowlevel.checkpoint()
        assert (asker.result, question.result) == ("cancelled", Outcome("unseen"))
        assert (await session.status())["step"] == 0
        assert (await calls_of(session)[name]()).step == 1


@holds("Ours-12", "design 2")
@pytest.mark.parametrize("name", ["patch", "answer"])
@pytest.mark.parametrize("after", [False, True])
async def test_the_outcome_of_a_cancelled_call_waits_for_its_append(
    autojump_clock: trio.testing.MockClock, name: str, after: bool
) -> None:
    threads = GatedThreads()
    async with (
        session_in(SimulatedMachine(), threads=threads) as (runtime, session),
        trio.open_nursery() as nursery,
    ):
        gate = threads.hold("commit", after=after)
        asker = await begun(nursery, calls_of(session)[name])
        asker.scope.cancel()
        question = await begun(nursery, lambda: runtime.outcome("r"))
        again = await begun(nursery, calls_of(session)[name])
        assert (asker.result, question.result, again.result) == ("cancelled", "pending", "pending")
        gate.set()
        await wait_all_tasks_blocked()
        assert question.result == Outcome("accepted", receipt=again.result)
        assert again.result.step == (await session.status())["step"] == 1


@holds("Ours-12", "design 2")
async def test_a_cancelled_caller_can_learn_of_its_refusal(autojump_clock: trio.testing.MockClock) -> None:
    threads = GatedThreads()
    async with session_in(SimulatedMachine(), threads=threads) as (runtime, session), trio.open_nursery() as nursery:
        await session.patch_state(session={"working": {"list": [0]}})
        gate = threads.hold("commit")
        first = await begun(nursery, lambda: session.patch_state(session=SET))
        # Both of these are staged in the next round, and neither caller waits for it.
        askers = [
            await begun(nursery, lambda: session.patch_state(session=NO_SUCH_ELEMENT, request_id="refused")),
            await begun(nursery, lambda: session.patch_state(cwd=SET, request_id="accepted")),
        ]
        gate.set()
        gate = threads.hold("commit")
        await wait_all_tasks_blocked()
        assert first.result.changed
        for asker in askers:
            asker.scope.cancel()
        questions = [
            await begun(nursery, lambda: runtime.outcome("refused")),
            await begun(nursery, lambda: runtime.outcome("accepted")),
        ]
        assert [question.result for question in questions] == ["pending"] * 2
        gate.set()
        await wait_all_tasks_blocked()
        assert [asker.result for asker in askers] == ["cancelled"] * 2
        assert [question.result.state for question in questions] == ["refused", "accepted"]
        assert questions[0].result.error.code == "E_INDEX"


@holds("Ours-12", "design M2")
async def test_one_id_twice_in_a_batch_is_one_change(autojump_clock: trio.testing.MockClock) -> None:
    threads = GatedThreads()
    async with session_in(SimulatedMachine(), threads=threads) as (runtime, session), trio.open_nursery() as nursery:
        other = await runtime.open_session("/elsewhere", "other", "passive")
        await session.patch_state(session={"working": {"list": [0]}})
        gate = threads.hold("commit")
        await begun(nursery, lambda: session.patch_state(cwd=SET))
        calls = (
            lambda: session.patch_state(global_=SET, request_id="r"),
            lambda: other.patch_state(global_={"working": {"n": 2}}, request_id="r"),
            lambda: session.patch_state(session=NO_SUCH_ELEMENT, request_id="s"),
            lambda: session.patch_state(session={"working": {"list": [0, 1, 2]}}),
            lambda: session.patch_state(session=NO_SUCH_ELEMENT, request_id="s"),
        )
        askers = [await begun(nursery, call) for call in calls]
        gate.set()
        await wait_all_tasks_blocked()
        first, again, no, between, no_again = (asker.result for asker in askers)
        assert first == again
        assert (no, no_again, between.changed) == ("E_INDEX", "E_INDEX", True)
        assert between.seq == first.seq + 1
        assert await value(session, "global.working.n") == 1


@holds("Ours-12", "Ours-3")
async def test_what_another_process_was_told_meanwhile_is_told_here(autojump_clock: trio.testing.MockClock) -> None:
    machine = SimulatedMachine()
    async with session_in(machine, "first") as (runtime, session), session_in(machine, "second", "other") as (_, other):
        await trio.sleep(5)  # both think that they are alone, and stage without reading first
        first = await other.patch_state(global_=SET, request_id="r")
        assert await session.patch_state(global_={"working": {"n": 2}}, request_id="r") == first
        assert await value(session, "global.working.n") == 1
        await trio.sleep(5)
        second = await other.patch_state(global_={"working": {"n": 3}}, request_id="s")
        assert await runtime.outcome("s") == Outcome("accepted", receipt=second)
        assert await value(session, "global.working.n") == 3  # nobody is answered before he has followed


@holds("Ours-12", "Ours-2", "design M3")
@pytest.mark.parametrize("pause_s", [0, 5])
@pytest.mark.parametrize("asks", ["again", "outcome", "with others"])
async def test_nobody_is_told_of_a_call_that_could_still_be_lost(
    autojump_clock: trio.testing.MockClock, pause_s: float, asks: str
) -> None:
    machine = SimulatedMachine()
    async with (
        session_in(machine, "careful") as (runtime, careful),
        session_in(machine, "quick", "other", durability="process") as (_, quick),
        trio.open_nursery() as nursery,
    ):
        await careful.patch_state(cwd=SET)
        await trio.sleep(pause_s)
        receipt = await quick.patch_state(global_=SET, request_id="r")
        if asks == "with others":
            nursery.start_soon(partial(careful.patch_state, cwd={"working": {"n": 2}}))
        told = await (runtime.outcome("r") if asks == "outcome" else careful.patch_state(global_=SET, request_id="r"))
        assert told == (Outcome("accepted", receipt=receipt) if asks == "outcome" else receipt)
        found = machine.after_power_cut("lose")
    async with simulated(found, "later") as runtime:
        assert await runtime.outcome("r") == Outcome("accepted", receipt=receipt)


@holds("Ours-12", "Ours-3")
async def test_a_call_staged_on_an_old_state_is_judged_again_before_it_is_remembered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    machine = SimulatedMachine()
    async with session_in(machine, "first") as (runtime, session), session_in(machine, "second", "other") as (_, other):
        await session.patch_state(global_={"working": {"list": [0]}})
        await trio.sleep(5)
        await other.patch_state(global_={"working": {"list": [0, 1, 2]}})
        async with trio.open_nursery() as nursery:
            asker = await begun(nursery, lambda: session.patch_state(global_=NO_SUCH_ELEMENT, request_id="r"))
        assert asker.result.changed  # refused by the old state, accepted by the present one
        assert (await runtime.outcome("r")).receipt == asker.result
        assert runtime._world.refusals.get("r") is None
        await trio.sleep(5)
        await other.patch_state(global_={"working": {"list": [5]}})
        with refused("E_INDEX"):
            await session.patch_state(global_=NO_SUCH_ELEMENT, request_id="s")
        assert (await runtime.outcome("s")).state == "refused"


@holds("Ours-12", "Ours-17", "design M4")
def test_an_outcome_that_was_unknown_is_known_after_recovery() -> None:
    """The n-th operation of the disk fails: the append itself, its sync, or what recovery does."""
    ways: list[FailedSync] = ["stays", "reverts", "zeros"]
    told = {
        run_seeded(place, partial(fail_once_and_ask, place, failed_sync))
        for place in range(1, 25)
        for failed_sync in ways
    }
    assert told == {(None, "accepted"), ("E_DISK", "unseen"), ("E_BROKEN", "accepted"), ("E_BROKEN", "unseen")}


async def fail_once_and_ask(place: int, failed_sync: FailedSync) -> tuple[str | None, str]:
    machine = SimulatedMachine(place)
    machine.disk.failed_sync = failed_sync
    async with session_in(machine) as (runtime, session):
        await session.patch_state(session={"working": {"before": 1}})
        machine.disk.fail_operation(machine.disk.operations + place, errno.EIO)
        code = None
        try:
            receipt = await session.patch_state(session=SET, request_id="r")
        except StrataflowError as error:
            code, receipt = error.code, None
        found = await in_the_end(lambda: runtime.outcome("r"))
        view = await in_the_end(lambda: session.read_state("session.working", fresh=True))
        assert found.state == ("accepted" if view.value == {"before": 1, "n": 1} else "unseen")
        assert receipt in (None, found.receipt)
        again = await in_the_end(lambda: session.patch_state(session=SET, request_id="r"))
        assert again == (found.receipt or again)
        assert again.step == 2
        assert (await in_the_end(lambda: session.patch_state(cwd=SET, request_id="s"))).step == 3
    async with simulated(machine, "second") as runtime:
        assert (await runtime.outcome("r")).receipt == again
    return code, found.state


async def in_the_end(call: Callable[[], Awaitable[Any]]) -> Any:
    """Whoever asks may meet the trouble himself, and asks again."""
    while True:
        try:
            return await call()
        except StrataflowError as error:
            if error.code not in ("E_BROKEN", "E_DISK"):
                raise


@holds("Ours-12", "J9")
async def test_a_journal_that_was_taken_away_takes_its_requests_along(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        first = await session.patch_state(global_=SET, request_id="r")
        (root / ".strataflow").rename(tmp_path / "taken away")
        with refused("E_BROKEN"):
            await session.patch_state(global_={"working": {"m": 2}}, request_id="s")
        for request_id in ("r", "s"):
            assert await runtime.outcome(request_id) == Outcome("unseen")
        assert (await session.patch_state(global_=SET, request_id="r")) != first


@holds("Ours-12")
async def test_asking_for_outcomes_writes_nothing_and_needs_no_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        before: Any = await journal_bytes(runtime)
        for _ in range(3):
            assert await runtime.outcome("r") == Outcome("unseen")
        assert await journal_bytes(runtime) == before
        assert not [name for name in tmp_path.iterdir() if name.name.startswith("--")]


async def journal_bytes(runtime: Runtime) -> Any:
    return (await runtime.status())["journal_bytes"]


@holds("Ours-12")
@pytest.mark.parametrize("share_with_pi", [False, True])
async def test_a_cancelled_question_changes_nothing(tmp_path: Path, share_with_pi: bool) -> None:
    async with opened(tmp_path, share_with_pi=share_with_pi) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        first = await session.patch_state(global_=SET, request_id="r")
        with turn_held(tmp_path), trio.move_on_after(0.01) as scope:
            await runtime.outcome("r")
        assert scope.cancelled_caught
        assert await runtime.outcome("r") == Outcome("accepted", receipt=first)
