"""The canonical files of a simulated store, read by a few lines that share nothing with the code that wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from .seams import SimulatedMachine


@attrs.frozen
class FoundScope:
    """What the files of one scope say: its value, its revision, its newest position, and ``meta.json`` whole."""

    value: Mapping[str, Any]
    revision: int
    position: int
    meta: Mapping[str, Any]


def read_files(machine: SimulatedMachine, only: str | None = None) -> dict[str, FoundScope]:
    """All scopes by their folder below the store, ``""`` for the global one; or only one of them.

    Raises:
      ValueError: a file does not parse; the text names it.
    """
    contents = machine.disk.contents()
    found = {}
    for path in sorted(contents):
        folder, _, name = path.rpartition("/")
        if name != "checkpoint.json" or not folder.startswith(machine.root) or "/.strataflow" in folder:
            continue
        scope = folder.removeprefix(machine.root).lstrip("/")
        if only is not None and scope != only:
            continue
        value = _parsed(path, contents[path])
        patches = f"{folder}/patches.jsonl"
        for line in contents.get(patches, b"").split(b"\n"):
            if line:
                _merge(value, _parsed(patches, line))
        meta = _parsed(f"{folder}/meta.json", contents.get(f"{folder}/meta.json", b""))
        temporal = meta["temporal"]
        position = [temporal["checkpoint"], *temporal["patches"]][-1]["position"]
        found[scope] = FoundScope(value, temporal["revision"], position, meta)
    return found


def _parsed(path: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _merge(state: dict[str, Any], record: Mapping[str, Any]) -> None:
    for key, value in record.items():
        if value is None:
            state.pop(key, None)
        elif isinstance(value, dict):
            below = state.get(key)
            if not isinstance(below, dict):
                below = state[key] = {}
            _merge(below, value)
        else:
            state[key] = value
