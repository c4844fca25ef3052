"""Stores written by hand, as the format says they look, so that tests do not trust our own writer.

``HandStore(root)`` describes one session of ``/project``. Each scope is given by the states of its stream; ``write``
makes the canonical files, and single files can then be replaced by whatever a test wants to find there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

Json = dict[str, Any]
CWD = "/project"
SESSION = "s1"
SHARED_FILES = ("checkpoint.json", "patches.jsonl", "meta.json")
PRIVATE_FILES = (*SHARED_FILES, "config.json", "runtime.json")
ORIGIN: Json = {"id": "patch:origin", "parent": None, "position": 1}
EMPTY: Json = {"id": "patch:origin:empty", "parent": None, "position": 0}


def canonical(value: object) -> str:
    """One line of canonical JSON text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def boundary(position: int, parent: str | None = None) -> Json:
    """The boundary ``T<position>``. Its parent is the one before it, unless one is given."""
    before = ORIGIN["id"] if position == 2 else f"T{position - 1}"
    return {"id": f"T{position}", "parent": parent or before, "position": position}


def key_of(cwd: str) -> str:
    """The folder of a plain working directory."""
    return "--" + cwd.removeprefix("/").replace("/", "-") + "--"


@attrs.define
class HandStore:
    """A store in the folder ``root``, made when something is written into it."""

    root: Path
    cwd: str = CWD
    session: str = SESSION

    def folder(self, scope: str) -> Path:
        """The folder of ``global``, ``cwd`` or ``session``."""
        shared = self.root / key_of(self.cwd)
        return {"global": self.root, "cwd": shared, "session": shared / self.session}[scope]

    def path(self, scope: str, name: str) -> Path:
        """One file of a scope."""
        return self.folder(scope) / name

    def put(self, scope: str, name: str, content: object) -> Path:
        """Write one file: text and bytes as they are, anything else as canonical JSON."""
        path = self.path(scope, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_bytes((content if isinstance(content, str) else canonical(content)).encode())
        return path

    def edit(self, scope: str, name: str, **members: object) -> None:
        """Replace members of a JSON file."""
        document = json.loads(self.path(scope, name).read_bytes())
        self.put(scope, name, {**document, **members})

    def get(self, scope: str, name: str) -> Any:
        """The JSON value of one file, or the list of values of ``patches.jsonl``."""
        text = self.path(scope, name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()] if name == "patches.jsonl" else json.loads(text)

    def write_scope(
        self,
        scope: str,
        checkpoint: Json | None = None,
        tail: Sequence[tuple[int, Json]] = (),
        *,
        revision: int | None = None,
        at: Json = EMPTY,
        **meta: object,
    ) -> None:
        """Write checkpoint, patches and meta. ``tail`` pairs each patch with its position."""
        temporal: Json = {"checkpoint": at, "patches": [boundary(position) for position, _ in tail]}
        temporal["revision"] = len(tail) if revision is None else revision
        document: Json = {"version": 2, "artifacts": {}, "temporal": temporal, **meta}
        if scope == "cwd":
            document.setdefault("owner", {"cwd": self.cwd})
        self.put(scope, "checkpoint.json", checkpoint or {})
        self.put(scope, "patches.jsonl", "".join(canonical(patch) for _, patch in tail))
        self.put(scope, "meta.json", document)

    def write_run(self, positions: Sequence[int] = (), mode: str = "active", **members: object) -> None:
        """Write config and runtime. ``positions`` are those of the lineage after the origin."""
        document: Json = {
            "version": 1,
            "identity": {"cwd": self.cwd, "sessionId": self.session},
            "lineage": [ORIGIN, *(boundary(position) for position in positions)],
            "step": len(positions),
            "bootstrap": False,
            **members,
        }
        self.put("session", "config.json", {"mode": mode})
        self.put("session", "runtime.json", document)

    def write(self, global_: Json | None = None, cwd: Json | None = None, session: Json | None = None) -> HandStore:
        """A whole store: each scope holds its value in the checkpoint, and the session has only its origin."""
        for scope, value in (("global", global_), ("cwd", cwd), ("session", session)):
            self.write_scope(scope, value)
        self.write_run()
        return self

    def bytes(self) -> dict[str, bytes]:
        """Every canonical file by its path below the store."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".strataflow" not in path.parts and path.name != ".state-flow-publication.lock"
        }

    def private_bytes(self) -> dict[str, bytes]:
        """The session's files."""
        folder = self.folder("session")
        return {name: (folder / name).read_bytes() for name in PRIVATE_FILES if (folder / name).exists()}


def write_example(root: Path) -> HandStore:
    """The worked example of the format: one patch and one answer of an active session of ``/srv/app/demo``."""
    store = HandStore(root, "/srv/app/demo", "2026-03-05T10-20-30-400Z_demo")
    origin = "patch:7b0e3d1c-52aa-4f0b-8a4e-0d6a9f1c2b34"
    empty = {"id": f"{origin}:empty", "parent": None, "position": 0}
    first = {"id": "c2d4a9f0-11b7-4c5e-9d3a-6e8f7a605142", "parent": origin, "position": 2}
    second = {"id": "5b7e0c11-0f7f-4a55-9f37-4f0cf2a1b0de", "parent": first["id"], "position": 3}
    tails: dict[str, list[tuple[Json, Json]]] = {
        "global": [],
        "cwd": [(first, {"working": {"build": "green"}})],
        "session": [(first, {"intents": {"ship": "publish 1.2"}}), (second, {"response": "Done."})],
    }
    for scope, tail in tails.items():
        store.write_scope(scope, at=empty)
        store.put(scope, "patches.jsonl", "".join(canonical(patch) for _, patch in tail))
        temporal = {"checkpoint": empty, "patches": [where for where, _ in tail], "revision": len(tail)}
        store.edit(scope, "meta.json", temporal=temporal)
    lineage = [{"id": origin, "parent": None, "position": 1}, first, second]
    store.write_run()
    store.edit("session", "runtime.json", identity={"cwd": store.cwd, "sessionId": "demo"}, lineage=lineage, step=2)
    return store
