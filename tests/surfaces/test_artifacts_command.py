"""``strataflow artifacts`` and ``strataflow skills``: what they print, and that they leave everything as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.holds import holds
from kit.runtimes import opened
from strataflow.runtime import inspect_store
from strataflow.runtime.surfaces.artifacts_command import _line
from strataflow.runtime.surfaces.cli import main

MESSAGE = {"role": "user", "content": "go", "timestamp": 1}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a current card, a stale one, one of a source that is gone, and a Skill's."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("current", "stale", "gone", "skill"):
        (work / name).write_text(name)
    cards: dict[str, Any] = {
        str(work / name): {"description": f"about {name}", "tags": ["all", name]} for name in ("current", "stale")
    }
    trio.run(_fill, tmp_path, work, cards)
    (work / "stale").write_text("longer than it was")
    (work / "gone").unlink()
    return tmp_path


async def _fill(tmp_path: Path, work: Path, cards: dict[str, Any]) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session(str(work), "main", "active")
        await session.patch_state(cwd={"artifacts": cards})
        async with session.run("go") as run:
            await run.project([MESSAGE])
            for path in cards:
                await run.note_read(path, path)
                await run.note_read(path, path)
            await session.patch_state(cwd={"artifacts": cards})
        more = {str(work / "gone"): {"description": "about gone"}}
        skill = {str(work / "skill"): {"description": "a skill", "kind": "skill", "compilation": {"x": 1}}}
        await session.patch_state(global_={"artifacts": skill}, session={"artifacts": more})


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@holds("A11", "A17", "L38")
def test_the_cards_are_listed_with_their_freshness_and_nothing_changes(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(store)
    place = ["--store", str(store / "state-flow"), "--cwd", str(store / "work")]
    assert main(["artifacts", *place, "--json"]) == 0
    found = {os.path.basename(card["path"]): card for card in json.loads(capsys.readouterr().out)}
    assert {name: (card["scope"], card["freshness"]) for name, card in found.items()} == {
        "current": ("cwd", "current"),
        "stale": ("cwd", "source-changed"),
        "gone": ("session", "missing"),
        "skill": ("global", "skill"),
    }
    assert main(["artifacts", *place]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" — ")[1].split(":")[0] for line in lines] == [
        "current [all current]",
        "missing",
        "skill",
        "source-changed [all stale]",
    ]
    assert files(store) == before


@holds("A17", "case agent 157")
def test_cards_are_selected_by_tags(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--store", str(store / "state-flow"), "--cwd", str(store / "work"), "--json"]
    for select, count in (
        (["all"], 2),
        (["all", "stale"], 1),
        (["current", "stale"], 0),
        (["current", "stale", "--any"], 2),
    ):
        assert main(["artifacts", *place, "--select", *select]) == 0
        assert len(json.loads(capsys.readouterr().out)) == count, select
    assert main(["artifacts", *place, "--select", " "]) == 1
    with pytest.raises(SystemExit) as caught:
        main(["artifacts", *place, "--select"])
    assert caught.value.code == 2


def test_a_store_that_does_not_exist_has_no_cards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["artifacts", "--store", str(tmp_path / "none"), "--cwd", "/work"]) == 0
    assert capsys.readouterr().out == "no cards\n"
    assert not (tmp_path / "none").exists()


async def test_a_text_of_a_card_can_neither_fake_a_line_nor_command_the_terminal(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session(str(tmp_path), "main", "active")
        card = {"description": "a\x1b[2Jb", "tags": ["t\x07"]}
        await session.patch_state(session={"artifacts": {"/x\n- [global] /y": card}})
    inspector = inspect_store(store=str(tmp_path / "state-flow"))
    (found,) = inspector.artifacts(str(tmp_path), "main")
    assert _line(found) == "- [session] /x\\n- [global] /y — missing [t\\x07]: a\\x1b[2Jb"


@holds("A38")
def test_the_packaged_skills_are_listed_with_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skills", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [skill["name"] for skill in found] == ["state-flow-guide", "state-flow-memory"]
    assert all(Path(skill["path"]).is_file() for skill in found)
    assert main(["skills"]) == 0
    assert "state-flow-guide" in capsys.readouterr().out
