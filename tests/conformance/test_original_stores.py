"""Stores that the original program wrote: read as they are, and still its own after we wrote to them (store 1)."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.stores import OpenedStore, all_bytes, reader_of
from strataflow.store import Layout, RealDisk, ScopeState, overlay, read
from strataflow.store.reader import StoreLook
from strataflow.store.scope_files import DecodedScope, check_lineage_covered, decode_scope, read_scope
from strataflow.store.status import status_of

STORES = Path(__file__).parent / "stores"
NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORES / name, tmp_path / "state-flow"))


@pytest.fixture
def expected(name: str) -> Any:
    return json.loads((STORES / f"{name}.expected.json").read_text())


def at_every_offset(look: StoreLook) -> list[Any]:
    """The effective values from the present back, ``lazy`` included."""
    return [
        overlay(*(state.value_at(boundary.position) for state in look.states()))
        for boundary in reversed(look.boundaries())
    ]


@holds("store 1.4.5", "store 1.7.2", "store 3.6.4")
def test_a_reader_sees_exactly_what_the_original_program_saw(root: Path, expected: Any, tmp_path: Path) -> None:
    before = all_bytes(root)
    reader = reader_of(root, tmp_path / "scratch")
    look = reader.look(expected["cwd"], expected["sessionId"], expected["historyLimit"])
    assert not look.errors
    assert look.address is not None
    assert look.address.key == expected["sessionKey"]
    assert at_every_offset(look) == expected["history"]
    values = {
        name: image.state.value for name, image in zip(expected["scopes"], look.images, strict=True) if image.state
    }
    assert values == expected["scopes"]
    status = status_of(look)
    assert status.run is not None
    assert (status.run.mode, status.run.step) == (expected["mode"], expected["step"])
    assert (status.run.specification, status.revision) == (expected["specification"], expected["revision"])
    assert (status.depth, status.effective) == (expected["depth"], expected["effective"])
    for offset, value in enumerate(expected["history"]):
        found = read(look.view(), {"path": f"effective[{offset}]"}).value
        assert found == {plane: content for plane, content in value.items() if plane != "lazy"}
    assert all_bytes(root) == before


def decoded(root: Path, expected: Any) -> tuple[DecodedScope, DecodedScope, DecodedScope]:
    disk, layout = RealDisk(), Layout(str(root))
    cwd, session = expected["cwd"], expected["sessionId"]
    scopes = [
        decode_scope(layout, read_scope(disk, layout, ""), cwd=None),
        decode_scope(layout, read_scope(disk, layout, "--project--"), cwd=cwd),
        decode_scope(
            layout, read_scope(disk, layout, f"--project--/{expected['sessionKey']}"), cwd=cwd, session_id=session
        ),
    ]
    assert scopes[0] is not None
    assert scopes[1] is not None
    assert scopes[2] is not None
    return scopes[0], scopes[1], scopes[2]


def check_rules_of_the_original(scopes: tuple[DecodedScope, DecodedScope, DecodedScope], limit: int) -> None:
    """Store 1.5.4, 1.7.2 and 3.6.9, on top of what decoding itself proves."""
    states: dict[str, ScopeState] = {str(number): scope.state for number, scope in enumerate(scopes)}
    session = scopes[2].session
    assert session is not None
    lineage = session.lineage
    assert 1 <= len(lineage) <= limit + 1
    for older, newer in pairwise(lineage):
        assert newer.position == older.position + 1
        assert newer.parent == older.id
    check_lineage_covered("lineage", lineage, states)
    head = lineage[-1]
    ids: dict[int, str] = {boundary.position: boundary.id for boundary in lineage}
    for state in states.values():
        assert state.base_boundary.position <= lineage[0].position
        assert len(state.tail) <= 100
        for record in state.tail:
            assert record.boundary.position <= head.position
            assert ids.setdefault(record.boundary.position, record.boundary.id) == record.boundary.id


@holds("store 1.3.1", "store 1.5.4", "store 1.7.2", "store 3.6.9")
def test_after_a_patch_of_ours_the_files_are_what_the_original_program_accepts(
    name: str, root: Path, expected: Any, tmp_path: Path
) -> None:
    limit = expected["historyLimit"]
    check_rules_of_the_original(decoded(root, expected), limit)
    with OpenedStore.open(root, session_id=expected["sessionId"], history_limit=limit) as store:
        receipt = store.patch(cwd={"contract": {"ours": True}}, session={"intents": {"next": "step"}})
        assert receipt.step == expected["step"] + 1
    scopes = decoded(root, expected)
    check_rules_of_the_original(scopes, limit)
    assert scopes[2].session is not None
    assert scopes[2].session.run.step == expected["step"] + 1
    assert scopes[2].session.run.mode == expected["mode"]
    assert scopes[2].session.run.specification == expected["specification"]
    assert not (root / ".state-flow-publication.lock").exists()
    # Every private file of ours is gone or ignored; the original's own names are all there.
    assert {path for path in all_bytes(root) if not path.startswith(".strataflow/")} == set(all_bytes(STORES / name))
    # History goes on across the two programs.
    look = reader_of(root, tmp_path / "scratch").look(expected["cwd"], expected["sessionId"], limit)
    assert at_every_offset(look)[1:] == expected["history"][:limit]


@holds("store 1.3.5", "store 2.2.3")
def test_opening_and_closing_without_a_change_leaves_the_files_alone(root: Path, expected: Any) -> None:
    before = all_bytes(root)
    OpenedStore.open(root, session_id=expected["sessionId"], history_limit=expected["historyLimit"]).close()
    after = {path: data for path, data in all_bytes(root).items() if not path.startswith(".strataflow/")}
    assert after == before


def test_without_the_journal_a_reader_sees_what_it_saw_with_it(root: Path, expected: Any, tmp_path: Path) -> None:
    limit = expected["historyLimit"]
    with OpenedStore.open(root, session_id=expected["sessionId"], history_limit=limit) as store:
        store.patch(cwd={"contract": {"ours": True}})
        store.respond("An answer.")
    scratch = tmp_path / "scratch"
    found = at_every_offset(reader_of(root, scratch).look(expected["cwd"], expected["sessionId"], limit))
    shutil.rmtree(root / ".strataflow")
    again = at_every_offset(reader_of(root, scratch).look(expected["cwd"], expected["sessionId"], limit))
    assert again == found
