"""The diagnostics log: what is recorded, what never is, and that its own troubles change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import refused
from strataflow.runtime import Runtime, open_runtime
from strataflow.runtime.diagnostics import reduced_content

CALLS = [{"id": "1", "name": "bash"}, {"id": "2", "name": "patch_state"}]


def opened(folder: Path, *, logging: bool = True) -> Any:
    store = folder / "state-flow"
    store.mkdir(parents=True, exist_ok=True)
    (store / "config.json").write_text(json.dumps({"logging": logging}))
    return open_runtime(str(folder), durability="process")


def records(folder: Path) -> list[Any]:
    path = folder / "logs" / "strataflow.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def trouble(runtime: Runtime) -> None:
    """One of each kind."""
    session = await runtime.open_session(CWD, "main", "active")
    with refused("E_FIELD"):
        await session.call("patch_state", {"wrong": {"a": 1}}, call_id="c7")
    with refused("E_JSON"):
        await session.patch_state(session={"working": {"a": {1}}})
    await session.patch_state(session={"working": {"fine": 1}})
    async with session.run("go") as run:
        await run.project([])
        run.preflight(CALLS)
        content = [{"type": "thinking", "thinking": "secret"}, {"type": "text", "text": "cut"}]
        await run.settle({"role": "assistant", "content": content, "stopReason": "length"})


@holds("store 4.3.1-4.3.6", "case store 132", "case store 134", "L16", "case agent 130", "Ours-10", "T11", "L18")
async def test_refusals_blocks_and_cut_answers_are_recorded_with_what_was_given(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await trouble(runtime)
    found = records(tmp_path)
    assert [record["category"] for record in found] == [
        "invalid-patch",
        "invalid-patch",
        "barrier-block",
        "finalization",
    ]
    first, _, block, final = found
    assert first["input"] == {"wrong": {"a": 1}}
    assert (first["tool"], first["toolCallId"], first["sessionId"], first["cwd"]) == ("patch_state", "c7", "main", CWD)
    assert first["at"].endswith("Z")
    assert (block["tool"], block["toolCallId"], block["batchToolNames"]) == ("bash", "1", ["bash", "patch_state"])
    assert "input" not in block
    assert final["content"] == [{"type": "thinking"}, {"type": "text", "text": "cut"}]
    assert "secret" not in (tmp_path / "logs" / "strataflow.jsonl").read_text()
    assert (tmp_path / "logs" / "strataflow.jsonl").stat().st_mode & 0o777 == 0o600


@holds("store 4.3.5", "L16")
async def test_nothing_is_written_unless_the_operator_wants_it(tmp_path: Path) -> None:
    async with opened(tmp_path, logging=False) as runtime:
        await trouble(runtime)
    assert not (tmp_path / "logs").exists()


@holds("store 4.3.6", "store 4.3.7", "case store 133")
@pytest.mark.parametrize("kind", ["link", "folder"])
async def test_a_log_that_can_not_be_written_is_told_once_and_changes_nothing_else(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    target.write_text("untouched")
    (tmp_path / "a" / "logs").mkdir(parents=True)
    path = tmp_path / "a" / "logs" / "strataflow.jsonl"
    path.mkdir() if kind == "folder" else path.symlink_to(target)
    async with opened(tmp_path / "a") as runtime:
        await trouble(runtime)
        assert [event.name for event in runtime.events].count("diagnostics-failed") == 1
    assert target.read_text() == "untouched"


@holds("store 4.3.6")
async def test_a_log_that_would_lie_in_the_store_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"logging": true}')
    async with open_runtime(str(tmp_path), store=str(tmp_path), durability="process") as runtime:
        await trouble(runtime)
    assert not (tmp_path / "logs").exists()


def test_content_is_reduced_to_its_texts_and_the_types_of_the_rest() -> None:
    assert reduced_content("text") == "text"
    assert reduced_content({"text": "answer"}) == "answer"
    assert reduced_content([{"type": "image", "data": "x"}]) == [{"type": "image"}]
    assert reduced_content(7) is None
