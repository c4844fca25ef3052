"""Backups of agents with a session: real repositories, a real remote, and prompts that do not wait for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.agents import says
from kit.git_repositories import CWD, FOLDER, PATIENCE_S, StoreRepository, git, store_repository
from kit.runtimes import opened
from kit.wired_agents import SCRIPTED
from strataflow.agent import Agent, scripted_model
from strataflow.runtime import Mode, Runtime


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path).with_remote()


async def prompt(runtime: Runtime, *texts: str, mode: Mode = "active", **turn: Any) -> None:
    """Open the session and prompt its agent; each prompt is answered with itself."""
    session = await runtime.open_session(CWD, "s1", mode, tree=True)
    model = scripted_model([says(f"to {text}", **turn) for text in texts])
    async with Agent(session=session, model=SCRIPTED, stream_fn=model) as agent:
        for text in texts:
            await agent.prompt(text)


async def test_an_answered_prompt_is_backed_up_at_the_remote_without_the_conversation(made: StoreRepository) -> None:
    async with opened(made.root) as runtime:
        await prompt(runtime, "What is remembered?")
        pushed = await runtime.backups.wait_pushed()
        assert pushed is not None
        assert (pushed.outcome, pushed.commit) == ("pushed", made.remote_head())
    files = git(made.remote, "ls-tree", "-r", "--name-only", "main").split()
    assert f"{FOLDER}/s1/runtime.json" in files
    assert git(made.remote, "grep", "-l", "to What is remembered", "main").split() == [
        f"main:{FOLDER}/s1/patches.jsonl"
    ]
    assert not any(name.endswith(".jsonl") and not name.endswith("patches.jsonl") for name in files)


@pytest.mark.parametrize("mode, turn", [("passive", {}), ("off", {}), ("active", {"stopReason": "length"})])
async def test_what_is_no_accepted_answer_makes_no_backup(made: StoreRepository, mode: Mode, turn: Any) -> None:
    async with opened(made.root) as runtime:
        await prompt(runtime, "go", mode=mode, **turn)
        assert await runtime.backups.wait_pushed() is None
    assert made.head() is None


async def test_no_prompt_waits_for_a_push_that_hangs(made: StoreRepository, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    made.hook("pre-receive", f"read line < {gate}")
    async with opened(made.root) as runtime:
        with trio.fail_after(PATIENCE_S):
            await prompt(runtime, "one", "two", "three")
        assert made.remote_head() is None  # nobody has opened the gate yet
        await trio.to_thread.run_sync(gate.write_text, "open\n")
        pushed = await runtime.backups.wait_pushed()
        assert pushed is not None
        assert pushed.outcome == "pushed"
        assert made.remote_head() is not None
