"""Real processes that append to one session file and are killed with SIGKILL, again and again. Run as a program::

    python tests/kit/session_kill_loop.py FOLDER SEED SECONDS WRITERS KILLS

``KILLS`` is 0 or 1. Each writer tells through a pipe which entry it begins and which was acknowledged. At the end the
file is held against all that was told; the last line is a JSON object with the counts, or the program fails.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import trio

from kit.session_trees import assistant, user
from strataflow import SessionTree, compaction
from strataflow.runtime import SessionFolder

_FINE = {"ok", "note"}
_SETTINGS = compaction.CompactionSettings(keep_recent_tokens=200)


async def summarizer(request: compaction.SummaryRequest) -> dict[str, Any]:
    return assistant("What came first. " * 20)


@attrs.define(eq=False)
class Writer:
    """One process: its pipe, what it has told, and how many acknowledgements it has left to live."""

    pid: int
    name: str
    pipe: int
    acks_left: int
    told: dict[bytes, set[str]] = attrs.field(factory=lambda: {b"b": set(), b"a": set(), b"f": set()})
    _rest: bytes = b""

    def listen(self) -> bool:
        """Take in what it says. False at the end of its pipe."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            what, _, name = line.partition(b" ")
            self.told[what].add(name.decode())
            self.acks_left -= what == b"a"
        return bool(data)


def write(path: str, name: str, pipe: int, chance: random.Random, until_s: float) -> None:
    """What a writer does until the time is up or it is killed: whole runs, single entries, branches, forks."""
    tree = SessionTree.open(path, durability=chance.choice(["power", "process", "process"]))
    number = 0

    def append(kind: str) -> None:
        nonlocal number
        number += 1
        entry_id = f"{name}-{number}"
        os.write(pipe, b"b %s\n" % entry_id.encode())
        text = f"{entry_id} " * chance.randrange(1, 400)
        if kind == "compaction":
            tree.append_compaction(text, chance.choice(tree.get_branch_ids()), 1, entry_id=entry_id)
        else:
            tree.append_message(user(text) if kind == "user" else assistant(text), entry_id=entry_id)
        os.write(pipe, b"a %s\n" % entry_id.encode())

    while time.monotonic() < until_s:
        match chance.randrange(10):
            case 0:
                tree.branch(chance.choice(tree.get_branch_ids()))
            case 1:
                append("compaction")
            case 2 if number % 5 == 1:
                with suppress(compaction.CompactionError):  # there is nothing to sum up, or somebody else has done it
                    done = trio.run(partial(compaction.compact_session, tree, summarizer, settings=_SETTINGS))
                    os.write(pipe, b"a %s\n" % done.entry_id.encode())
            case 2 if number % 7 == 3:
                fork = SessionTree.fork_from(path, "/fork", f"{os.path.dirname(path)}/forks", durability="process")
                os.write(pipe, f"f {len(fork.get_entries())} {fork.get_session_file()}\n".encode())
            case 3 | 4 | 5:
                tree.begin_run()
                for kind in ("user", "assistant", "user"):
                    append(kind)
                tree.end_run()
            case _:
                append("user")


def fork_writer(path: str, name: str, chance: random.Random, until_s: float, is_killed: bool) -> Writer:
    read_end, write_end = os.pipe()
    own, acks = random.Random(chance.random()), chance.randrange(1, 60) if is_killed else 1 << 30
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            write(path, name, write_end, own, until_s)
        except BaseException as error:  # the exit code makes the parent raise
            sys.stderr.write(f"{name}: {error!r}\n")
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    return Writer(pid, name, read_end, acks)


def loop(path: str, chance: random.Random, until_s: float, count: int, is_killed: bool) -> list[Writer]:
    """Fork, and kill, until the time is up. Returns all writers that ever lived."""
    living: dict[int, Writer] = {}
    ended: list[Writer] = []
    while living or time.monotonic() < until_s:
        while len(living) < count and time.monotonic() < until_s:
            writer = fork_writer(path, f"w{len(ended) + len(living)}", chance, until_s, is_killed)
            living[writer.pipe] = writer
        ready, _, _ = select.select(list(living), [], [], 0.002)
        for writer in list(living.values()):
            is_at_end = writer.pipe in ready and not writer.listen()
            if not is_at_end and writer.acks_left <= 0:
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


def verify(path: str, writers: list[Writer]) -> dict[str, Any]:
    """Everything acknowledged is there once; nothing is there that was not begun; parents exist; forks are whole."""
    tree = SessionTree.open(path)
    tree.append_message(user("verified"), entry_id="verified")  # whatever tail was left, nothing is glued to it
    found = [entry["id"] for entry in SessionTree.open(path).get_entries()]
    assert len(set(found)) == len(found), "an entry stands twice"
    acknowledged = {name for writer in writers for name in writer.told[b"a"]}
    begun = {name for writer in writers for name in writer.told[b"b"]}
    # A compaction that was not acknowledged can be there, whole. Its id was not known before.
    begun |= {
        entry["id"] for entry in tree.get_entries() if entry["type"] == "compaction" and entry["firstKeptEntryId"]
    }
    assert acknowledged <= set(found), f"lost: {sorted(acknowledged - set(found))[:20]}"
    assert set(found) <= begun | {"begin", "verified"}
    findings = SessionFolder(os.path.dirname(path)).check([path]).findings
    assert [finding for finding in findings if finding.severity not in _FINE] == []
    forks = [fork.split(" ", 1) for writer in writers for fork in writer.told[b"f"]]
    for count, fork in forks:
        assert len(SessionTree.open(fork).get_entries()) == int(count), fork
    counts = {"writers": len(writers), "acknowledged": len(acknowledged), "found": len(found), "forks": len(forks)}
    # Of a fork that was killed nothing is seen, or all: each has what the session had when it began.
    visible = SessionFolder(f"{os.path.dirname(path)}/forks").files()
    for fork in visible:
        entries = [entry["id"] for entry in SessionTree.open(fork).get_entries()]
        assert entries == found[: len(entries)], fork
        assert entries[:1] == ["begin"], fork
    summed_up = sum(entry.get("fromHook") is False for entry in tree.get_entries())
    return counts | {"visible_forks": len(visible), "compactions": summed_up}


def main() -> None:
    folder, seed, seconds, count, kills = sys.argv[1], *(int(given) for given in sys.argv[2:])
    tree = SessionTree.create("/project", folder, session_id="shared")
    tree.append_message(assistant("begin"), entry_id="begin")
    path = str(tree.get_session_file())
    writers = loop(path, random.Random(seed), time.monotonic() + seconds, count, bool(kills))
    print(json.dumps(verify(path, writers)))


if __name__ == "__main__":
    main()
