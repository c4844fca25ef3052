"""The power fails, or the process is killed, before every change of the disk; then everybody asks what became of it.

Goal: a request id tells the truth, once. What the store says of a call agrees with what its memory holds; what was
acknowledged is accepted, with the same receipt; asking again with the same ids, in any process, carries out what never
happened and nothing else, so that in the end each call has happened exactly once (Ours-12, M1, M2). This holds while
rows are pruned under it, and where two processes ask for the same things at once.

Method: each call adds one to a counter of its own number, which a call carried out twice would show, and the revision
of the scope counts all of them. A story is stopped one change later each time (``every_stop``), the machine found in
several states, and opened again; or runtimes under a MockClock are killed again and again, when a seed says so.
Rows are pruned down to one, so that most receipts have left their row when they are asked for.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.holds import holds
from kit.runtimes import opened
from kit.simulated_processes import Process
from kit.simulated_runtimes import run_seeded, session_in
from kit.simulated_stores import Notes, SimulatedStore, every_stop
from strataflow.runtime import CallError, Outcome, Receipt, StrataflowError
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Durability
from strataflow.store import checkpoint as write_checkpoint

FATES = [("lose", 0), ("torn", 1)]
CALLS = 7
REFUSED = "refused"


@pytest.fixture(autouse=True)
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are pruned as soon as they may be."""
    monkeypatch.setitem(write_checkpoint.__globals__, "HISTORY_LIMIT_MAX", 0)


def ask(store: SimulatedStore, number: int) -> Receipt:
    """Call ``number``: the third and the last change nothing when they are first asked for, later they would."""
    nothing = number in (3, CALLS)
    value = store.memory.image("").state
    count = value.value.get("working", {}).get(f"n{number}", 0) if value is not None else 0
    change = {"working": {"never": None} if nothing else {f"n{number}": count + 1}}
    return store.patch(global_=change, session=change if number % 2 else None, request_id=f"r{number}")


def story(level: Durability) -> Any:
    def run(machine: SimulatedMachine, notes: Notes) -> None:
        store = SimulatedStore.open(machine, level=level, history_limit=2)
        for number in range(1, CALLS + 1):
            notes.append(("asked", number, None))
            notes.append(("told", number, ask(store, number)))
            if number in (2, 4, 5):
                store.checkpoint()
        with pytest.raises(CallError):
            store.patch(global_={"working": {"n1": {"[x": [None]}}}, request_id=REFUSED)
        store.close()

    return run


def counts(store: SimulatedStore) -> dict[int, int]:
    """How often each call has happened, as memory tells."""
    state = store.memory.image("").state
    working = state.value.get("working", {}) if state is not None else {}
    assert (state.revision if state is not None else 0) == sum(working.values())
    return {int(name.removeprefix("n")): count for name, count in working.items()}


def changing(numbers: Any) -> set[int]:
    """Of these calls those that change something."""
    return {number for number in numbers if number not in (3, CALLS)}


def check(machine: SimulatedMachine, notes: Notes, sure: bool) -> dict[int, Receipt]:
    """The receipts of all calls in the end. ``sure``: what was told must be there."""
    told = {number: receipt for what, number, receipt in notes if what == "told"}
    asked = {number for what, number, _ in notes if what == "asked"}
    store = SimulatedStore.open(machine, "second", history_limit=2)
    found = {number: store.outcome(f"r{number}") for number in range(1, CALLS + 1)}
    accepted = {number: receipt for number, receipt in found.items() if receipt is not None}
    assert accepted.keys() <= asked
    assert sorted(accepted) == list(range(1, len(accepted) + 1))  # one after the other
    assert counts(store) == dict.fromkeys(changing(accepted), 1)
    assert {number: told[number] for number in accepted if number in told}.items() <= accepted.items()
    assert not sure or told.keys() <= accepted.keys()
    assert store.outcome(REFUSED) is None
    again = {number: ask(store, number) for number in range(1, CALLS + 1)}
    assert accepted.items() <= again.items()
    assert counts(store) == dict.fromkeys(changing(range(1, CALLS + 1)), 1)
    assert store.close().was_last
    return again


async def check_through_runtime(machine: SimulatedMachine, receipts: dict[int, Receipt]) -> None:
    """What a program is told, in the words of the library."""
    async with session_in(machine, "third", history_limit=2) as (runtime, session):
        assert runtime._world.journal.view(0).pruned_through > 1
        for number, receipt in receipts.items():
            assert await runtime.outcome(f"r{number}") == Outcome("accepted", receipt=receipt)
            change = {"working": {f"n{number}": 99}}
            assert await session.patch_state(global_=change, request_id=f"r{number}") == receipt
        assert await runtime.outcome(REFUSED) == Outcome("unseen")
        assert (await session.read_state("global.working")).value == {f"n{number}": 1 for number in changing(receipts)}


@holds("Ours-12", "design M1", "design M2", "J4")
@pytest.mark.parametrize("level", ["power", "process"])
def test_after_any_power_cut_outcomes_agree_with_memory_and_calls_happen_once(level: Durability) -> None:
    stops = 0
    for stop, machine, notes in every_stop(story(level)):
        stops += 1
        for mode, seed in FATES:
            try:
                check(machine.after_power_cut(mode, seed), notes, sure=level == "power")
            except BaseException as error:
                error.add_note(f"stopped before change {stop}, fate {mode} {seed}, notes {notes}")
                raise
    assert stops > 80


@holds("Ours-12", "design M1", "design M2")
def test_after_any_kill_outcomes_agree_with_memory_and_calls_happen_once() -> None:
    for stop, machine, notes in every_stop(story("process"), kill=True):
        try:
            receipts = check(machine, notes, sure=True)
            run_seeded(1, partial(check_through_runtime, machine, receipts))
        except BaseException as error:
            error.add_note(f"killed before change {stop}, notes {notes}")
            raise


