"""Watching other processes of the operating system, through inotify and without it."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kit import contenders
from kit.runtimes import opened, refused
from strataflow.actors import PollingBell
from strataflow.runtime import bell, opening
from strataflow.runtime.bell import InotifyBell

PATIENCE_S = 60.0
COUNT = 40


def ended_well(child: int) -> bool:
    """Wait for the end of a forked child."""
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rings", "beats"])
async def test_every_change_of_another_process_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "rings":
        if not sys.platform.startswith("linux"):
            pytest.skip("inotify is a call of Linux")
        monkeypatch.setattr(bell, "BELL_BEAT_S", 1_000.0)  # nothing but rings can tell
    else:
        monkeypatch.setattr(opening, "open_bell", lambda ground: PollingBell())
    root = tmp_path / "state-flow"
    command = [sys.executable, str(contenders.__file__), str(root), "other", str(COUNT)]
    start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    async with opened(root) as runtime, trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(start)
        session = await runtime.open_session("/project", mode="active")
        assert process.stdin is not None
        assert process.stdout is not None
        with trio.fail_after(PATIENCE_S):
            assert (await process.stdout.receive_some()).startswith(b"ready")
            watch = session.watch("global.working", "cwd.working", "session.working")
            await process.stdin.send_all(b"go\n")
            seen: dict[str, int] = {"global": 0, "cwd": 0}
            while any(count < COUNT for count in seen.values()):
                change = await anext(watch)
                # Never its private memory.
                assert change.scope in seen
                assert change.transition is not None
                assert change.transition.session == "other"
                seen[change.scope] = len((await session.read_state(f"{change.scope}.working")).value)
            await process.stdin.send_all(b"done\n")
            await process.wait()
            await process.stdin.aclose()
            await process.stdout.aclose()
        assert runtime.events == ()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is a call of Linux")
async def test_watches_of_a_forked_child_have_ended_and_those_of_the_parent_go_on(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", mode="active")
        watch = session.watch("cwd.working")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with refused("E_CLOSED"):
                    session.watch()
                waiting = watch.__anext__()
                waiting.send(None)  # a checkpoint
                try:
                    waiting.send(outcome.Value(None))
                except StopAsyncIteration:
                    code = 0
            finally:
                os._exit(code)
        assert ended_well(child)
        await session.patch_state(cwd={"working": {"n": 1}})
        assert (await anext(watch)).paths == ("cwd.working",)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is a call of Linux")
async def test_a_closed_runtime_keeps_no_bell_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_bells: list[InotifyBell] = []
    real = opening.open_bell

    def noted(ground: object) -> object:
        found = real(ground)  # type: ignore[arg-type]
        assert isinstance(found, InotifyBell)
        opened_bells.append(found)
        return found

    monkeypatch.setattr(opening, "open_bell", noted)
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", mode="active")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.wait_for, "cwd.working.n", lambda value: value == 1)
            await wait_all_tasks_blocked(0.01)
            await session.patch_state(cwd={"working": {"n": 1}})
    assert [found._fd for found in opened_bells] == [-1]
