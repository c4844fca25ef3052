"""Random stories, random stops, random fates: crash states without end, each from its seed.

A story is some processes at both levels that open, patch, answer, write files, close, die in the middle of a call, and
meet a disk that refuses, is full, or reads only. ``run_crash_states(seed)`` runs one, takes pictures at moments that
the seed chooses, recovers on each, and on some of them once more in the middle of the recovery::

    python tests/kit/crash_random.py 7 8 9      repeats three seeds and says what it found
"""

from __future__ import annotations

import errno
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs

from kit.crash_ledger import MAIN, Author, Ledger
from kit.crash_states import Fate, Tally, checked, fresh_name, photograph
from kit.simulated_stores import LOOKS
from strataflow.runtime.simulation.disk import ShortWrite
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.simulation.threads import ProcessKilled
from strataflow.store import SessionAddress, StoreError

PICTURES = 60
_PROCESSES_MAX = 3
_CODES = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EINTR)
_ADDRESSES = (MAIN, *(SessionAddress(cwd, name, name) for cwd, name in (("/project", "b"), ("/a/b", "c"))))


def run_crash_states(seed: int) -> int:
    """Check the crash states of one random story. Returns how many distinct ones there were.

    Raises:
      AssertionError and others: one is not as it must be; notes say which. The same seed raises the same.
    """
    chance, tally = random.Random(f"crash states {seed}"), Tally()
    story = RandomStory(chance.randrange(1 << 32), chance.randint(4, 14))
    machine = SimulatedMachine(seed)
    try:
        rate = PICTURES / changes_of(story, machine)
        waiting = photograph(story, SimulatedMachine(seed), Ledger(), tally, at_random(chance, rate), f"seed {seed}")
        for picture in waiting:
            for again in checked(picture, tally, at_random(chance, 0.2 if chance.random() < 0.1 else 0)):
                checked(again, tally)
    except BaseException as error:
        error.add_note(f"repeat it with: python tests/kit/crash_random.py {seed}")
        raise
    return tally.checked


def changes_of(story: RandomStory, machine: SimulatedMachine) -> int:
    """How many changes of the disk a story has."""
    count = 0

    def before(name: str, _path: str) -> None:
        nonlocal count
        count += name not in LOOKS

    machine.disk.before_operation = before
    story(machine, Ledger())
    return count


def at_random(chance: random.Random, rate: float) -> Callable[[int], Sequence[Fate]]:
    """So many fates for each change, on average."""

    def choose(_change: int) -> Sequence[Fate]:
        count = int(rate) + (chance.random() < rate % 1)
        modes = chance.choices(("kill", "lose", "keep", "torn"), (2, 1, 1, 4), k=count)
        return [(mode, chance.randrange(1 << 32)) for mode in modes]  # type: ignore[misc]

    return choose


@attrs.define(eq=False)
class RandomStory:
    """A story that is the same whenever it is told."""

    seed: int
    steps: int

    def __call__(self, machine: SimulatedMachine, ledger: Ledger) -> None:
        telling = Telling(random.Random(self.seed), machine, ledger)
        for step in range(self.steps):
            telling.step(step)


