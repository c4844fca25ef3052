"""Clients that append to session files in a world, and the judge of what is in those files when the world has ended.

All clients of all processes share a few files. What they begin and what is acknowledged is noted outside of the
processes, which may die at any operation. In the end (W3) each file must open and hold

  E1  every acknowledged entry once, unless the durability allows a power cut to take it,
  E2  no entry that nobody has begun, and none whose parent is not there,
  E3  no half of a line before a whole one that was acknowledged: what is added next is found again.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, cast, final

import attrs
import trio

from ...store import Durability, FileParts, KernelLock, LockAttempt, Locks, StoreError
from ...store.trace import TraceSeams, TraceTree, TreeOptions, check_session, fork_tree, open_tree
from .process import Process
from .seams import SimulatedMachine, hash_of

FOLDER: Final = "/agent/sessions"
FILES: Final = 2
_PAUSES_S = (0.0, 0.0, 0.0005, 0.01, 0.3, 2.5)
_PATIENCE_S = 0.02
_CWD = "/project"
# Half lines and zeros of what was never acknowledged may stay as lines that are no entries.
_ALLOWED = frozenset({"bad-line", "torn-line", "torn-aside", "no-newline", "unknown-target"})


@final
@attrs.frozen
class _Impatient:
    """A lock that is not waited for: a wait would stop the loop on which all of the world runs."""

    _lock: KernelLock

    @property
    def is_held(self) -> bool:
        return self._lock.is_held

    def try_acquire(self) -> bool:
        return self._lock.try_acquire()

    def acquire_blocking(self, attempt: LockAttempt) -> bool:
        attempt.abandon()
        return False

    def release(self) -> None:
        self._lock.release()

    def identity(self) -> tuple[int, int] | None:
        return self._lock.identity()

    def close(self) -> None:
        self._lock.close()


@final
@attrs.frozen
class ImpatientLocks:
    """``Locks`` that are obtained at once or not at all."""

    _locks: Locks

    def open(self, path: str) -> KernelLock:
        """The lock of a file."""
        return _Impatient(self._locks.open(path))

    def attempt(self) -> LockAttempt:
        """One that will be abandoned."""
        return self._locks.attempt()


@attrs.define(eq=False)
class _Told:
    """What was told of one file."""

    begun: set[str] = attrs.field(factory=set)
    acknowledged: dict[str, int] = attrs.field(factory=dict)  # and how often the power had failed before


@final
@attrs.define(eq=False)
class SessionFiles:
    """The session files of a world: their clients, what was told, and the judgement.

    Attributes:
      clients, steps: how many there are, and how many steps each of them makes.
      cuts: how often the power has failed so far.
    """

    seed: int
    clients: int
    steps: int
    durability: Durability
    cuts: Callable[[], int]
    told: dict[str, _Told] = attrs.field(factory=dict, init=False)
    _left: dict[int, int] = attrs.field(factory=dict, init=False)
    _appended: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._left = dict.fromkeys(range(self.clients), self.steps)

    def beside(
        self, workload: Callable[[Process], Awaitable[None]], processes: int
    ) -> Callable[[Process], Awaitable[None]]:
        """A workload together with the clients of each process, until they have nothing left to do."""
        if not self.clients:
            return workload

        async def both(process: Process) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(workload, process)
                for number in range(process.number, self.clients, processes):
                    nursery.start_soon(self._client, process, number)

        return both

    async def _client(self, process: Process, number: int) -> None:
        chance = random.Random(hash_of(self.seed, number, process.life, 17))
        world = process.unrecorded._world
        ground, ids = world.ground, world.ids
        parts, locks = cast("FileParts", ground.disk), ImpatientLocks(ground.locks)
        seams = TraceSeams(ground.disk, parts, locks, world.clock.wall_ms, ids.new_id)
        tree: TraceTree | None = None
        while self._left[number] > 0 and not process.is_gone:
            await trio.sleep(chance.choice(_PAUSES_S))
            self._left[number] -= 1
            try:
                if tree is None:
                    path = f"{FOLDER}/s{chance.randrange(FILES)}.jsonl"
                    tree = await world.threads.work(functools.partial(self._open, seams, path))
                await world.threads.work(functools.partial(self._step, tree, seams, chance))
                if chance.random() < 0.1:
                    tree = None
            except StoreError as error:
                if error.code != "E_ABORTED":  # somebody else is appending: try again, with what is known
                    tree = None
                await trio.sleep(_PATIENCE_S)

    def _open(self, seams: TraceSeams, path: str) -> TraceTree:
        options = TreeOptions(self.durability, "user")
        return open_tree(TraceTree, seams, path, options, default_cwd=_CWD)

    def _step(self, tree: TraceTree, seams: TraceSeams, chance: random.Random) -> None:
        known = tree.get_branch_ids()
        match chance.randrange(12):
            case 0 if known:
                tree.branch(chance.choice(known))
            case 1 if known:
                self._add(tree, "compaction", chance, chance.choice(known))
            case 2 if known:
                self._fork(tree, seams)
            case 3 | 4 | 5:
                tree.begin_run()
                for _ in range(3):
                    self._add(tree, "message", chance)
                tree.end_run()
            case _:
                self._add(tree, "message", chance)

    def _add(self, tree: TraceTree, kind: str, chance: random.Random, kept: str = "") -> None:
        self._appended += 1
        entry_id, text = f"e{self._appended}", "x" * chance.choice((1, 100, 600, 3000))
        told = self._of(tree)
        told.begun.add(entry_id)
        if kind == "compaction":
            tree.append_compaction(text, kept, 1, entry_id=entry_id)
        else:
            tree.append_message({"role": "user", "content": text}, entry_id=entry_id)
        told.acknowledged[entry_id] = self.cuts()

    def _fork(self, tree: TraceTree, seams: TraceSeams) -> None:
        source = str(tree.get_session_file())
        options = TreeOptions(self.durability, "user")
        fork = fork_tree(TraceTree, seams, source, _CWD, f"{FOLDER}/forks", options)
        told = self._of(fork)
        told.begun |= set(fork.get_branch_ids()) | self.told[source].begun
        told.acknowledged |= dict.fromkeys((entry["id"] for entry in fork.iter_entries()), self.cuts())

    def _of(self, tree: TraceTree) -> _Told:
        return self.told.setdefault(str(tree.get_session_file()), _Told())

    # -- judging ------------------------------------------------------------------------------------------------

    def judge(self, machine: SimulatedMachine) -> Iterator[str]:
        """What is wrong with the files, in words."""
        disk, locks = machine.disk, machine.locks.of("judge")
        numbers = iter(range(1 << 62))
        seams = TraceSeams(disk, disk, locks, lambda: 0, lambda: f"{next(numbers):032x}")
        may_lose = self.durability == "process" and self.cuts() > 0
        for path, told in sorted(self.told.items()):
            certain = {each for each, cuts in told.acknowledged.items() if not may_lose or cuts == self.cuts()}
            yield from (f"{path}: {text}" for text in self._look(seams, path, told, certain, may_lose))

    def _look(self, seams: TraceSeams, path: str, told: _Told, certain: set[str], may_lose: bool) -> Iterator[str]:
        try:
            found: list[dict[str, Any]] = []
            if seams.disk.stat(path) is not None:
                tree = self._open(seams, path)
                tree.append_message({"role": "user", "content": "judged"}, entry_id="judged")
                found = self._open(seams, path).get_entries()
                codes = {finding.code for finding in check_session(seams, path)}
                codes -= _ALLOWED | ({"orphan"} if may_lose else set())
                if codes:
                    yield f"the file has {', '.join(sorted(codes))}"
        except StoreError as error:
            # Of a file that was made without a sync a power cut may leave zeros.
            if certain or not may_lose:
                yield f"the file cannot be used: {error}"
            return
        ids = [entry["id"] for entry in found]
        if lost := certain - set(ids):
            yield f"acknowledged and not there: {', '.join(sorted(lost))}"  # E1
        if len(set(ids)) < len(ids):
            yield "an entry stands twice"  # E1
        if strange := set(ids) - told.begun - {"judged"}:
            yield f"nobody has begun {', '.join(sorted(strange))}"  # E2
        if found and ids[-1] != "judged":
            yield "what was added last is not found again"  # E3
