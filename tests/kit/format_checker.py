"""Reads the canonical files of a store as the format describes them, as naively as possible, and checks every rule.

It shares no code with the product: what our writer leaves behind is judged by this reading of the format.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from kit.hand_stores import PRIVATE_FILES, SHARED_FILES, canonical
from kit.naive_model import naive_merge

Json = dict[str, Any]
PLANES = {"intents", "contract", "working", "artifacts", "lazy", "response"}
EVIDENCE = {"sourceFingerprint", "sourceHash", "compilerRevision", "compiledAt"}


def check_store(root: Path) -> dict[str, Json]:
    """The memory of every scope of a store, by its folder; an AssertionError names what breaks the format."""
    values = {"": check_scope(root)}
    for folder in sorted(root.glob("--*--")):
        if (folder / "checkpoint.json").exists():
            values[folder.name] = check_scope(folder, is_cwd=True)
        for session in sorted(folder.iterdir()):
            if session.is_dir():
                values[f"{folder.name}/{session.name}"] = check_session(session)
    return values


def text_of(path: Path) -> str:
    """A file's text, which must be canonical: sorted, without spaces, one line for one value."""
    text = path.read_bytes().decode()
    assert text == "".join(canonical(json.loads(line)) for line in text.splitlines()), path
    return text


def check_scope(folder: Path, *, is_cwd: bool = False) -> Json:
    """One scope's three files. Returns what they come to."""
    for name in SHARED_FILES:
        assert (folder / name).is_file(), folder / name
    value: Json = json.loads(text_of(folder / "checkpoint.json"))
    patches = [json.loads(line) for line in text_of(folder / "patches.jsonl").splitlines()]
    meta = json.loads(text_of(folder / "meta.json"))
    temporal = meta["temporal"]
    assert meta["version"] == 2, folder
    assert temporal.keys() == {"checkpoint", "patches", "revision"}
    assert len(patches) == len(temporal["patches"]) <= 100, folder
    assert temporal["revision"] >= len(patches)
    assert set(meta["owner"]) == {"cwd"} if is_cwd else True
    assert all(set(entry) <= EVIDENCE for entry in meta["artifacts"].values())
    check_chain([temporal["checkpoint"], *temporal["patches"]])
    for patch in (value, *patches):
        assert patch.keys() <= PLANES, folder
    for patch in patches:
        value = naive_merge(value, patch, indexes=False)
    assert "null" not in re.sub(r'"(\\.|[^"\\])*"', '""', json.dumps(value)), folder
    return value


def check_chain(chain: list[Json]) -> None:
    """Boundaries of one scope, oldest first."""
    assert len({boundary["id"] for boundary in chain}) == len(chain)
    for boundary in chain:
        assert boundary.keys() == {"id", "parent", "position"}
        assert boundary["parent"] != boundary["id"]
        assert boundary["position"] > 0 or boundary["parent"] is None
    for older, newer in pairwise(chain):
        assert newer["position"] > older["position"], chain
        assert newer["position"] > older["position"] + 1 or newer["parent"] == older["id"], chain


def check_session(folder: Path) -> Json:
    """One session's five files, and its lineage against the scopes it reads."""
    for name in PRIVATE_FILES:
        assert (folder / name).is_file(), folder / name
    value = check_scope(folder)
    assert json.loads(text_of(folder / "config.json"))["mode"] in ("active", "passive", "off")
    runtime = json.loads(text_of(folder / "runtime.json"))
    assert runtime.keys() - {"specification"} == {"bootstrap", "identity", "lineage", "step", "version"}
    lineage = runtime["lineage"]
    assert 1 <= len(lineage) <= 101
    for older, newer in pairwise(lineage):
        assert (newer["position"], newer["parent"]) == (older["position"] + 1, older["id"]), folder
    known = {boundary["position"]: boundary["id"] for boundary in lineage}
    temporal = json.loads((folder / "meta.json").read_bytes())["temporal"]
    assert temporal["checkpoint"]["position"] <= lineage[0]["position"], folder
    for boundary in temporal["patches"]:
        assert boundary["position"] <= lineage[-1]["position"], folder
        assert known.get(boundary["position"], boundary["id"]) == boundary["id"], folder
    changed = set()
    for place in (folder, folder.parent, folder.parent.parent):
        if (place / "meta.json").exists():
            found = json.loads((place / "meta.json").read_bytes())["temporal"]
            changed |= {boundary["id"] for boundary in (found["checkpoint"], *found["patches"])}
    assert {boundary["id"] for boundary in lineage[1:]} <= changed, folder
    return value
