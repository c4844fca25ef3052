"""What an agent with a session does beside its runs is cancelled at every step: retries, compactions, navigation.

Goal: the agent itself can go on at once, and a later process finds a session file that is whole, with every tool call
answered and memory that can be used.

Method: as for runs, a story on a simulated machine is cancelled one step later each time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio

from kit.agents import calls, check_well_formed, says, tool
from kit.cancelling import CancelAt
from kit.holds import holds
from kit.simulated_runtimes import run_seeded
from kit.wired_agents import Wired, lines_of, wired
from strataflow.agent import ConversationRules
from strataflow.compaction import CompactionError, CompactionSettings
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.trace import TraceSeams, check_session

KEEP = ConversationRules(compaction=CompactionSettings(keep_recent_tokens=1))
BASH: Any = {"role": "bashExecution", "command": "ls", "output": "", "cancelled": False, "truncated": False}
TURNS: list[Any] = [
    calls("quick"),
    {"stopReason": "error", "errorMessage": "529 overloaded"},
    says("one"),
    says("What was."),
    says("What began."),
    says("two"),
    says("We tried two."),
    *(says(f"more {number}") for number in range(9)),
]


async def story(found: Wired) -> None:
    agent = found.agent
    await agent.prompt("a first question")
    await agent.insert({**BASH, "timestamp": 1})
    with suppress(CompactionError):
        await agent.compact()
    await agent.set_session_name("Named")
    await agent.prompt("a second question")
    target = next(e for e in found.entries() if "second" in str(e.get("message", "")))
    await agent.navigate(target["id"], has_summary=True, label="left")
    await agent.prompt("a third question")


@holds("host 3.3.2", "host 2.7.6", "host 5.8.5")
def test_a_conversation_that_is_cancelled_at_any_step_can_go_on_here_and_later() -> None:
    step, is_untouched = 0, False
    while not is_untouched:
        step += 1
        machine, untouched = SimulatedMachine(step), []  # type: ignore[var-annotated]

        async def body(
            step: int = step, machine: SimulatedMachine = machine, untouched: list[bool] = untouched
        ) -> None:
            async with wired(machine, TURNS, tools=[tool("quick")], rules=KEEP) as found:
                with trio.CancelScope() as scope:
                    instrument = CancelAt(scope, step)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await story(found)
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                untouched.append(not scope.cancel_called)
                await trio.sleep(1)  # under a MockClock: what had begun is completed
                await found.agent.prompt("here")
                _check(found)
            turns = [says("later"), says("last")]
            async with wired(machine, turns, process="later", tools=[tool("quick")]) as later:
                await later.agent.prompt("later")
                _check(later)

        try:
            run_seeded(step % 5, body)
            _check_file(machine)
        except BaseException as error:
            error.add_note(f"cancelled after step {step}")
            raise
        is_untouched = untouched == [True]
    assert step > 200


def _check(found: Wired) -> None:
    agent = found.agent
    assert agent.state.error is None or "script" in agent.state.error
    check_well_formed([m for m in agent.state.messages if m["role"] in ("user", "assistant", "toolResult")])
    assert (agent.signal, agent._activity, agent.has_queued_messages) == (None, None, False)
    path = [line for line in lines_of(found.machine, found.session) if line["type"] == "message"]
    assert path[-1]["message"] == agent.state.messages[-1]


def _check_file(machine: SimulatedMachine) -> None:
    folder = "/agent/sessions/--project--"
    seams = TraceSeams(machine.disk, machine.disk, machine.locks.of("judge"), lambda: 0, lambda: "f" * 36)
    for name in machine.disk.list(folder) or ():
        assert name.endswith(".jsonl")
        assert not name.endswith(".queue.jsonl")
        assert {finding.code for finding in check_session(seams, f"{folder}/{name}")} <= {"unknown-target"}
