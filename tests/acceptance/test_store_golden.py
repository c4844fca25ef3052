"""Small stores written by hand, one for each feature of the format: each opens, reads as it should, and can be written.

A folder of ``tests/store/golden`` is a store; the file beside it says what it holds, by sessions' eyes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.format_checker import check_store
from kit.hand_stores import HandStore
from kit.holds import holds
from kit.runtimes import refused, session_of, value, values

GOLDEN = Path(__file__).parents[1] / "store/golden"
NAMES = sorted(path.name for path in GOLDEN.iterdir() if (GOLDEN / f"{path.name}.expected.json").exists())
Json = dict[str, Any]


def copied(name: str, root: Path) -> tuple[HandStore, Json]:
    """A copy of a golden store that a test may change, and what is expected of it."""
    expected: Json = json.loads((GOLDEN / f"{name}.expected.json").read_text(encoding="utf-8"))
    shutil.copytree(GOLDEN / name, root)
    folder = next(path for path in root.glob("--*--/*") if path.is_dir())
    return HandStore(root, expected["cwd"], folder.name), expected


@holds("store 1.4.3-1.4.8", "store 1.5.1", "store 1.5.3", "store 1.5.6", "store 1.5.7", "store 1.6.2", "store 1.7.2")
@holds("store 1.7.4", "store 1.8", "store 1.3.5", "store 1.10", "case store 25", "case store 11", "case store 13")
@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_store_reads_as_expected_and_stays_as_it_is(tmp_path: Path, name: str) -> None:
    store, expected = copied(name, tmp_path / "state-flow")
    before = store.bytes()
    async with session_of(store.root, expected["session"], cwd=store.cwd, mode=None) as session:
        status = await session.status()
        assert {key: status[key] for key in ("mode", "step", "revision")} == {
            key: expected[key] for key in ("mode", "step", "revision")
        }
        assert status["history_depth"] == len(expected["history"]) - 1
        assert await value(session, "effective") == expected["effective"]
        assert await values(session, "global", "cwd", "session") == list(expected["scopes"].values())
        for offset, state in enumerate(expected["history"]):
            assert await value(session, f"effective[{offset}]") == state
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state(f"effective[{len(expected['history'])}]")
    assert store.bytes() == before


@holds("store 1.3.1", "store 1.4.6", "store 1.5.3", "store 1.5.7", "store 1.5.8", "store 1.7.4", "store 1.9.5")
@holds("case store 12", "case store 20", "case store 23", "store 2.2.2")
@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_store_is_written_by_the_rules_of_the_format(tmp_path: Path, name: str) -> None:
    store, expected = copied(name, tmp_path / "state-flow")
    mark = {"working": {"golden": name}}
    async with session_of(store.root, expected["session"], cwd=store.cwd, mode=expected["mode"]) as session:
        receipt = await session.patch_state(global_=mark, cwd=mark, session=mark)
        assert receipt.step == expected["step"] + 1
        numbers = [int(text) + 1 for text in expected["revision"].replace("c", "g").replace("s", "g").split("g")[1:]]
        assert receipt.revision == "g{}c{}s{}".format(*numbers)
        seen = await values(session, "global", "cwd", "session", "effective[1]")
        assert seen.pop() == expected["effective"]
    found = check_store(store.root)
    session_folder = f"{store.folder('cwd').name}/{store.session}"
    for folder, scope in (("", seen[0]), (store.folder("cwd").name, seen[1]), (session_folder, seen[2])):
        assert found[folder]["working"]["golden"] == name
        shown = {plane: content for plane, content in found[folder].items() if plane != "lazy" and content != ""}
        assert without_runtime_members(shown) == scope
    run = store.get("session", "runtime.json")
    assert {key: run.get(key) for key in expected.get("run", {})} == expected.get("run", {})
    for path, members in expected.get("keeps", {}).items():
        meta = json.loads((store.root / path).read_bytes())
        assert {key: meta.get(key) for key in members} == members
    if "evidence" in expected:
        assert store.get("cwd", "meta.json")["artifacts"] == expected["evidence"]


def without_runtime_members(value: Json) -> Json:
    """A scope whose cards are as readers see them."""
    hidden = {"hash", "compiler", "compiled_at"}
    cards = {
        path: {key: item for key, item in card.items() if key not in hidden}
        for path, card in value.get("artifacts", {}).items()
    }
    return {**value, "artifacts": cards} if cards else value


def test_there_is_a_golden_store_for_each_feature() -> None:
    assert len(NAMES) >= 20
    assert all((GOLDEN / name).is_dir() for name in NAMES)
