"""A stranger who knows the files of a store but not its locks and journal: it replaces the memory of one scope.

It does what a program would that has read the files and writes its own state by renaming whole files: a new checkpoint
without patches, at a boundary ahead of the one it found. While a checkpoint of ours is half-way through its renames it
waits: a mixture of the two would be unreadable, which the store answers by blocking that scope.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from .canonical_files import read_files
from .history import Call

if TYPE_CHECKING:
    from .world import World

STRANGER = "stranger"


def write_foreign(world: World, chance: random.Random) -> None:
    """Replace one scope that is in the files; none if there is none, or if a checkpoint is under way."""
    machine = world.machine
    if machine.journals.has_prepared():
        return
    scopes = [scope for scope in read_files(machine) if "/" not in scope]
    if not scopes:
        return
    scope = chance.choice(scopes)
    found = read_files(machine)[scope]
    value = {"working": {**dict(found.value.get("working", {})), "theirs": chance.randrange(1000)}}
    boundary = {"id": f"stranger {chance.getrandbits(32)}", "parent": None, "position": found.position + 1000}
    meta = {
        **found.meta,
        "artifacts": {},
        "temporal": {"checkpoint": boundary, "patches": [], "revision": found.revision + 1},
    }
    folder = f"{machine.root}/{scope}".rstrip("/")
    hook, machine.disk.before_operation = machine.disk.before_operation, None
    for name, content in (
        ("checkpoint.json", _line(value)),
        ("patches.jsonl", b""),
        ("meta.json", _line(meta)),
    ):
        machine.disk.unlink(f"{folder}/{name}")
        machine.disk.plant(f"{folder}/{name}", "file", content)
    machine.disk.before_operation = hook
    now = world.recorder.moment_s()
    number = len(world.history.calls) + 1
    name = "cwd" if scope else "global"
    owner = found.meta.get("owner", {}).get("cwd", "")
    call = Call(number, STRANGER, owner, "", "foreign", now, {name: value}, ending="ok")
    call.ended_s = world.recorder.moment_s()
    world.history.calls.append(call)
    world.trace.note(STRANGER, f"call {call.to_json()}")


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"
