"""Session trees for tests: messages, seams over a simulated disk, and what a file holds."""

from __future__ import annotations

import itertools
import json
import random
import uuid
from pathlib import Path
from typing import Any

from strataflow.runtime.simulation import SimulatedDisk, SimulatedLocks
from strataflow.store.trace import Entry, TraceSeams, TraceTree, TreeOptions, begin_tree, open_tree

CWD = "/project"
FOLDER = "/agent/sessions"
START_MS = 1_735_689_600_000
HEADER = '{"type":"session","version":3,"id":"s","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/project"}'


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": START_MS}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    known = {"role": "assistant", "content": content, "provider": "faux", "model": "faux-1", "stopReason": "stop"}
    return {**known, "timestamp": START_MS, **more}


def message_line(entry_id: str, parent: str | None, text: str = "x", role: str = "user", second: int = 0) -> str:
    base = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": f"2025-01-01T00:00:{second:02}.000Z"}
    return json.dumps({**base, "message": {"role": role, "content": text}}, separators=(",", ":"))


def session_file(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_text("".join(f"{line}\n" for line in (header, *lines)))
    return path


def objects(path: Path | str) -> list[dict[str, Any]]:
    """The objects of a file all of whose lines are ones, the header first."""
    data = Path(path).read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def simulated_seams(disk: SimulatedDisk, process: str = "one", locks: SimulatedLocks | None = None) -> TraceSeams:
    """A world of session trees on a simulated disk: time goes on by a second each look, ids follow from the process."""
    chance, clock = random.Random(process), itertools.count(START_MS, 1000)
    own = (SimulatedLocks(disk) if locks is None else locks).of(process)
    return TraceSeams(disk, disk, own, lambda: next(clock), lambda: str(uuid.UUID(int=chance.getrandbits(128))))


def simulated_tree(seams: TraceSeams, path: str = f"{FOLDER}/s.jsonl", **options: Any) -> TraceTree:
    """The tree of a path, new or from its file."""
    return open_tree(TraceTree, seams, path, TreeOptions(**options), default_cwd=CWD)


def tree_in_memory(process: str = "one") -> TraceTree:
    return begin_tree(TraceTree, simulated_seams(SimulatedDisk(), process), CWD, "", TreeOptions())


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """What each message says."""
    found = []
    for message in messages:
        content = message.get("content", message.get("summary"))
        found.append(content if isinstance(content, str) else content[0]["text"])
    return found


def ids(entries: list[Entry]) -> list[str]:
    return [entry["id"] for entry in entries]
