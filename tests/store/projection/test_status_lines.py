"""The status of a session as a person reads it, from data alone (L35 to L37, cases 159 and 160)."""

from __future__ import annotations

from typing import Any

import attrs

from kit.holds import holds
from kit.pure_views import scope
from strataflow.store.algebra import ScopeName, StoreError
from strataflow.store.status import ScopeMemory, Status, plane_sizes

EMPTY = Status(
    root="/s",
    cwd="/project",
    session_id="main",
    session_key="main",
    run=None,
    revision="g1c0s0",
    depth=0,
    history_limit=7,
    scopes={},
    errors={},
    effective={},
    rows_unwritten=0,
)


def memory(value: dict[str, Any]) -> ScopeMemory:
    return ScopeMemory(plane_sizes(scope(value)), {}, 0)


@holds("L35", "L36", "case agent 159")
def test_sizes_are_bytes_of_the_compact_json_of_each_plane() -> None:
    scopes: dict[ScopeName, ScopeMemory] = {
        "global": memory({"contract": {"shared": True}}),
        "cwd": memory({"working": {"é": "ü"}, "contract": {}}),
        "session": memory({}),
    }
    lines = attrs.evolve(EMPTY, scopes=scopes).lines()
    assert "- global: contract 15 B" in lines
    assert "- cwd: working 11 B" in lines
    assert not any(line.startswith("- session") for line in lines)


@holds("L35", "case agent 160")
def test_an_unavailable_memory_shows_no_revisions_and_no_scopes() -> None:
    error = StoreError("E_CORRUPT", "session/checkpoint.json is\ndamaged")
    scopes: dict[ScopeName, ScopeMemory] = {"global": memory({"contract": {"shared": True}})}
    status = attrs.evolve(EMPTY, scopes=scopes, errors={"session": error}, effective=None)
    lines = status.lines()
    assert not any(line.startswith(("Scope revisions", "Scope memory", "- ")) for line in lines)
    assert "Hot history: unavailable; configured maximum depth 7" in lines
    assert "Temporal materialization unavailable: E_CORRUPT: session/checkpoint.json is damaged" in lines
    assert lines[-1] == "Effective memory: unavailable"