class Contest:
    """Two processes ask for the same things at once, and die now and then; their callers ask until they are told."""

    def __init__(self, seed: int, nursery: trio.Nursery) -> None:
        self.machine = SimulatedMachine(seed)
        self.chance = random.Random(seed)
        self.nursery = nursery
        self.processes: dict[str, Process] = {}
        self.told: dict[int, list[Receipt]] = {number: [] for number in range(1, CALLS + 1)}
        self.working = len(NAMES)
        self.deaths = 0

    async def start(self, name: str) -> None:
        self.processes[name] = await Process.start(self.nursery, self.machine, name)

    async def caller(self, name: str) -> None:
        """Ask for everything in an order of its own, each with what only this attempt would write."""
        numbers = list(self.told)
        self.chance.shuffle(numbers)
        for attempt, number in attempts(numbers):
            try:
                session = await self.processes[name].session("/project", name)
                change = {"working": {f"n{number}": f"{name} {attempt} {self.deaths}"}}
                with trio.move_on_after(self.chance.choice([0, 0.001, 1])) as scope:
                    self.told[number].append(await session.patch_state(global_=change, request_id=f"r{number}"))
                if not scope.cancelled_caught:
                    numbers.remove(number)
            except StrataflowError as error:
                if error.code not in ("E_BROKEN", "E_CLOSED", "E_DISK"):
                    raise
            await trio.sleep(self.chance.random() / 50)
        self.working -= 1

    async def trouble(self) -> None:
        """Kill one, or all by a power cut, and start them again, while there is work."""
        while self.working:
            await trio.sleep(self.chance.random() / 20)
            self.deaths += 1
            if self.chance.random() < 0.3:
                for process in self.processes.values():
                    await process.kill()
                self.machine = self.machine.after_power_cut("torn", self.deaths)
                for name in NAMES:
                    await self.start(name)
            else:
                name = self.chance.choice(NAMES)
                await self.processes[name].kill()
                await self.start(name)

    async def check(self) -> None:
        """Everybody was told the same, what he was told is the outcome, and all of it happened once."""
        for name, process in self.processes.items():
            session = await process.session("/project", name)
            for number, receipts in self.told.items():
                found = await process.runtime.outcome(f"r{number}")
                assert found.state == "accepted"
                assert {*receipts} == {found.receipt}, number
                assert len(receipts) >= len(NAMES)
                assert await session.patch_state(global_={"working": None}, request_id=f"r{number}") == found.receipt
            status = await session.status()
            assert status["revision"].startswith(f"g{CALLS}c0")
        for process in self.processes.values():
            await process.close()


NAMES = ("left", "right")


def attempts(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Number after number, while there are any."""
    attempt = 0
    while numbers:
        attempt += 1
        yield attempt, numbers[attempt % len(numbers)]


@holds("Ours-12", "design M1", "design M2", "Ours-3")
def test_two_processes_that_die_again_and_again_carry_out_each_request_once() -> None:
    deaths = 0
    for seed in range(40):

        async def body(seed: int = seed) -> int:
            async with trio.open_nursery() as nursery:
                contest = Contest(seed, nursery)
                for name in NAMES:
                    await contest.start(name)
                async with trio.open_nursery() as callers:
                    callers.start_soon(contest.trouble)
                    for name in NAMES:
                        callers.start_soon(contest.caller, name)
                await contest.check()
            return contest.deaths

        try:
            deaths += run_seeded(seed, body)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert deaths > 150


ASKING = """
import json, sys, trio
from strataflow import open_runtime

async def main(store, name, count):
    async with open_runtime(store=store, durability="process") as runtime:
        session = await runtime.open_session("/project", name, "active")
        for number in range(count):
            change = {"working": {f"n{number}": name}}
            receipt = await session.patch_state(global_=change, request_id=f"r{number}")
            print(json.dumps([number, receipt.seq, receipt.transition_id]), flush=True)

sys.stdin.readline()
trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


@holds("Ours-12", "Ours-3")
@pytest.mark.slow
def test_real_processes_that_ask_for_the_same_things_at_once_are_told_the_same(tmp_path: Path) -> None:
    count, store = 60, tmp_path / "state-flow"

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ASKING, str(store), name, str(count)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, text=True, **pipes)

    processes = {name: start(name) for name in ("first", "second", "third", "killed")}
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    killed = processes["killed"]
    assert killed.stdout is not None
    lines = [killed.stdout.readline() for _ in range(5)]
    killed.kill()
    lines += killed.stdout.readlines()
    killed.communicate()
    processes["killed"] = start("killed")  # whoever died asks for everything once more
    for process in processes.values():
        output, errors = process.communicate("go\n" if process is processes["killed"] else None, timeout=60)
        assert process.returncode == 0, errors
        lines += output.splitlines()
    told: dict[int, set[tuple[int, str]]] = {}
    for line in lines:
        if line.strip().endswith("]"):  # a kill may have cut one short
            number, *receipt = json.loads(line)
            told.setdefault(number, set()).add(tuple(receipt))
    assert {number: len(receipts) for number, receipts in told.items()} == dict.fromkeys(range(count), 1)

    async def look() -> None:
        async with opened(store) as runtime:
            session = await runtime.open_session("/project", "first")
            assert (await session.status())["revision"].startswith(f"g{count}c")
            for number, [(seq, transition)] in told.items():
                found = await runtime.outcome(f"r{number}")
                assert found.receipt is not None
                assert (found.receipt.seq, found.receipt.transition_id) == (seq, transition)

    trio.run(look)
