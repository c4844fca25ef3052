"""A simulated machine: one disk, its kernel locks, its processes and journals, as seams for ``open_runtime_in``.

Everything follows from the seed: run it under trio's MockClock, with trio's own scheduler seeded, and two runs are
equal. A machine whose power failed leads to the next one with ``after_power_cut``.
"""

from __future__ import annotations

import random
from typing import final

from ...store import Durability, Ground, Journal, Layout
from ..joining import Seams, TreeGround
from .clock import SeededClock
from .disk import SimulatedDisk
from .fates import CrashMode
from .ids import SeededIds
from .journal import SimulatedJournals
from .locks import SimulatedLocks, SimulatedProcessTable
from .threads import SimulatedThreads

STORE = "/agent/state-flow"


@final
class SimulatedMachine:
    """Processes that share one disk. ``root`` is the path of the store they open."""

    def __init__(self, seed: int = 0, root: str = STORE, boots: int = 1) -> None:
        self.seed = seed
        self.root = root
        self._boots = boots
        self.disk = SimulatedDisk(random.Random(f"disk {seed}"))
        self.disk.plant(root.rpartition("/")[0])
        self.table = SimulatedProcessTable(boots)
        self.locks = SimulatedLocks(self.disk)
        self.journals = SimulatedJournals(self.disk)
        self._threads: dict[str, SimulatedThreads] = {}
        self._started = 0

    def ground(self, process: str) -> Ground:
        """What a new process stands on. The name may be one of a process that has ended."""
        if process in self.table.running:
            self.kill(process)
        return Ground(self.disk, self.locks.of(process), self.table.start(process), Layout(self.root))

    def seams(self, process: str) -> Seams:
        """The world of a new process, for ``open_runtime_in``. Call it inside of the trio run."""
        ground = self.ground(process)
        self._started += 1
        seed = hash_of(self.seed, self._started)
        threads = self._threads[process] = SimulatedThreads()

        def open_journal(ground: Ground, level: Durability) -> Journal:
            return self.journals.open(process, ground.layout, level)

        trees = TreeGround(self.disk, self.disk, ground.locks, self.root.rpartition("/")[0] + "/sessions")
        return Seams(ground, threads, SeededClock(seed), SeededIds(seed), open_journal, trees=trees)

    def kill(self, process: str) -> None:
        """What ``kill -9`` leaves: files as programs see them, and nothing else of the process."""
        if process in self._threads:
            self._threads[process].is_killed = True
        self.locks.kill(process)
        self.table.kill(process)
        self.journals.kill(process)

    def after_power_cut(self, mode: CrashMode, seed: int = 0) -> SimulatedMachine:
        """The machine when it is on again. This one stays as it is: many fates of one moment can be looked at."""
        found = SimulatedMachine(hash_of(self.seed, seed), self.root, self._boots + 1)
        found.disk = self.disk.crash(mode, seed)
        found.locks = SimulatedLocks(found.disk)
        found.journals = self.journals.on(found.disk)
        return found

    def after_kill(self, seed: int = 0) -> SimulatedMachine:
        """A twin of this machine, still on, on which every process has been killed at this moment."""
        found = SimulatedMachine(hash_of(self.seed, seed), self.root, self._boots)
        found.disk = self.disk.twin(seed)
        found.table = self.table.after_kill()
        found.locks = SimulatedLocks(found.disk)
        found.journals = self.journals.on(found.disk)
        return found


def hash_of(*numbers: int) -> int:
    """A seed for a part of a world, from the seed of the whole."""
    return random.Random(repr(numbers)).getrandbits(32)
