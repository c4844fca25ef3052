"""Real processes that patch one store and are killed with SIGKILL, again and again. Run as a program::

    python tests/kit/kill_loop.py STORE SEED SECONDS

Writers are forked from this warm process, so that hundreds of them can live and die in seconds. Each tells through a
pipe what it begins and what was acknowledged. At the end the store is opened and held against all that was told; the
last line is a JSON object with the counts, or the program fails.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs
import trio

from strataflow.runtime import Durability, open_runtime

WRITERS = 4


@attrs.define(eq=False)
class Writer:
    """One process: its pipe, what it has told, and how many acknowledgements or seconds it has left to live."""

    pid: int
    name: str
    pipe: int
    acks_left: int
    dies_at_s: float
    begun: set[int] = attrs.field(factory=set)
    acknowledged: set[int] = attrs.field(factory=set)
    _rest: bytes = b""

    def listen(self) -> bool:
        """Take in what it says. False at the end of its pipe."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            what, number = line.split()
            (self.begun if what == b"b" else self.acknowledged).add(int(number))
            self.acks_left -= what == b"a"
        return bool(data)


async def write(store: str, name: str, pipe: int, count: int, durability: Durability) -> None:
    """What a writer does until it has patched ``count`` times or is killed."""
    async with open_runtime(store=store, durability=durability) as runtime:
        session = await runtime.open_session("/project", name, "active")
        for number in range(count):
            os.write(pipe, b"b %d\n" % number)
            change = {"working": {f"{name}-{number}": number}}
            await session.patch_state(global_=change, cwd=change, session=change)
            os.write(pipe, b"a %d\n" % number)
            if number % 7 == 6:
                await runtime.checkpoint()


# What a writer is, by its name: called in its process with its pipe and how often it writes before it ends by itself.
Program = Callable[[int, int], None]


def patching(store: str, name: str, chance: random.Random) -> Program:
    """A writer that patches the store."""
    durability: Durability = chance.choice(["power", "process"])
    return lambda pipe, count: trio.run(write, store, name, pipe, count, durability)


def fork_writer(program: Program, name: str, chance: random.Random) -> Writer:
    read_end, write_end = os.pipe()
    # A third dies early, perhaps while it opens; some end in good order.
    acks, early_s = chance.randrange(1, 30), chance.choice([3600.0, 3600.0, chance.uniform(0, 0.08)])
    count = chance.choice([1 << 30, 1 << 30, acks])
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            program(write_end, count)
        except BaseException as error:  # the exit code makes the parent raise
            sys.stderr.write(f"{name}: {error!r}\n")
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    return Writer(pid, name, read_end, acks, time.monotonic() + early_s)


def loop(program_of: Callable[[str], Program], chance: random.Random, until_s: float) -> list[Writer]:
    """Fork and kill until the time is up. Returns all writers that ever lived."""
    living: dict[int, Writer] = {}
    ended: list[Writer] = []
    while living or time.monotonic() < until_s:
        while len(living) < WRITERS and time.monotonic() < until_s:
            name = f"w{len(ended) + len(living)}"
            writer = fork_writer(program_of(name), name, chance)
            living[writer.pipe] = writer
        ready, _, _ = select.select(list(living), [], [], 0.002)
        is_over = time.monotonic() >= until_s
        for writer in list(living.values()):
            is_at_end = writer.pipe in ready and not writer.listen()
            if not is_at_end and (writer.acks_left <= 0 or time.monotonic() > writer.dies_at_s or is_over):
                os.kill(writer.pid, signal.SIGKILL)
                while writer.listen():
                    pass
                is_at_end = True
            if is_at_end:
                _, status = os.waitpid(writer.pid, 0)
                assert status in (0, signal.SIGKILL), (writer.name, status)
                os.close(writer.pipe)
                ended.append(living.pop(writer.pipe))
    return ended


async def verify(store: str, writers: list[Writer]) -> dict[str, Any]:
    """Everything acknowledged is there, whole; nothing is there that was not begun."""
    async with open_runtime(store=store) as runtime:
        session = await runtime.open_session("/project", "verifier", "passive")
        found = (await session.read_state("global.working")).value
        shared = (await session.read_state("cwd.working")).value
        assert found == shared
        expected = {f"{writer.name}-{number}" for writer in writers for number in writer.acknowledged}
        possible = {f"{writer.name}-{number}" for writer in writers for number in writer.begun}
        lost = expected - found.keys()
        assert not lost, f"lost: {sorted(lost)[:20]}"
        assert found.keys() <= possible
        revision = (await session.status())["revision"]
        assert revision.startswith(f"g{len(found)}c{len(found)}"), (revision, len(found))
        for writer in writers:
            own = {key for key in found if key.startswith(f"{writer.name}-")}
            if own:
                private = await runtime.open_session("/project", writer.name, "passive")
                assert (await private.read_state("session.working")).value.keys() == own, writer.name
                await private.aclose()
        report = await runtime.aclose()
        assert report.was_last
        assert not report.left_behind, report
    leftovers = os.listdir(f"{store}/.strataflow/open")
    assert not leftovers, leftovers
    return {"writers": len(writers), "acknowledged": len(expected), "found": len(found)}


def main() -> None:
    store, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    chance = random.Random(seed)
    writers = loop(lambda name: patching(store, name, chance), chance, time.monotonic() + seconds)
    print(json.dumps(trio.run(verify, store, writers)))


if __name__ == "__main__":
    main()
