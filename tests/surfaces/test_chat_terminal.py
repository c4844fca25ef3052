"""Goal: a person can talk with the agent, steer it, stop it and look at its memory. Method: ``strataflow chat`` in a
real terminal, its keys pressed and its screen read; who answers is a script, or a model server that waits for the test.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kit.chats import chat_command, patches, says, script
from kit.model_server import Exchange, ModelServer, answers, model_server
from kit.model_wires import WIRE_NAMES, Called, Said, WireName, stream_of
from kit.terminal import Terminal, terminal

pytestmark = pytest.mark.slow
PROVIDERS: dict[WireName, str] = {"openai-completions": "local", "anthropic-messages": "anthropic"}


@asynccontextmanager
async def asked_chat(folder: Path, server: ModelServer, wire: WireName) -> AsyncIterator[Terminal]:
    """A chat whose model is that server."""
    model = f"{PROVIDERS[wire]}:m-1"
    async with terminal(chat_command(folder, "--base-url", server.base_url(wire), model=model), folder) as screen:
        await screen.wait_for_prompt(">")
        yield screen


class Halting:
    """A play that says one word and waits for the test before the next."""

    def __init__(self) -> None:
        self.may_go_on = trio.Event()
        self.was_left = trio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        pieces = stream_of(exchange.wire, [Said("text", ("Beginning ", "with the end."))])
        first = next(number for number, piece in enumerate(pieces) if b"Beginning" in piece) + 1
        await exchange.head()
        for piece in pieces[:first]:
            await exchange.piece(piece)
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await exchange.wait_left()
                self.was_left.set()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await self.may_go_on.wait()
            nursery.cancel_scope.cancel()
        if not self.was_left.is_set():
            for piece in pieces[first:]:
                await exchange.piece(piece)
            await exchange.end()


async def test_a_conversation_fills_a_memory_that_is_there_after_a_restart(tmp_path: Path) -> None:
    model = script(tmp_path, patches("c1", session={"working": {"tea": "green"}}), says("I noted ", "it."))
    async with terminal(chat_command(tmp_path, model=model), tmp_path) as screen:
        await screen.wait_for_prompt(">")
        await screen.type("I like green tea")
        seen = await screen.wait_for("I noted it.")
        assert '[patch_state {"session":{"working":{"tea":"green"}}}]' in seen
        await screen.type("/memory working")
        await screen.wait_for('"tea": "green"')
        await screen.type("/quit")
        await screen.wait_for("[exit 0]")
    async with terminal(chat_command(tmp_path, model=script(tmp_path, says("Green."))), tmp_path) as screen:
        await screen.wait_for("the conversation goes on: 4 messages")
        await screen.type("/memory")
        await screen.wait_for('"response": "I noted it."')
        await screen.type("Which tea?")
        await screen.wait_for("Green.")
        await screen.press("C-d")
        await screen.wait_for("[exit 0]")


@pytest.mark.parametrize("wire", WIRE_NAMES)
async def test_steering_during_an_answer_comes_before_the_next_one(
    tmp_path: Path, wire: WireName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-nobody")
    halting = Halting()
    plays = (halting, answers(Said("text", ("Steered.",))), answers(Said("text", ("Followed.",))))
    async with model_server(*plays) as server, asked_chat(tmp_path, server, wire) as screen:
        await screen.type("Count to ten")
        await screen.wait_for("Beginning")
        await screen.type("and then this")
        await screen.wait_for("(comes after this answer")
        await screen.type("/steer Stop at three")
        await screen.wait_for("(comes before the next model call)")
        halting.may_go_on.set()
        seen = await screen.wait_for("Followed.")
        assert "» Stop at three" in seen
        assert seen.index("with the end.") < seen.index("Steered.") < seen.index("» and then this")
        assert "Stop at three" in json.dumps(server.exchanges[1].body)
        assert "and then this" not in json.dumps(server.exchanges[1].body)
        assert "and then this" in json.dumps(server.exchanges[2].body)
        await screen.press("C-d")
        assert "a-key-of-nobody" not in await screen.wait_for("[exit 0]")


@pytest.mark.parametrize("wire", WIRE_NAMES)
async def test_control_c_stops_the_answer_and_not_the_program(
    tmp_path: Path, wire: WireName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-nobody")
    halting = Halting()
    memory = Called("c1", "read_state", ('{"path": "effective"}',))
    plays = (halting, answers(memory), answers(Said("text", ("Here again.",))), answers(Said("text", ("Later.",))))
    async with model_server(*plays) as server, asked_chat(tmp_path, server, wire) as screen:
        await screen.type("Go on for ever")
        await screen.wait_for("Beginning")
        await screen.type("and say more")
        await screen.wait_for("(comes after this answer")
        await screen.press("C-c")
        await screen.wait_for("Request was aborted")
        await screen.wait_for("what you have queued waits for your next line")
        with trio.fail_after(30):
            await halting.was_left.wait()
        await screen.type("Are you there?")
        seen = await screen.wait_for("Later.")
        assert "[read_state" in seen
        assert seen.index("Here again.") < seen.index("» and say more")
        await screen.wait_for_prompt(">")
        await screen.press("C-c")
        await screen.wait_for("(Ctrl-C once more")
        await screen.type("/mode")
        await screen.wait_for("state-flow active")
        await screen.press("C-c")
        await screen.wait_for("(Ctrl-C once more", count=2)
        await screen.press("C-c")
        await screen.wait_for("[exit 130]")


async def test_what_needs_quiet_is_refused_during_an_answer_and_what_does_not_is_done(tmp_path: Path) -> None:
    halting = Halting()
    async with model_server(halting) as server, asked_chat(tmp_path, server, "openai-completions") as screen:
        await screen.press("x")
        await screen.press("Left")
        await screen.type("yz")
        await screen.wait_for("Beginning")
        await screen.type("/compact")
        await screen.wait_for("something is under way")
        await screen.type("/tree nothing")
        await screen.wait_for("something is under way", count=2)
        await screen.type("/tree")
        await screen.wait_for("user xyz")
        await screen.type("/memory nothing")
        await screen.wait_for("is not a read path")
        halting.may_go_on.set()
        await screen.wait_for("with the end.")
        await screen.wait_for_prompt(">")


async def test_the_end_of_input_during_an_answer_closes_everything(tmp_path: Path) -> None:
    halting = Halting()
    async with model_server(halting) as server, asked_chat(tmp_path, server, "openai-completions") as screen:
        await screen.type("Go on for ever")
        await screen.wait_for("Beginning")
        await screen.press("C-d")
        seen = await screen.wait_for("[exit 0]")
        assert "Request was aborted" in seen


async def test_what_was_queued_when_the_program_was_killed_comes_with_the_next_line(tmp_path: Path) -> None:
    halting = Halting()
    async with model_server(halting) as server, asked_chat(tmp_path, server, "openai-completions") as screen:
        await screen.type("Go on for ever")
        await screen.wait_for("Beginning")
        await screen.type("and mind the gap")
        await screen.wait_for("(comes after this answer")
        os.kill(await screen.process_id("strataflow"), signal.SIGKILL)
        await screen.wait_for("[exit 137]")
    model = script(tmp_path, says("Here I am."), says("Minded."))
    async with terminal(chat_command(tmp_path, model=model), tmp_path) as screen:
        await screen.wait_for("messages wait from last time")
        await screen.type("Are you there?")
        seen = await screen.wait_for("Minded.")
        assert seen.index("Here I am.") < seen.index("» and mind the gap") < seen.index("Minded.")


async def test_the_tree_is_shown_and_another_branch_can_be_taken(tmp_path: Path) -> None:
    model = script(tmp_path, says("Paris."), says("Rome."))
    async with terminal(chat_command(tmp_path, model=model), tmp_path) as screen:
        await screen.wait_for_prompt(">")
        await screen.type("The capital of France?")
        await screen.wait_for("Paris.")
        await screen.type("/tree")
        seen = await screen.wait_for("assistant Paris.")
        (asked,) = [line.split()[1] for line in seen.splitlines() if "user The capital" in line]
        assert any(line.startswith("* ") and line.endswith("assistant Paris.") for line in seen.splitlines())
        await screen.type(f"/tree {asked}")
        await screen.wait_for("You said there: The capital of France?")
        await screen.type("The capital of Italy?")
        await screen.wait_for("Rome.")
        await screen.type("/tree")
        seen = await screen.wait_for("assistant Rome.")
        lines = seen[seen.rindex("/tree") :].splitlines()
        assert any(line.startswith("* ") and line.endswith("assistant Rome.") for line in lines)
        assert any(line.startswith("   ") and line.endswith("assistant Paris.") for line in lines)
        await screen.type("/tree nothing")
        await screen.wait_for("nothing not found")


async def test_the_mode_of_memory_can_be_seen_and_chosen(tmp_path: Path) -> None:
    async with terminal(chat_command(tmp_path, model=script(tmp_path, says("Yes."))), tmp_path) as screen:
        await screen.wait_for_prompt(">")
        await screen.type("/mode passive")
        await screen.wait_for("state-flow passive")
        await screen.type("/mode off")
        await screen.wait_for("state-flow off")
        await screen.type("/memory")
        await screen.wait_for("off")
        await screen.type("/mode loud")
        await screen.wait_for("/mode takes one of active, passive, off")
        await screen.type("Do you hear me?")
        await screen.wait_for("Yes.")
    async with terminal(chat_command(tmp_path, "--mode", "passive", model=script(tmp_path)), tmp_path) as screen:
        await screen.wait_for("memory passive")


async def test_what_a_model_says_can_not_work_the_terminal(tmp_path: Path) -> None:
    model = script(tmp_path, says("red \x1b[31m title \x1b]0;mine\x07 back \r\x08."))
    async with terminal(chat_command(tmp_path, model=model), tmp_path) as screen:
        await screen.wait_for_prompt(">")
        await screen.type("Misbehave")
        await screen.wait_for("red \ufffd[31m title \ufffd]0;mine\ufffd back \ufffd\ufffd.")


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_signal_ends_the_chat_and_the_answer_that_came_is_kept(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    halting = Halting()
    async with model_server(halting) as server, asked_chat(tmp_path, server, "openai-completions") as screen:
        await screen.type("Go on for ever")
        await screen.wait_for("Beginning")
        os.kill(await screen.process_id("strataflow"), number)
        await screen.wait_for(f"[exit {code}]")
    async with terminal(chat_command(tmp_path, model=script(tmp_path)), tmp_path) as screen:
        await screen.wait_for("the conversation goes on: 2 messages")
        await screen.type("/tree")
        await screen.wait_for("assistant Beginning")
