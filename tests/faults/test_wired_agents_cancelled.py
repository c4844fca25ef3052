"""A run of an agent with a session is cancelled, or its machine killed, at every step.

Goal: the session file says what the transcript says, every tool call has a result once a next prompt has come, each
queued message is in exactly one place, memory can be used, nothing runs any more.

Method: a story on a simulated machine is cancelled one step later each time. Then it runs once more, and before each
operation of the disk the machine is looked at as it would be after ``kill -9``; a later process goes on there.
"""

from __future__ import annotations

import errno
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from kit.agents import calls, check_well_formed, says, text_of, tool
from kit.cancelling import every_cancellation
from kit.holds import holds
from kit.simulated_runtimes import run_seeded
from kit.wired_agents import Wired, is_ours, lines_of, wired
from strataflow.runtime import Mode, StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine

PATCH = {"type": "toolCall", "id": "call_9", "name": "patch_state", "arguments": {"session": {"working": {"n": 1}}}}
TURNS = (calls("quick", "quick"), {"blocks": [PATCH]}, *(says(f"answer {number}") for number in range(6)))
QUEUED = ("S1", "S2", "F1")


async def story(machine: SimulatedMachine, notes: list[Any], mode: Mode = "active") -> None:
    async with wired(machine, TURNS, mode=mode, tools=[tool("quick")]) as found:
        notes.append(found)
        for text in QUEUED[:2]:
            await found.agent.steer(text)
            notes.append(text)
        await found.agent.follow_up(QUEUED[2])
        notes.append(QUEUED[2])
        await found.agent.prompt("go")
        assert found.agent.state.error is None
        await found.agent.prompt("and again")


def check_ended(notes: list[Any], machine: SimulatedMachine) -> None:
    """What the process itself says after it was cancelled: the same as its file."""
    wired_agent = next((note for note in notes if isinstance(note, Wired)), None)
    if wired_agent is None:
        return
    agent = wired_agent.agent
    check_well_formed(agent.state.messages)
    written = [line["message"] for line in lines_of(machine, wired_agent.session) if line["type"] == "message"]
    assert written == agent.state.messages
    state = agent.state
    assert (state.is_streaming, state.stream_message, state.pending_tool_calls) == (False, None, frozenset())
    assert (agent.signal, agent._activity) == (None, None)


def check_later(machine: SimulatedMachine, notes: list[Any], mode: Mode) -> None:
    """A later process takes over."""
    acknowledged = Counter(note for note in notes if isinstance(note, str))

    async def body() -> None:
        turns = [says(f"later {number}") for number in range(9)]
        async with wired(machine, turns, mode=mode, process="later", tools=[tool("quick")]) as later:
            agent = later.agent
            await agent.prompt("on")
            assert agent.state.error is None
            check_well_formed(agent.state.messages)
            assert not agent.has_queued_messages
            found = Counter(text_of(message).removeprefix("user: ") for message in agent.state.messages)
            for text in QUEUED:
                assert acknowledged[text] <= found[text] <= 1, (text, found)
            check_well_formed([line["message"] for line in _messages(later)])
            if mode == "active":
                receipt = await later.session.patch_state(session={"working": {"later": True}})
                assert receipt.changed
                assert (await later.session.read_state("session.response")).value == agent.state.messages[-1][
                    "content"
                ][0]["text"]  # type: ignore[index,call-overload]
            path = later.session.tree.get_session_file()  # type: ignore[union-attr]
            assert machine.disk.read(f"{path}.queue.jsonl") is None

    run_seeded(3, body)


def _messages(later: Wired) -> list[dict[str, Any]]:
    lines = [line for line in lines_of(later.machine, later.session) if not is_ours(line)]
    return [line for line in lines if line["type"] == "message"]


@pytest.mark.parametrize("mode", ["active", "off"])
@holds("host 5.8.2", "AC-171", "AC-172")
def test_a_wired_run_that_is_cancelled_at_any_step_leaves_everything_whole(mode: Mode) -> None:
    async def told(machine: SimulatedMachine, notes: list[Any]) -> None:
        await story(machine, notes, mode)

    steps = 0
    for step, machine, notes in every_cancellation(told):
        steps = step
        try:
            check_ended(notes, machine)
            check_later(machine, notes, mode)
        except BaseException as error:
            error.add_note(f"cancelled after step {step}, notes {notes}")
            raise
    assert steps > 200


@pytest.mark.parametrize("fate", ["kill", "lose"])
def test_whatever_a_dead_process_left_is_gone_on_with(fate: str) -> None:
    machine, notes, left = SimulatedMachine(5), [], []  # type: ignore[var-annotated]

    def look(name: str, path: str) -> None:
        hook, machine.disk.before_operation = machine.disk.before_operation, lambda name, path: None
        if path.startswith("/agent/sessions"):
            later = machine.after_kill() if fate == "kill" else machine.after_power_cut("lose", len(left))
            left.append((later, list(notes), f"{name} {path}"))
        machine.disk.before_operation = hook

    machine.disk.before_operation = look
    run_seeded(7, lambda: story(machine, notes))
    assert len(left) > 60
    for number, (later, noted, what) in enumerate(left):
        try:
            check_later(later, noted, "active")
        except BaseException as error:
            error.add_note(f"before operation {number}, {what}; notes {noted}")
            raise


@pytest.mark.parametrize("failures", [1, 2, 3])
@holds("host 5.8.3")
def test_a_full_disk_at_any_entry_leaves_no_gap_in_the_session_file(failures: int) -> None:
    for first in range(2, 30):
        machine, appended = SimulatedMachine(first), [0]

        def fail(name: str, path: str, first: int = first, appended: list[int] = appended) -> None:
            if name == "append" and path.endswith("_main.jsonl"):
                appended[0] += 1
                if first <= appended[0] < first + failures:
                    raise OSError(errno.ENOSPC, "no space left")

        async def body(machine: SimulatedMachine = machine) -> None:
            async with wired(machine, [*TURNS, *TURNS], tools=[tool("quick")]) as found:
                for prompt in ("go", "on", "and on", "still", "the end"):
                    with suppress(StoreError):
                        await found.agent.prompt(prompt)
                assert found.agent.state.error is None
                check_well_formed(found.agent.state.messages)
                check_ended([found], machine)

        machine.disk.before_operation = fail
        run_seeded(1, body)
        assert appended[0] >= first
