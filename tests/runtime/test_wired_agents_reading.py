"""Agents with a session whose tools read files: their cards are compiled from what was read. Simulated sources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.agents import ANY, check_well_formed, says
from kit.card_runs import CARD, A, machine_with_sources
from kit.simulated_runtimes import run_seeded
from kit.wired_agents import wired
from strataflow.agent import ConversationRules, Tool, ToolResult
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.artifacts import RegisteredSkill

Body = Callable[[SimulatedMachine], Awaitable[None]]


def play(body: Body) -> None:
    machine = machine_with_sources()
    run_seeded(1, lambda: body(machine))


def reader(machine: SimulatedMachine, name: str = "read", *, meanwhile: Callable[[], None] = lambda: None) -> Tool:
    """The tool with which a host reads files of the machine."""

    async def execute(call_id: str, arguments: Any, signal: Any, update: Any) -> ToolResult | str:
        path = arguments.get("path") or arguments["file"]
        if not path.startswith("/"):
            path = f"/project/{path}"
        meanwhile()
        return machine.sources._files[path][0].decode()

    return Tool(name, "reads a file", ANY, execute)


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}]}


def card_of_a(call_id: str, **more: Any) -> dict[str, Any]:
    return call("patch_state", call_id, cwd={"artifacts": {A: {**CARD, **more}}})


@pytest.mark.parametrize("path", [A, "a.py"])
def test_a_whole_conversation_compiles_a_card_from_what_it_has_read(path: str) -> None:
    async def body(machine: SimulatedMachine) -> None:
        turns = [
            card_of_a("c1", old=1),
            says("registered"),
            call("read", "c2", path=path),
            call("patch_state", "c3", session={"working": {"forgets": "the card"}}),
            card_of_a("c4"),
            says("compiled"),
            says("nothing to read"),
        ]
        async with wired(machine, turns, tools=[reader(machine)]) as found:
            await found.agent.prompt("Register a.py.")
            assert [item.reason for item in await found.session.invalidations()] == ["invalid-metadata"]
            await found.agent.prompt("How does a.py work?")
            results = [message for message in found.says() if message.startswith("toolResult: ")]
            assert results[1] == "toolResult: print(1)"
            assert "E_COMPILE_MISSING" in results[2]  # what was read is owed
            assert await found.session.invalidations() == []
            await found.agent.prompt("And now?")
            assert "artifact_invalidations" not in str(found.model.requests[-1].messages)
            check_well_formed(found.agent.state.messages)

    play(body)


@pytest.mark.parametrize("mode", ["active", "passive", "off"])
def test_a_call_that_failed_reads_nothing_and_other_modes_owe_nothing(mode: Any) -> None:
    async def body(machine: SimulatedMachine) -> None:
        async def fails(call_id: str, arguments: Any, signal: Any, update: Any) -> str:
            raise OSError("no such file")

        tools = [reader(machine) if mode != "active" else Tool("read", "fails", ANY, fails)]
        patch = call("patch_state", "c2", session={"working": {"n": 1}})
        async with wired(machine, [call("read", "c1", path=A), patch, says("done")], mode=mode, tools=tools) as found:
            if mode != "off":
                await found.session.patch_state(cwd={"artifacts": {A: CARD}})
            await found.agent.prompt("go")
            assert found.agent.state.error is None
            assert not any("E_COMPILE" in text for text in found.says())

    play(body)


def test_a_source_that_changes_while_it_is_read_obliges_nobody() -> None:
    async def body(machine: SimulatedMachine) -> None:
        def edit() -> None:
            machine.sources.write(A, b"print(2), meanwhile")

        patch = call("patch_state", "c2", session={"working": {"n": 1}})
        turns = [call("read", "c1", path=A), patch, says("done")]
        async with wired(machine, turns, tools=[reader(machine, meanwhile=edit)]) as found:
            await found.session.patch_state(cwd={"artifacts": {A: CARD}})
            await found.agent.prompt("go")
            assert (await found.session.read_state("session.working.n")).value == 1

    play(body)


def test_a_host_with_other_tools_says_what_their_calls_read() -> None:
    async def body(machine: SimulatedMachine) -> None:
        def path_of(context: Any) -> str | None:
            return context.arguments["file"] if context.call["name"] == "open" else None

        patch = call("patch_state", "c2", session={"working": {"n": 1}})
        turns = [call("open", "c1", file=A), patch, says("done")]
        rules = ConversationRules(read_path=path_of)
        async with wired(machine, turns, tools=[reader(machine, "open")], rules=rules) as found:
            await found.session.patch_state(cwd={"artifacts": {A: CARD}})
            await found.agent.prompt("go")
            assert any("E_COMPILE_MISSING" in text for text in found.says())

    play(body)


def test_what_memory_says_of_a_skill_is_one_more_block_of_the_result() -> None:
    async def body(machine: SimulatedMachine) -> None:
        async with wired(machine, [call("read", "c1", path=A), says("done")], tools=[reader(machine)]) as found:
            found.session.registered_skills([RegisteredSkill(A, "project")])
            await found.agent.prompt("go")
            result: Any = found.agent.state.messages[2]
            text, note = (block["text"] for block in result["content"])
            assert text == "print(1)"
            assert A in note
            assert "cwd" in note
            assert not result["isError"]
            said = [message for message in found.entries() if message["type"] == "message"]
            assert said[2]["message"]["content"][1]["text"] == note  # also where it is kept

    play(body)


def test_a_run_whose_memory_was_switched_off_meanwhile_keeps_what_its_tool_gave() -> None:
    async def body(machine: SimulatedMachine) -> None:
        tools = [Tool("read", "reads", ANY, lambda *_: switch())]

        async def switch() -> str:
            await found.session.set_mode("passive")
            return "print(1)"

        async with wired(machine, [call("read", "c1", path=A), says("done")], tools=tools) as found:
            await found.session.patch_state(cwd={"artifacts": {A: CARD}})
            await found.agent.prompt("go")
            result: Any = found.agent.state.messages[2]
            assert (result["isError"], result["content"][0]["text"]) == (False, "print(1)")

    play(body)
