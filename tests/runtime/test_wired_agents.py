"""Agents with a session: what is recorded, taken up, told and remembered around their runs. Time is a MockClock's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from kit.agents import calls, check_well_formed, says, text_of, tool
from kit.holds import holds
from kit.simulated_runtimes import fail_once, run_seeded
from kit.wired_agents import SCRIPTED, lines_of, wired
from strataflow.agent import Agent, AgentError, ConversationRules, Model, scripted_model
from strataflow.runtime import StoreError
from strataflow.runtime.simulation.seams import SimulatedMachine


def play(body: Callable[[SimulatedMachine], Awaitable[None]]) -> None:
    machine = SimulatedMachine()
    run_seeded(1, lambda: body(machine))


def patch(call_id: str = "p1", **scopes: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "patch_state", "arguments": scopes}


@holds("AC-205", "host 2.7.2", "host 5.6.4")
def test_steering_and_following_are_recorded_in_order_and_each_change_of_the_queues_is_told() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async def steered(signal: Any) -> None:
            await found.agent.steer("S")
            await found.agent.follow_up("F")

        turns = [calls("work"), says("one"), says("two")]
        async with wired(machine, turns, mode="off", tools=[tool("work", steered)]) as found:
            await found.agent.prompt("go")
            own = [entry for entry in found.entries() if entry["type"] == "message"]
            assert [text_of(entry["message"]) for entry in own] == found.says()
            assert [text.split(":")[0] for text in found.says()] == (
                "user assistant toolResult user assistant user assistant".split()
            )
            queues = [(e["steering"], e["followUp"]) for e in found.told if e["type"] == "queue_update"]
            assert queues == [(["S"], []), (["S"], ["F"]), ([], ["F"]), ([], [])]
            kinds = [event["type"] for event in found.told]
            second = [number for number, kind in enumerate(kinds) if kind == "queue_update"][2]
            assert kinds[second + 1] == "message_start"

    play(body)


@holds("AC-208", "host 2.7.3")
def test_what_is_said_beside_a_run_never_stands_between_a_call_and_its_result() -> None:
    async def body(machine: SimulatedMachine) -> None:
        shown: Any = {"role": "bashExecution", "command": "ls", "output": "a.txt", "cancelled": False}
        hidden = {**shown, "truncated": False, "excludeFromContext": True, "timestamp": 7}

        async def beside(signal: Any) -> None:
            await found.agent.insert({**shown, "truncated": False, "timestamp": 6})
            await found.agent.insert(hidden)

        async with wired(
            machine, [calls("work"), says("one"), says("two")], mode="off", tools=[tool("work", beside)]
        ) as found:
            await found.agent.prompt("go")
            await found.agent.prompt("on")
            roles = [entry["message"]["role"] for entry in found.entries() if entry["type"] == "message"]
            assert roles == "user assistant toolResult assistant bashExecution bashExecution user assistant".split()
            seen = [text_of(message) for message in found.model.requests[-1].messages]
            assert [text for text in seen if "ls" in text] == ["user: Ran `ls`\n```\na.txt\n```"]
            check_well_formed([message for message in found.agent.state.messages if message["role"] != "bashExecution"])

    play(body)


@holds("host 2.7.7", "host 2.7.1", "host 2.7.4")
def test_a_session_is_taken_up_with_its_messages_model_and_level() -> None:
    known = Model("m1", "p", "faux", reasoning=True)

    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("one")], mode="off", model=known, thinking_level="high") as found:
            await found.agent.prompt("go")
        rules = ConversationRules(find_model=lambda provider, name: Model(name, provider, "faux", reasoning=True))
        async with wired(machine, [says("two")], mode=None, process="b", model=_nothing(), rules=rules) as found:
            state = found.agent.state
            assert (found.says(), state.model, state.thinking_level) == (["user: go", "assistant: one"], known, "high")
            assert found.told == [{"type": "session_resumed", "messages": 2}]
            await found.agent.prompt("on")
            assert found.types()[2:] == ["message:user", "message:assistant"] * 2
        async with wired(machine, [], mode=None, process="c", model=SCRIPTED) as found:
            assert found.agent.state.model is SCRIPTED  # a choice of the program's wins

    play(body)


def _nothing() -> Model:
    from strataflow.runtime.agent.state import UNKNOWN_MODEL

    return UNKNOWN_MODEL


@holds("host 2.7.7")
def test_a_model_that_can_not_be_had_is_told_and_the_rest_is_taken_up() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("one")], mode="off", model=Model("m1", "p", "faux")) as found:
            await found.agent.prompt("go")
        async with wired(machine, [], mode=None, process="b", model=_nothing()) as found:
            (told,) = found.told
            assert told["messages"] == 2
            assert told["problem"].startswith("the model p/m1 of the session can not be had")
            assert found.says() == ["user: go", "assistant: one"]

    play(body)


@holds("host 2.7.1")
def test_a_session_with_messages_and_no_level_gets_one_entry_for_it() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("two")], mode="off") as found:
            assert found.session.tree is not None
            await found.session.tree.append_message({"role": "user", "content": "by hand", "timestamp": 1})
            await found.agent.prompt("go")
            assert found.types() == (
                ["message:user", "model_change", "thinking_level_change", "message:user", "message:assistant"]
            )
            assert found.says()[0] == "user: by hand"  # what others add is taken up before a prompt

    play(body)


@pytest.mark.parametrize("mode", ["active", "passive", "off"])
def test_in_every_mode_the_same_program_runs(mode: Any) -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [{"blocks": [patch(session={"working": {"n": 1}})]}, says("Done."), says("Again.")]
        async with wired(machine, turns, mode=mode) as found:
            await found.agent.prompt("go")
            await found.agent.prompt("on")
            assert (found.agent.state.error, found.says()[-1]) == (None, "assistant: Again.")
            if mode == "off":
                assert "patch_state not found" in found.says()[2]
                assert found.model.requests[0].tools == []
                return
            assert "Patch accepted in session scope." in found.says()[2]
            memory = (await found.session.read_state("session")).value
            assert memory == {"working": {"n": 1}} | ({"response": "Again."} if mode == "active" else {})

    play(body)


def test_the_barrier_holds_back_what_is_called_beside_a_patch() -> None:
    async def body(machine: SimulatedMachine) -> None:
        both = {"blocks": [patch(session={"working": {"n": 1}}), *calls("work")["blocks"]]}
        async with wired(machine, [both, says("ok")], tools=[tool("work")]) as found:
            await found.agent.prompt("go")
            results = [message for message in found.agent.state.messages if message["role"] == "toolResult"]
            assert [result["isError"] for result in results] == [False, True]
            assert "patch_state" in text_of(results[1])

    play(body)


def test_what_a_patch_is_refused_with_is_its_result_and_null_deletes() -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [
            {"blocks": [patch("a", cwd={"contract": {"x": "1"}})]},
            {"blocks": [patch("b", cwd={"contract": {"x": None}})]},
            {"blocks": [patch("c", nonsense=1)]},
            {"blocks": [patch("d", session={"working": {"bad": "\ud800"}})]},
            says("ok"),
        ]
        async with wired(machine, turns) as found:
            await found.agent.prompt("go")
            results = [message for message in found.agent.state.messages if message["role"] == "toolResult"]
            assert [result["isError"] for result in results] == [False, False, True, False]
            assert (await found.session.read_state("cwd")).value == {}
            repaired = (await found.session.read_state("session.working.bad")).value
            assert repaired == "\ufffd"  # at the door, before the tool sees it

    play(body)


def test_lone_surrogates_are_replaced_at_the_door_and_told() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("half \ud83d of it"), says("ok")]) as found:
            await found.agent.prompt("what is \ud83d?")
            assert found.agent.state.error is None
            assert found.says()[-1] == "assistant: half \ufffd of it"
            assert (await found.session.read_state("session.response")).value == "half \ufffd of it"
            assert {"type": "answer_repaired", "count": 1} in found.told
            await found.agent.prompt("and now?")
            assert found.agent.state.error is None

    play(body)


def test_a_session_without_a_tree_is_a_memory_with_a_conversation_in_memory_only() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("one"), says("two")], tree=False) as found:
            await found.agent.prompt("go")
            await found.agent.steer("S")
            await found.agent.prompt("on")
            assert (await found.session.read_state("session.response")).value == "two"
            assert found.session.tree is None
            assert len(found.says()) == 5

    play(body)


@holds("host 2.7.6", "AC-130", "AC-131")
def test_navigation_gives_the_text_back_and_replaces_the_messages() -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [says("one"), says("two"), says("We tried two."), says("other")]
        async with wired(machine, turns) as found:
            await found.agent.prompt("first")
            await found.agent.prompt("second")
            second = next(entry for entry in found.entries() if "second" in str(entry.get("message")))
            moved = await found.agent.navigate(second["id"], has_summary=True, label="tried")
            assert (moved.text, moved.is_moved) == ("second", True)
            roles = [message["role"] for message in found.agent.state.messages]
            assert roles == ["user", "assistant", "branchSummary"]
            await found.agent.prompt("third")
            assert found.agent.state.error is None
            assert (await found.session.read_state("session.response")).value == "other"
            written = lines_of(machine, found.session)
            assert [line["label"] for line in written if line["type"] == "label"] == ["tried"]

    play(body)


@holds("host 2.7.6")
def test_navigation_of_an_unknown_entry_moves_nothing() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("one")]) as found:
            await found.agent.prompt("first")
            before = found.says()
            with pytest.raises(Exception, match="Entry nope1234 not found"):
                await found.agent.navigate("nope1234")
            assert found.says() == before

    play(body)


def test_an_agent_without_a_session_refuses_what_is_about_one() -> None:
    async def body() -> None:
        agent = Agent(stream_fn=scripted_model([]))
        assert agent.session is None
        for call in (agent.compact, lambda: agent.navigate("x"), lambda: agent.set_session_name("x")):
            with pytest.raises(AgentError, match="has no session") as caught:
                await call()
            assert caught.value.code == "E_AGENT_SESSION"

    trio.run(body)


def test_a_listener_that_raises_behind_the_run_does_not_undo_it() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async def fails() -> None:
            raise RuntimeError("no backup today")

        async with wired(machine, [says("one")], rules=ConversationRules(when_settled=fails)) as found:
            await found.agent.prompt("go")
            assert found.agent.state.error == "no backup today"
            assert (await found.session.read_state("session.response")).value == "one"

    play(body)


def test_what_was_to_begin_with_waits_again_when_nothing_could_begin() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [says("one"), says("two")], mode="off") as found:
            await found.agent.prompt("go")
            await found.agent.steer("S")
            machine.disk.before_operation = fail_once("append", "_main.jsonl")
            found.agent.set_model(Model("other", "p", "faux"))
            with pytest.raises(StoreError, match="injected"):
                await found.agent.continue_()
            await found.agent.continue_()
            assert found.says()[-2:] == ["user: S", "assistant: two"]
            assert not found.agent.has_queued_messages

    play(body)


def test_what_is_attached_comes_with_the_next_prompt_once() -> None:
    async def body(machine: SimulatedMachine) -> None:
        note: Any = {"role": "custom", "customType": "n", "content": "note", "display": True, "timestamp": 1}
        async with wired(machine, [says("one"), says("two")], mode="off") as found:
            found.agent.attach(note)
            machine.disk.before_operation = fail_once("append", "_main.jsonl")
            with pytest.raises(StoreError, match="injected"):
                await found.agent.prompt("not yet")
            await found.agent.prompt("go")
            await found.agent.prompt("on")
            assert found.says() == ["user: go", "custom: note", "assistant: one", "user: on", "assistant: two"]

    play(body)
