"""Real processes that append to one session's tree and are killed with SIGKILL, again and again. Run as a program::

    python tests/kit/tree_kill_loop.py AGENT_DIR SEED SECONDS

Each opens a runtime and the same session with its tree, some of them in runs, some idle, and tells through a pipe what
it begins and what was acknowledged. At the end the file is held against all that was told; the last line is a JSON
object with the counts, or the program fails.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

import trio
from kill_loop import Program, Writer, loop

from strataflow import SessionTree, open_runtime
from strataflow.runtime import Durability, Mode

CWD = "/project"


async def write(agent_dir: str, name: str, pipe: int, count: int, durability: Durability, mode: Mode) -> None:
    """What a writer does until it has appended ``count`` times or is killed."""
    async with open_runtime(agent_dir, durability=durability) as runtime:
        session = await runtime.open_session(CWD, "main", mode, tree=True)
        tree = session.tree
        assert tree is not None
        for start in range(0, count, 5):
            async with session.run(f"{name} from {start}"):
                for number in range(start, min(start + 5, count)):
                    os.write(pipe, b"b %d\n" % number)
                    message = {"role": "assistant", "content": f"{name} {number}", "timestamp": number}
                    await tree.append_message(message, entry_id=f"{name}-{number}")
                    os.write(pipe, b"a %d\n" % number)


def program(agent_dir: str, name: str, chance: random.Random) -> Program:
    durability: Durability = chance.choice(["power", "process"])
    mode: Mode = chance.choice(["off", "passive"])
    return lambda pipe, count: trio.run(write, agent_dir, name, pipe, count, durability, mode)


def verify(agent_dir: str, writers: list[Writer]) -> dict[str, Any]:
    """Every acknowledged entry is in the one file, once; its parent exists; nothing is there that was not begun."""
    (path,) = [found.path for found in SessionTree.list_all(agent_dir=agent_dir)]
    tree = SessionTree.open(path)
    assert tree.get_session_id() == "main"
    entries = tree.get_entries()
    ids = [entry["id"] for entry in entries]
    assert len(ids) == len(set(ids)), "an entry is there twice"
    assert all(entry["parentId"] is None or entry["parentId"] in set(ids) for entry in entries), "orphans"
    said = {entry["id"] for entry in entries if entry["type"] == "message"}
    acknowledged = {f"{writer.name}-{number}" for writer in writers for number in writer.acknowledged}
    begun = {f"{writer.name}-{number}" for writer in writers for number in writer.begun}
    assert acknowledged <= said, f"lost: {sorted(acknowledged - said)[:20]}"
    assert said <= begun, f"nobody said: {sorted(said - begun)[:20]}"
    # Within a run each entry follows the run's own last one, whatever the others did.
    parents = {entry["id"]: entry["parentId"] for entry in entries}
    for name, _, number in (entry_id.rpartition("-") for entry_id in said):
        if int(number) % 5:
            assert parents[f"{name}-{number}"] == f"{name}-{int(number) - 1}", f"{name}-{number}"
    return {"writers": len(writers), "acknowledged": len(acknowledged), "begun": len(begun), "entries": len(entries)}


def main(agent_dir: str, seed: int, seconds: float) -> None:
    chance = random.Random(seed)
    writers = loop(lambda name: program(agent_dir, name, chance), chance, time.monotonic() + seconds)
    print(json.dumps(verify(agent_dir, writers)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