@attrs.define(eq=False)
class Telling:
    """One run of a random story."""

    chance: random.Random
    machine: SimulatedMachine
    ledger: Ledger
    living: list[Author] = attrs.field(factory=list)
    # The process that acts now.
    acting: str = ""

    def step(self, number: int) -> None:
        chance = self.chance
        if not self.living or (len(self.living) < _PROCESSES_MAX and chance.random() < 0.15):
            act = self.join
        else:
            acts = (self.patch, self.batch, self.respond, self.checkpoint, self.open_session, self.close)
            act = chance.choices(acts, (8, 2, 1, 4, 1, 2))[0]
        author = chance.choice(self.living) if self.living and act != self.join else None
        self.acting = author.store.writer if author else fresh_name(chance)
        trouble = chance.choices((calm, self.death, self.refusal, self.shortage), (12, 2, 3, 1))[0]
        try:
            with trouble():
                act(author, number) if author else self.join(number)  # type: ignore[arg-type,call-arg]
        except ProcessKilled:
            self.bury(self.acting)
        except StoreError as error:
            self.note(error, act)

    def note(self, error: StoreError, act: object) -> None:
        """An operation was refused: the process goes on, ends, or all end."""
        assert error.code in ("E_DISK", "E_BROKEN"), error
        if error.code == "E_BROKEN":
            # A failed sync is told to all who have the file open; they end and read anew what is there (M4).
            for name in [author.store.writer for author in self.living]:
                self.bury(name)
        if error.code == "E_BROKEN" or act in (self.join, self.close, self.open_session):
            self.bury(self.acting)

    def bury(self, name: str) -> None:
        self.living = [author for author in self.living if author.store.writer != name]
        if name in self.machine.table.running:
            self.machine.kill(name)

    # -- what processes do --------------------------------------------------------------------------------------

    def join(self, _number: int) -> None:
        level = self.chance.choice(("power", "process"))
        author = Author.join(self.machine, self.ledger, self.acting, level, self.chance.choice(_ADDRESSES))
        self.living.append(author)
        author.catch_up()
        self.ledger.make_certain()  # opening synced what was there (J4)

    def open_session(self, author: Author, _number: int) -> None:
        author.catch_up()
        address = author.open_session(*self.chance.choice([("main", "/project"), ("b", "/project"), ("c", "/a/b")]))
        author.store.set_mode(self.chance.choice(("active", "passive")), address)

    def patches(self, number: int) -> dict[str, dict[str, object]]:
        chance = self.chance
        size = chance.choice((0, 10, 300, 512, 2000))
        scopes = chance.sample(("global", "cwd", "session"), chance.randint(1, 3))
        patch: dict[str, object] = {f"n{number}": "x" * size, "last": number}
        if chance.random() < 0.3:
            patch[f"n{chance.randrange(number + 1)}"] = chance.choice((None, [1, {"a": [2]}], {"deep": {"er": number}}))
        return {name: {"working": patch} for name in scopes}

    def patch(self, author: Author, number: int) -> None:
        named = {"global_" if name == "global" else name: patch for name, patch in self.patches(number).items()}
        request_id = f"r{number}" if self.chance.random() < 0.3 else None
        author.patch(self.session_of(author), request_id, **named)

    def batch(self, author: Author, number: int) -> None:
        calls = [(self.session_of(author), self.patches(100 * number + n)) for n in range(self.chance.randint(2, 5))]
        author.batch(*calls)

    def respond(self, author: Author, number: int) -> None:
        author.respond(f"answer {number}", self.session_of(author))

    def session_of(self, author: Author) -> SessionAddress:
        return self.chance.choice(list(author.store.memory.accepted.values()))

    def checkpoint(self, author: Author, _number: int) -> None:
        author.catch_up()
        report = author.store.checkpoint()
        if not report.blocked:
            self.ledger.make_certain()

    def close(self, author: Author, _number: int) -> None:
        author.catch_up()
        report = author.store.close()
        self.bury(author.store.writer)
        if report.was_last and not report.cause:
            self.ledger.make_certain()

    # -- what happens to them -----------------------------------------------------------------------------------

    @contextmanager
    def at_change(self, act: Callable[[str], None]) -> Iterator[None]:
        """Something happens before some change of the disk during the block, if there are so many."""
        camera, left = self.machine.disk.before_operation, self.chance.choice((1, 2, 3, 5, 8, 13, 21))

        def before(name: str, path: str) -> None:
            nonlocal left
            if camera is not None:
                camera(name, path)
            left -= name not in LOOKS
            if left == 0 and name not in LOOKS:
                act(name)

        self.machine.disk.before_operation = before
        try:
            yield
        finally:
            self.machine.disk.before_operation = camera

    @contextmanager
    def death(self) -> Iterator[None]:
        """The process is killed in the middle of what it does."""

        def die(_name: str) -> None:
            self.machine.kill(self.acting)
            raise ProcessKilled

        with self.at_change(die):
            yield

    @contextmanager
    def refusal(self) -> Iterator[None]:
        """One operation is refused, perhaps in the middle of a write."""
        code, taken = self.chance.choice(_CODES), self.chance.choice((0, 1, 30))

        def refuse(name: str) -> None:
            raise ShortWrite(code, taken) if name in ("append", "write_new") else OSError(code, "injected")

        with self.at_change(refuse):
            yield

    @contextmanager
    def shortage(self) -> Iterator[None]:
        """The disk is nearly full for a while, or takes no change at all."""
        disk = self.machine.disk
        if self.chance.random() < 0.3:
            disk.is_read_only = True
        else:
            disk.capacity_bytes = sum(map(len, disk.contents().values())) + self.chance.choice((0, 100, 1000, 5000))
        try:
            yield
        finally:
            disk.is_read_only, disk.capacity_bytes = False, None


@contextmanager
def calm() -> Iterator[None]:
    """Nothing happens."""
    yield


def main() -> None:
    for seed in map(int, sys.argv[1:]):
        print(f"seed {seed}: {run_crash_states(seed)} crash states are as they must be")


if __name__ == "__main__":
    main()
