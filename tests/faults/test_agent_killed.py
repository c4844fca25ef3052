"""Real programs with an agent are killed at any moment, one after the other on the same session file.

Goal: every message whose queueing was acknowledged is in the session file once, or still in the queue; every tool call
of the file has its result (K1-K4).

Method: SIGKILL after a random time, drawn from a printed seed; the next program goes on with what it finds.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import trio

from kit.agents import agent_of, check_well_formed, says, text_of
from kit.session_files import PlainSession
from kit.source_tree import ROOT
from strataflow.runtime.agent.queue_file import QUEUE_SUFFIX

ROUNDS = 6


def _killed(path: str, number: int, chance: random.Random) -> list[str]:
    """What a program had been told is queued when it was killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    command = [sys.executable, "-m", "kit.agent_process", path, str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        told = [program.stdout.readline().strip()]
        end = time.monotonic() + chance.uniform(0, 0.6)
        while time.monotonic() < end:
            told.append(program.stdout.readline().strip())
        program.kill()
        told += [line.strip() for line in program.stdout if line.endswith("\n")]
    assert told[0], "the program did not begin"
    return told


async def _drain(path: str) -> None:
    session = PlainSession(path)
    agent = agent_of(*[says("ok")] * 5_000, recorder=session, messages=session.messages())
    agent.steering_mode = agent.follow_up_mode = "all"
    async with agent:
        await agent.prompt("the end")
    assert not agent.has_queued_messages


@pytest.mark.slow
def test_no_acknowledged_message_is_lost_or_doubled_when_programs_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, path, told = random.Random(seed), str(tmp_path / "s.jsonl"), Counter[str]()
    for number in range(ROUNDS):
        told.update(_killed(path, number, chance))
    trio.run(partial(_drain, path))
    session = PlainSession(path)
    check_well_formed(session.messages())
    found = Counter(text_of(message).removeprefix("user: ") for message in session.messages())
    assert len(told) > ROUNDS
    assert {text: found[text] for text in told if found[text] != 1} == {}
    assert [text for text, count in found.items() if count > 1 and text[0].isdigit()] == []
    assert not os.path.exists(path + QUEUE_SUFFIX)
