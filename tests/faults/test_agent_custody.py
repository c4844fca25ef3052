"""A program dies at every change that an agent makes to its session file and the queue beside it.

Goal: a message that ``steer`` or ``follow_up`` acknowledged is, after any death and restart, in the session file once,
or still in the queue, and every tool call has its result (C1, C2, K1-K5).

Method: the disk dies at the n-th change, before it, half-way or after it, for every n, also a second time during the
restart. Two of the messages are the same to the last byte, since that is where comparing goes wrong.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.agents import agent_of, calls, check_well_formed, says, text_of, tool
from kit.faulty_disk import FaultyDisk
from kit.holds import holds
from kit.session_files import DyingDisk, PlainSession, inline
from strataflow.agent import Agent
from strataflow.runtime.agent.queue_file import QUEUE_SUFFIX
from strataflow.store import Disk, RealDisk, StoreError

TEXTS = ("S1", "same", "same", "F1", "C1")
CUSTOM: Any = {"role": "custom", "customType": "note", "content": "C1", "display": True, "timestamp": 5}


def agent_on(path: str, disk: Disk, **more: Any) -> tuple[Agent, PlainSession]:
    session = PlainSession(path, disk, **more)
    turns = [calls("a", "a"), *(says(f"answer {number}") for number in range(8))]
    agent = agent_of(*turns, tools=[tool("a")], recorder=session, disk=disk, work=inline, messages=session.messages())
    return agent, session


async def queue_all(agent: Agent, acknowledged: Counter[str]) -> None:
    for text in TEXTS[:3]:
        await agent.steer({"role": "user", "content": text, "timestamp": 7})
        acknowledged[text] += 1
    await agent.follow_up({"role": "user", "content": "F1", "timestamp": 8})
    acknowledged["F1"] += 1
    await agent.follow_up(CUSTOM)
    acknowledged["C1"] += 1


async def live(path: str, disk: Disk, acknowledged: Counter[str], **more: Any) -> None:
    """A program that queues, runs until nothing waits, and ends."""
    agent, _ = agent_on(path, disk, **more)
    async with agent:
        await queue_all(agent, acknowledged)
        await agent.prompt("go")


def recorded(path: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for entry in PlainSession(path).entries:
        text = entry["content"] if entry["type"] == "custom_message" else text_of(entry["message"])
        found[text.removeprefix("user: ")] += 1
    return found


async def restart(path: str, disk: Disk) -> list[str]:
    """Deliver what waits; what is left afterwards."""
    agent, _ = agent_on(path, disk)
    async with agent:
        await agent.prompt("restarted")
        waiting = [*agent.queued("steering"), *agent.queued("follow_up")]
    return [text_of(message) for message in waiting]


def run(body: Any) -> Any:
    return trio.run(body)


def check(path: str, acknowledged: Counter[str]) -> None:
    found = recorded(path)
    for text in set(TEXTS):
        # The one that was not acknowledged yet may have been queued, or not.
        assert acknowledged[text] <= found[text] <= acknowledged[text] + 1, (text, found, acknowledged)
        if acknowledged == Counter(TEXTS):
            assert found[text] == acknowledged[text]
    check_well_formed(PlainSession(path).messages())
    assert not os.path.exists(path + QUEUE_SUFFIX)


@pytest.mark.slow
@pytest.mark.parametrize("begins_late", [False, True])
@pytest.mark.parametrize("how", ["before", "half", "after"])
@holds("host 5.2.4")
def test_no_message_is_lost_or_doubled_by_a_death_at_any_change(how: str, begins_late: bool, tmp_path: Path) -> None:
    for at in itertools.count(1):
        path = str(tmp_path / f"{at}.jsonl")
        disk, acknowledged = DyingDisk(at, how), Counter[str]()
        try:
            run(partial(live, path, disk, acknowledged, begins_late=begins_late))
        except StoreError:
            assert disk.is_dead
        if not disk.is_dead:
            break
        assert run(partial(restart, path, RealDisk())) == []
        check(path, acknowledged)
    assert at > 20


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "half", "after"])
def test_a_second_death_during_the_restart_changes_nothing(how: str, tmp_path: Path) -> None:
    for first, second in itertools.product(range(1, 40, 6), range(1, 9, 2)):
        path = str(tmp_path / f"{first}-{second}.jsonl")
        acknowledged = Counter[str]()
        for at, program in ((first, partial(live, path)), (second, None)):
            disk = DyingDisk(at, how)
            try:
                if program is not None:
                    run(partial(program, disk, acknowledged))
                else:
                    run(partial(restart, path, disk))
            except StoreError:
                assert disk.is_dead
        assert run(partial(restart, path, RealDisk())) == []
        check(path, acknowledged)


def test_an_untouched_life_leaves_no_queue_file_behind(tmp_path: Path) -> None:
    path, acknowledged = str(tmp_path / "s.jsonl"), Counter[str]()
    run(partial(live, path, RealDisk(), acknowledged))
    check(path, acknowledged)
    assert [name.name for name in tmp_path.iterdir()] == ["s.jsonl"]


async def test_queued_messages_wait_on_disk_for_the_next_program(tmp_path: Path, autojump_clock: Any) -> None:
    path = str(tmp_path / "s.jsonl")
    agent, _ = agent_on(path, RealDisk())
    async with agent:
        await agent.steer("lone \ud83d surrogate")
        await agent.follow_up("F")
    assert os.path.exists(path + QUEUE_SUFFIX)
    again, session = agent_on(path, RealDisk())
    async with again:
        assert again.has_queued_messages
        assert [text_of(each) for each in again.queued("steering")] == ["user: lone \ud83d surrogate"]
        await again.clear_steering_queue()
        assert os.path.exists(path + QUEUE_SUFFIX)
        await again.clear_all_queues()
        assert not os.path.exists(path + QUEUE_SUFFIX)
    assert session.entries == []


async def test_a_disk_that_refuses_a_queued_message_refuses_it_wholly(tmp_path: Path, autojump_clock: Any) -> None:
    path = str(tmp_path / "s.jsonl")
    agent, _ = agent_on(path, DyingDisk(1, "half"))
    with pytest.raises(StoreError):
        await agent.steer("S")
    assert not agent.has_queued_messages


async def test_a_disk_that_fails_during_a_run_is_an_error_in_the_state(tmp_path: Path, autojump_clock: Any) -> None:
    path = str(tmp_path / "s.jsonl")
    agent, _ = agent_on(path, DyingDisk(3, "before"))
    await agent.prompt("go")
    assert agent.state.error is not None
    assert "dead" in agent.state.error
    check_well_formed(agent.state.messages)


@pytest.mark.parametrize("operation", ["append", "sync_file", "sync_folder"])
async def test_a_message_that_was_refused_does_not_come_back_later(
    operation: str, tmp_path: Path, autojump_clock: Any
) -> None:
    path = str(tmp_path / "s.jsonl")
    disk = FaultyDisk()
    place = str(tmp_path) if operation == "sync_folder" else path + QUEUE_SUFFIX
    disk.refuse(operation, place, errno.EIO, times=1)
    agent, _ = agent_on(path, disk)  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        await agent.steer("refused")
    await agent.steer("taken")
    again, _ = agent_on(path, RealDisk())
    async with again:
        assert [text_of(each) for each in again.queued("steering")] == ["user: taken"]


async def test_a_queue_that_can_not_be_let_go_now_is_let_go_with_the_next_message(
    tmp_path: Path, autojump_clock: Any
) -> None:
    path = str(tmp_path / "s.jsonl")
    disk = FaultyDisk()
    agent, session = agent_on(path, disk)  # type: ignore[arg-type]
    await agent.steer("S")
    disk.refuse("sync_file", path, errno.EIO, times=1)
    await agent.prompt("go")
    assert agent.state.error is None
    assert [text_of(message) for message in session.messages()][:2] == ["user: go", "user: S"]
    assert not os.path.exists(path + QUEUE_SUFFIX)


async def test_lines_of_others_in_the_file_of_a_queue_are_passed_over(tmp_path: Path, autojump_clock: Any) -> None:
    path = tmp_path / "s.jsonl"
    message: dict[str, Any] = {"role": "user", "content": "mine", "timestamp": 1}
    odd = [{"queued": "x"}, {"queued": ["x"], "lane": "steering", "message": message}, {"taking": "q", "entry": {}}]
    odd += [{"queued": "x", "lane": "other", "message": message}, {"queued": "x", "lane": "steering", "message": {}}]
    odd += [{"gone": 1}, {"gone": [["q"]]}, {"taking": "q"}, {}]
    lines = [
        *map(json.dumps, odd),
        "[" * 100_000,
        "no JSON",
        json.dumps({"queued": "q", "lane": "steering", "message": message}),
    ]
    (tmp_path / f"s.jsonl{QUEUE_SUFFIX}").write_text("\n".join([*lines, *map(json.dumps, odd), ""]))
    agent, session = agent_on(str(path), RealDisk())
    async with agent:
        assert agent.queued("steering") == [message]
        await agent.prompt("go")
    assert [text_of(message) for message in session.messages()][:2] == ["user: go", "user: mine"]
