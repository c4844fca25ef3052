"""The status of a session: its data and its lines (L35 to L38)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.stores import OpenedStore, reader_of
from strataflow.store.status import Status, status_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state-flow"


def status(root: Path, session_id: str | None = "main", limit: int = 7) -> Status:
    found = status_of(reader_of(root, root.parent / "scratch").look("/project", session_id, limit))
    assert json.loads(json.dumps(found.to_json()))["revision"] == found.revision
    return found


def test_the_lines_come_in_their_order_with_sizes_and_owned_shares(root: Path) -> None:
    with OpenedStore.open(root) as store:
        store.set_mode("active")
        store.patch(
            cwd={
                "intents": {"ship": {"notes": {"$ref": "cwd.working.a.b"}, "plan": {"$ref": "cwd.lazy.plan"}}},
                "working": {"a": {"b": 1}, "é": 2},
                "lazy": {"plan": "x"},
            }
        )
        store.respond("Done.")
        lines = status(root).lines()
    assert lines[: lines.index("Effective memory:")] == [
        "Mode: active",
        f"Repository: {root}",
        "Scope keys: CWD --project--; session main",
        "Scope revisions: g0c1s1",
        "Runtime metadata: step #2",
        "Hot history: offsets 0..2; maximum depth 7",
        "Journal: 3 changes are not in the canonical files yet",
        "Scope memory:",
        "- cwd: intents 77 B, working 20 B, lazy 12 B; intent-owned working 1/2, lazy 1/1",
        "- session: response 7 B",
    ]


def test_effective_memory_is_indented_with_a_blank_line_between_planes(root: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(global_={"contract": {"c": 1}}, session={"lazy": {"z": [2]}})
    lines = status(root).lines()
    assert lines[lines.index("Effective memory:") :] == [
        "Effective memory:",
        "",
        "{",
        '  "contract": {',
        '    "c": 1',
        "  },",
        "",
        '  "lazy": {',
        '    "z": [',
        "      2",
        "    ]",
        "  }",
        "}",
    ]


def test_a_store_that_does_not_exist_has_an_empty_status(root: Path) -> None:
    found = status(root)
    assert (found.run, found.revision, found.depth, found.effective) == (None, "g0c0s0", 0, {})
    assert found.lines()[-1] == "{}"
    assert not root.exists()


def test_a_directory_without_a_session_has_a_status_of_its_own(root: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}}, session={"working": {"s": 1}})
    found = status(root, None)
    assert (found.session_id, found.session_key, found.effective) == (None, None, {"working": {"n": 1}})
    assert "Scope keys: CWD --project--; session none" in found.lines()


def test_an_unreadable_scope_blocks_and_the_others_are_still_told(root: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}}, session={"working": {"s": 1}})
    (root / "--project--" / "main" / "config.json").write_bytes(b"{}")
    found = status(root)
    lines = found.lines()
    assert set(found.errors) == {"session"}
    assert [line.partition(":")[0] for line in lines if "E_CORRUPT" in line] == [
        "Blocked",
        "Temporal materialization unavailable",
    ]
    assert "Hot history: unavailable; configured maximum depth 7" in lines
    assert lines[-1] == "Effective memory: unavailable"
    assert "cwd" in found.scopes


def test_artifacts_are_counted_by_their_scope(root: Path) -> None:
    card = {"description": "a page", "tags": ["docs"]}
    with OpenedStore.open(root) as store:
        store.patch(cwd={"artifacts": {"/project/a.md": card, "/project/b.md": card}})
    assert "Artifacts: global 0; CWD 2; session 0" in status(root).lines()


def test_a_smaller_limit_narrows_only_the_view_of_who_asks(root: Path) -> None:
    with OpenedStore.open(root) as store:
        for number in range(5):
            store.patch(session={"working": {"n": number}})
    assert (status(root).depth, status(root, limit=2).depth, status(root).depth) == (5, 2, 5)
