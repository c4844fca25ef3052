"""Retries and compactions of agents with a session, and requests that continue each other. Time is a MockClock's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from kit.agents import calls, says, tool
from kit.holds import holds
from kit.simulated_runtimes import run_seeded
from kit.wired_agents import SCRIPTED, Wired, lines_of, wired
from strataflow.agent import AgentError, ConversationRules, Model, RetrySettings
from strataflow.compaction import CompactionError, CompactionSettings
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.projection import assert_prefix_stable

FULL: Any = {"usage": {"input": 120_000, "totalTokens": 120_000}}
TOO_LONG: Any = {"stopReason": "error", "errorMessage": "prompt is too long: 213462 tokens > 200000 maximum"}
OVERLOADED: Any = {"stopReason": "error", "errorMessage": "529 overloaded"}
KEEP = ConversationRules(compaction=CompactionSettings(keep_recent_tokens=1))


def play(body: Callable[[SimulatedMachine], Awaitable[None]]) -> None:
    machine = SimulatedMachine()
    run_seeded(1, lambda: body(machine))


def compactions(found: Wired) -> list[Any]:
    return [event for event in found.told if event["type"].startswith("compaction_")]


@holds("AC-122", "host 3.2.2", "host 3.2.3", "host 3.2.8")
def test_a_full_context_is_compacted_behind_the_run() -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [says("one"), says("two", **FULL), says("What was."), says("What began."), says("three")]
        async with wired(machine, turns, mode="off", rules=KEEP) as found:
            await found.agent.prompt("a first question")
            await found.agent.prompt("b")
            start, end = compactions(found)
            assert (start["reason"], end["willRetry"], end["aborted"]) == ("threshold", False, False)
            assert found.agent.state.messages[0]["role"] == "compactionSummary"
            await found.agent.prompt("c")
            assert "What was." in str(found.model.requests[-1].messages[0])
            assert len(compactions(found)) == 2  # the old usage does not start another one

    play(body)


@holds("host 3.2.7")
def test_what_waits_in_a_queue_is_delivered_behind_a_compaction() -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [says("one", **FULL), says("What was."), says("two")]
        async with wired(machine, turns, mode="off", rules=KEEP) as found:

            async def late(event: Any, signal: Any) -> None:
                if event["type"] == "agent_end" and len(found.model.requests) == 1:
                    await found.agent.follow_up("F")

            found.agent.subscribe(late)
            await found.agent.prompt("a question")
            assert found.says()[-2:] == ["user: F", "assistant: two"]
            assert not found.agent.has_queued_messages

    play(body)


@holds("host 3.2.5")
def test_a_second_overflow_in_a_row_is_said_and_left() -> None:
    async def body(machine: SimulatedMachine) -> None:
        later = says("", delayMs=10, **TOO_LONG)  # a compaction and an answer of one moment can not be told apart
        turns = [says("one"), TOO_LONG, says("What was."), later, says("two")]
        async with wired(machine, turns, mode="off", rules=KEEP) as found:
            await found.agent.prompt("a question")
            await found.agent.prompt("b")
            assert "too long for the model" in str(found.agent.state.error)
            assert [event.get("willRetry") for event in compactions(found)] == [None, True, False]
            assert len(found.model.requests) == 4
            await found.agent.prompt("c")
            assert found.says()[-1] == "assistant: two"

    play(body)


@holds("host 3.2.10", "host 5.2.2")
def test_a_prompt_during_a_retry_or_a_compaction_is_refused_and_nothing_begins_twice() -> None:
    async def body(machine: SimulatedMachine) -> None:
        slow = says("What was.", delayMs=5_000)
        async with wired(machine, [OVERLOADED, says("one", **FULL), slow], mode="off", rules=KEEP) as found:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(found.agent.prompt, "a question")
                for _ in range(2):
                    await trio.sleep(1.9)
                    with pytest.raises(AgentError, match="already processing"):
                        await found.agent.prompt("b")
            assert found.kinds().count("compaction_start") == 1

    play(body)


def test_an_abort_ends_a_wait_for_the_next_attempt_and_a_compaction() -> None:
    async def body(machine: SimulatedMachine) -> None:
        slow = says("What was.", delayMs=60_000)
        turns = [OVERLOADED, says("one", **FULL), slow, slow, says("What was."), says("What began."), says("two")]
        async with wired(machine, turns, mode="off", rules=KEEP) as found, trio.open_nursery() as nursery:
            nursery.start_soon(found.agent.prompt, "a question")
            await trio.sleep(1)
            found.agent.abort()
            await found.agent.wait_for_idle()
            assert found.told[-1]["finalError"] == "Retry was cancelled"
            nursery.start_soon(found.agent.prompt, "again")
            await trio.sleep(1)
            found.agent.abort()
            await found.agent.wait_for_idle()
            assert compactions(found)[-1]["aborted"] is True
            assert "compaction" not in found.types()
            await found.agent.prompt("once more")
            assert trio.current_time() < 60
            assert found.says()[-1] == "assistant: two"

    play(body)


@holds("host 3.3.1")
def test_compacting_by_hand_aborts_a_run_that_goes_on() -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [says("one"), says("never", delayMs=60_000), says("What was."), says("What began.")]
        async with wired(machine, turns, mode="off", rules=KEEP) as found, trio.open_nursery() as nursery:
            await found.agent.prompt("a question")
            nursery.start_soon(found.agent.prompt, "slow")
            await trio.sleep(1)
            compaction = await found.agent.compact("Mind the slow one.")
            assert "What was." in compaction.summary
            assert "Mind the slow one." in str(found.model.requests[-2:])
            assert trio.current_time() < 60

    play(body)


@holds("host 3.3.2")
def test_a_compaction_that_fails_leaves_the_session_as_it_was() -> None:
    async def body(machine: SimulatedMachine) -> None:
        broken: Any = {"stopReason": "error", "errorMessage": "no summaries today"}
        async with wired(machine, [says("one"), broken, says("two")], mode="off", rules=KEEP) as found:
            await found.agent.prompt("a question")
            before = lines_of(machine, found.session)
            with pytest.raises(CompactionError, match="no summaries today"):
                await found.agent.compact()
            assert lines_of(machine, found.session) == before
            assert "no summaries today" in compactions(found)[-1]["errorMessage"]
            await found.agent.prompt("b")
            assert found.says()[-1] == "assistant: two"

    play(body)


@holds("host 5.8.5")
@pytest.mark.parametrize(
    "text, may_pass",
    [
        ("rate limit reached", True),
        ("HTTP 503 Service Unavailable", True),
        ("connection reset by peer", True),
        ("the request timed out", True),
        ("invalid api key", False),
        (TOO_LONG["errorMessage"], False),
        ("content filter", False),
    ],
)
def test_only_what_may_pass_is_asked_for_again(text: str, may_pass: bool) -> None:
    async def body(machine: SimulatedMachine) -> None:
        failed: Any = {"stopReason": "error", "errorMessage": text}
        async with wired(machine, [failed, says("one")], mode="off") as found:
            await found.agent.prompt("go")
            assert (len(found.model.requests) == 2) is may_pass

    play(body)


def test_a_retry_continues_the_request_that_failed() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [calls("work"), OVERLOADED, says("one")], tools=[tool("work")]) as found:
            await found.agent.prompt("go")
            assert found.agent.state.error is None
            assert (await found.session.read_state("session.response")).value == "one"
            assert found.model.requests[-1].messages == found.model.requests[-2].messages  # H1

    play(body)


@holds("case agent 145")
def test_what_is_memory_now_is_taken_out_without_a_model() -> None:
    async def body(machine: SimulatedMachine) -> None:
        long = "word " * 20_000
        turns = [says(long), says("two", usage={"input": 30_000, "totalTokens": 30_000}), says("three")]
        async with wired(machine, turns) as found:
            await found.agent.prompt("first")
            assert compactions(found) == []  # its own run is all there is
            await found.agent.prompt("second")
            start, end = compactions(found)
            assert (start["reason"], end["reason"]) == ("answered", "answered")
            assert [
                message["role"] for message in found.agent.state.messages
            ] == "compactionSummary user assistant".split()
            assert len(found.model.requests) == 2
            await found.agent.prompt("third")
            assert found.agent.state.error is None
            (entry,) = [line for line in lines_of(machine, found.session) if line["type"] == "compaction"]
            assert entry["details"]["owner"] == "state-flow"

    play(body)


def test_the_requests_of_a_long_conversation_continue_each_other() -> None:
    """Steering, tools, patches, a retry, a restart and compactions: a request begins with all of the one before, or
    there is a reason that the ledger knows."""
    sent: list[list[Any]] = []
    why: list[Any] = []

    async def run(machine: SimulatedMachine, process: str, prompts: list[str]) -> None:
        async def steer(signal: Any) -> None:
            await found.agent.steer("and mind the tests")

        patching = {
            "blocks": [
                {
                    "type": "toolCall",
                    "id": "p",
                    "name": "patch_state",
                    "arguments": {"cwd": {"working": {process: "noted"}}},
                }
            ]
        }
        turns = [calls("work"), patching, OVERLOADED, says("one"), calls("work"), says("two"), says("three")]
        tools = [tool("work", steer)]
        async with wired(machine, turns, process=process, tools=tools, rules=KEEP) as found:
            for prompt in prompts:
                before = len(found.model.requests)
                await found.agent.prompt(prompt)
                assert found.agent.state.error is None
                asked = [_as_sent(request) for request in found.model.requests[before:]]
                sent.append(asked)
                why.append(found.session.prefix_report())

    async def body(machine: SimulatedMachine) -> None:
        await run(machine, "a", ["begin", "go on"])
        await run(machine, "b", ["begin again", "and on"])

    play(body)
    assert [len(run) for run in sent] == [5, 2, 5, 2] or sum(map(len, sent)) >= 12
    for asked in sent:
        assert_prefix_stable(asked)


def _as_sent(request: Any) -> list[Any]:
    return [{"role": "system", "content": request.system_prompt}, *request.messages]


def test_other_rules_of_retries_are_obeyed() -> None:
    async def body(machine: SimulatedMachine) -> None:
        rules = ConversationRules(retry=RetrySettings(is_enabled=False))
        async with wired(machine, [OVERLOADED, says("one")], mode="off", rules=rules) as found:
            await found.agent.prompt("go")
            assert found.agent.state.error == "529 overloaded"
            assert "auto_retry_start" not in found.kinds()

    play(body)


def test_a_model_with_an_unknown_window_is_never_too_full() -> None:
    async def body(machine: SimulatedMachine) -> None:
        unknown: Model = attrs.evolve(SCRIPTED, context_window=0)
        async with wired(machine, [says("one", **FULL)], mode="off", model=unknown, rules=KEEP) as found:
            await found.agent.prompt("go")
            assert compactions(found) == []

    play(body)


def test_a_session_file_that_a_power_cut_left_empty_begins_anew_as_the_session_that_it_is() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("one")]) as found:
            await found.agent.prompt("first")
            path = next(path for path in machine.disk.contents() if path.endswith("_main.jsonl"))
        machine.disk.plant(path, "file", b"")
        for text in ("second", "third"):
            async with wired(machine, [says("two")], process=text) as found:
                await found.agent.prompt(text)
                assert found.agent.state.error is None
                assert lines_of(machine, found.session)[0]["id"] == "main"

    play(body)
