"""Sessions that own a tree, for tests: real runtimes on a folder, and what their session files hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kit.session_trees import objects
from strataflow import OwnedTree, Runtime, Session, open_runtime


@asynccontextmanager
async def opened(root: Path, **options: Any) -> AsyncIterator[Runtime]:
    async with open_runtime(str(root), **{"durability": "process", **options}) as runtime:
        yield runtime


def tree_of(session: Session) -> OwnedTree:
    assert session.tree is not None
    return session.tree


def file_of(session: Session) -> str:
    path = tree_of(session).get_session_file()
    assert path is not None
    return path


def notes_in(path: str) -> list[Any]:
    """What memory has noted in a session file, oldest first."""
    return [entry["data"] for entry in objects(path) if entry.get("customType", "").startswith("state-flow")]
