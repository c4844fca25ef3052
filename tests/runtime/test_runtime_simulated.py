"""The whole runtime on simulated machines, under a MockClock, against a model of plain lists.

Two processes with sessions, limits and lives of their own patch, write checkpoints, close, are killed and lose power.
After every step each session sees exactly what the model says: values, history, floors.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.history_model import HistoryModel
from kit.json_strategies import PATCHES
from kit.simulated_processes import Process
from kit.simulated_runtimes import run_seeded
from strataflow.runtime import CallError, ReadError
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Layout
from strataflow.store.layout import cwd_key
from strataflow.store.scope_files import decode_scope, read_scope

PROCESSES = ("left", "right")
# Two sessions of each process, three of the four in one directory. No session is used by two processes.
SESSIONS = {"left": [("/project", "a"), ("/project", "b")], "right": [("/project", "c"), ("/elsewhere", "a")]}
LIMITS = st.sampled_from([0, 1, 2, 7, 100])
# Mostly small, so that a run has many steps; the algebra has tests of its own.
SMALL = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(st.integers(2, 5), st.none(), st.fixed_dictionaries({"k": st.integers(2, 5)})),
    min_size=1,
    max_size=2,
)
CALLS = st.dictionaries(
    st.sampled_from(["global", "cwd", "session"]),
    st.fixed_dictionaries({"working": st.one_of(SMALL, SMALL, SMALL, PATCHES)}),
    min_size=1,
    max_size=3,
)
PLACES = st.tuples(st.sampled_from(PROCESSES), st.integers(0, 1))
STEPS = st.one_of(
    st.tuples(st.just("patch"), PLACES, CALLS),
    st.tuples(st.just("patch"), PLACES, CALLS),
    st.tuples(st.just("patch"), PLACES, CALLS),
    st.tuples(st.just("checkpoint"), st.sampled_from(PROCESSES)),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 5.0])),
    st.tuples(st.sampled_from(["close", "kill"]), st.sampled_from(PROCESSES), LIMITS),
    st.tuples(st.just("power"), st.sampled_from(["lose", "keep", "torn"]), st.integers(0, 99)),
)


class World:
    """The machine, its processes and the model, side by side."""

    def __init__(self, seed: int, level: str, nursery: trio.Nursery) -> None:
        self.machine = SimulatedMachine(seed)
        self.level = level
        self.nursery = nursery
        self.model = HistoryModel()
        self.limits = dict.fromkeys(PROCESSES, 7)
        self.processes: dict[str, Process] = {}

    async def start(self, name: str, limit: int) -> None:
        options: dict[str, Any] = {"durability": self.level, "history_limit": limit}
        self.processes[name] = await Process.start(self.nursery, self.machine, name, **options)
        self.limits[name] = limit

    async def step(self, step: Any) -> None:
        match step:
            case ("patch", (name, number), call):
                await self._patch(name, *SESSIONS[name][number], call)
            case ("checkpoint", name):
                report = await self.processes[name].runtime.checkpoint()
                assert not report.blocked
                self.check_files()
            case ("wait", seconds):
                await trio.sleep(seconds)
            case ("close", name, limit):
                await self.processes[name].close()
                await self.start(name, limit)
            case ("kill", name, limit):
                await self.processes[name].kill()
                await self.start(name, limit)
            case ("power", mode, seed) if self.level == "power":
                for process in self.processes.values():
                    await process.kill()
                self.machine = self.machine.after_power_cut(mode, seed)
                for name in PROCESSES:
                    await self.start(name, self.limits[name])

    async def _patch(self, name: str, cwd: str, key: str, call: Any) -> None:
        session = await self.processes[name].session(cwd, key)
        self.model.open(cwd, key)
        before = await session.read_state(paths=["global", "cwd", "session"], fresh=True)
        try:
            receipt = await session.call("patch_state", call)
        except CallError:
            after = await session.read_state(paths=["global", "cwd", "session"], fresh=True)
            assert before.value == after.value  # refused whole
            return
        assert receipt["changed"] == self.model.patch(cwd, key, call, self.limits[name])

    async def check(self) -> None:
        """Every session sees the present and the past that the model says, and nothing beyond."""
        for name, process in self.processes.items():
            for cwd, key in self.model.seen:
                if (cwd, key) not in SESSIONS[name]:
                    continue
                session = await process.session(cwd, key)
                await session.read_state("global", fresh=True)
                limit = self.limits[name]
                expected = self.model.visible(cwd, key, limit)
                for offset, state in enumerate(expected):
                    for root, value in zip(("global", "cwd", "session"), state, strict=True):
                        path = f"{root}[{offset}]"
                        assert (await session.read_state(path)).value == value, (name, key, path)
                with pytest.raises(ReadError) as beyond:
                    await session.read_state(f"global[{len(expected)}]")
                wanted = "E_HISTORY_RANGE" if len(expected) > limit else "E_HISTORY_ORIGIN"
                assert beyond.value.code == wanted, (name, key, len(expected))

    def check_files(self) -> None:
        """After a checkpoint the canonical files of every scope can be read strictly and hold the present."""
        layout, disk = Layout(self.machine.root), self.machine.disk
        for cwd, key in self.model.seen:
            for name, place in self.model.places(cwd, key).items():
                scope = {"global": "", "cwd": cwd_key(cwd), "session": f"{cwd_key(cwd)}/{key}"}[name]
                raw = read_scope(disk, layout, scope)
                owner = None if name == "global" else cwd
                found = decode_scope(layout, raw, cwd=owner, session_id=key if name == "session" else None)
                assert (found.state.value if found else {}) == self.model.scopes.get(place, {}), scope


@settings(max_examples=80)
@given(
    st.lists(STEPS, min_size=1, max_size=60),
    st.sampled_from(["power", "process"]),
    st.tuples(LIMITS, LIMITS),
    st.integers(0, 2**16),
    st.sampled_from([1, 1, 4, 15]),
)
def test_sessions_of_two_processes_see_what_a_model_of_plain_lists_says(
    steps: list[Any], level: str, limits: tuple[int, int], seed: int, pace: int
) -> None:
    """Looking makes a process follow: with a slower ``pace`` it works behind the others meanwhile."""

    async def body() -> None:
        async with trio.open_nursery() as nursery:
            world = World(seed, level, nursery)
            for name, limit in zip(PROCESSES, limits, strict=True):
                await world.start(name, limit)
            for count, step in enumerate(steps, 1):
                await world.step(step)
                if count % pace == 0:
                    await world.check()
            await world.check()
            for process in world.processes.values():
                await process.close()
            world.check_files()

    run_seeded(seed, body)
