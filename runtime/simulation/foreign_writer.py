"""A stranger who knows the files of a store but not its locks and journal: it replaces the memory of one scope.

It does what a program would that has read the files and writes its own state by renaming whole files: a new checkpoint
without patches, at a boundary ahead of the one it found. While a checkpoint of ours is half-way through its renames it
waits: a mixture of the two would be unreadable, which the store answers by blocking that scope.
"""

from __future__ import annotations

import json
import random
from typing import Any

from .canonical_files import read_files
from .history import Call
from .recorder import Recorder
from .seams import SimulatedMachine

STRANGER = "stranger"


def find_victim(machine: SimulatedMachine, detail: str) -> str | None:
    """The scope that a stranger writes now; None if there is none in the files, or a checkpoint is under way."""
    if machine.journals.has_prepared():
        return None
    scopes = [*read_files(machine)]
    return random.Random(f"foreign {detail}").choice(scopes) if scopes else None


def write_foreign(machine: SimulatedMachine, recorder: Recorder, detail: str) -> None:
    """Replace a scope, and note it in the history."""
    scope = find_victim(machine, detail)
    assert scope is not None
    chance = random.Random(f"foreign value {detail}")
    found = read_files(machine)[scope]
    value = {**found.value, "working": {**found.value.get("working", {}), "theirs": chance.randrange(1000)}}
    boundary = {"id": f"stranger {chance.getrandbits(32)}", "parent": None, "position": found.position + 1000}
    meta = {
        **found.meta,
        "artifacts": {},
        "temporal": {"checkpoint": boundary, "patches": [], "revision": found.revision + 1},
    }
    files = {"checkpoint.json": _line(value), "patches.jsonl": b"", "meta.json": _line(meta)}
    folder = f"{machine.root}/{scope}".rstrip("/")
    owner = {"cwd": found.meta.get("owner", {}).get("cwd", ""), "sessionId": ""}
    if "/" in scope:  # a session's run record names its newest change
        record = json.loads(machine.disk.contents()[f"{folder}/runtime.json"])
        files["runtime.json"] = _line({**record, "lineage": [boundary]})
        owner = record["identity"]
    hook, machine.disk.before_operation = machine.disk.before_operation, None
    for name, content in files.items():
        machine.disk.unlink(f"{folder}/{name}")
        machine.disk.plant(f"{folder}/{name}", "file", content)
    machine.disk.before_operation = hook
    name = "session" if "/" in scope else "cwd" if scope else "global"
    number = len(recorder.history.calls) + 1
    call = Call(
        number, STRANGER, owner["cwd"], owner["sessionId"], "foreign", recorder.moment_s(), patches={name: value}
    )
    call.ending, call.ended_s = "ok", recorder.moment_s()
    recorder.history.calls.append(call)
    recorder.trace.note(STRANGER, f"call {call.to_json()}")


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"
