"""Goal: a chat serves scripts as well: no colour, results apart from remarks, exit codes. Method: ``strataflow chat``
as a real process over pipes; who answers is a script, or a model server in the test's loop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.chats import chat, chat_command, patches, says, script
from kit.model_server import answers, is_silent, model_server, refuses
from kit.model_wires import WIRE_NAMES, Called, Said, WireName
from strataflow import SessionTree

pytestmark = pytest.mark.slow
FORGETFUL = "OPENAI_API_KEY ANTHROPIC_API_KEY OPENAI_BASE_URL ANTHROPIC_BASE_URL STRATAFLOW_MODEL".split()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FORGETFUL:
        monkeypatch.delenv(name, raising=False)


def messages(folder: Path) -> list[Any]:
    """The conversation as its file has it."""
    (path,) = (folder / "agent" / "sessions").glob("*/*_main.jsonl")
    return SessionTree.open(str(path), read_only=True).build_session_context().messages


def test_each_line_is_answered_before_the_next_and_results_stand_alone(tmp_path: Path) -> None:
    model = script(tmp_path, patches("c1", cwd={"contract": {"say": "please"}}), says("No", "ted."), says("Please."))
    done = chat(chat_command(tmp_path, model=model), "Say please", "", "/memory contract", "/follow What now?", "/mode")
    assert done.stdout == 'Noted.\n{\n  "say": "please"\n}\nPlease.\nstate-flow active\n'
    assert done.stderr == '[patch_state {"cwd":{"contract":{"say":"please"}}}]\n'
    assert done.returncode == 0
    again = chat(chat_command(tmp_path, model=script(tmp_path)), "/memory effective")
    assert json.loads(again.stdout) == {"contract": {"say": "please"}, "response": "Please."}
    assert again.stderr == "the conversation goes on: 6 messages\n"
    read = [sys.executable, "-m", "strataflow", "read", "--agent-dir", str(tmp_path / "agent"), "contract", "--json"]
    read += ["--cwd", str(tmp_path / "project")]
    assert subprocess.check_output(read, text=True) == '{"value":{"say":"please"}}\n'


def test_a_line_that_fails_is_told_and_the_exit_code_says_so(tmp_path: Path) -> None:
    failing = {"blocks": [], "stopReason": "error", "errorMessage": "no such deployment"}
    done = chat(chat_command(tmp_path, model=script(tmp_path, failing, says("Fine."))), "One", "Two")
    assert (done.returncode, done.stdout, done.stderr) == (1, "Fine.\n", "no such deployment\n")
    for line, told in (
        ("/teh", "there is no command /teh: see /help, or begin the line with a space to say it"),
        ("/steer", "/steer TEXT: the text is missing"),
        ("/mode loud", "/mode takes one of active, passive, off"),
        ("/memory nowhere[", "nowhere["),
        ("/tree nothing", "nothing"),
        ("/compact", "Nothing to compact"),
    ):
        done = chat(chat_command(tmp_path, model=script(tmp_path)), line)
        assert (done.returncode, done.stdout) == (1, ""), line
        assert told in done.stderr, line
    done = chat(chat_command(tmp_path, model=script(tmp_path, says("A folder."))), " /teh is what?")
    assert (done.returncode, done.stdout) == (0, "A folder.\n")


def test_a_call_that_memory_refuses_is_told_and_the_model_goes_on(tmp_path: Path) -> None:
    turns = patches("c1", session={"working": {"n": 2**70}}), patches("c2", lives={"x": 1}), says("Sorry.")
    done = chat(chat_command(tmp_path, model=script(tmp_path, *turns)), "Store it")
    assert (done.returncode, done.stdout) == (0, "Sorry.\n")
    first, of_first, second, of_second = done.stderr.splitlines()
    assert first == '[patch_state {"session":{"working":{"n":1180591620717411303424}}}]'
    assert of_first.startswith("[patch_state: ")
    assert second == '[patch_state {"lives":{"x":1}}]'
    assert "lives" in of_second


def test_lines_after_quit_are_not_read_and_the_last_needs_no_end(tmp_path: Path) -> None:
    done = chat(chat_command(tmp_path, model=script(tmp_path, says("One."))), "Hello", "/quit", "/nonsense")
    assert (done.returncode, done.stdout) == (0, "One.\n")
    command = chat_command(tmp_path, model=script(tmp_path, says("Two.")))
    done = subprocess.run(command, input="Hello", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Two.\n")


@pytest.mark.parametrize(
    "model, code, told",
    [
        (None, 2, "strataflow chat: no model: give --model PROVIDER:ID"),
        ("gpt-4o", 2, "strataflow chat: --model 'gpt-4o' is not PROVIDER:ID"),
        ("scripted:/no/such/file", 2, "strataflow chat: cannot read the script /no/such/file: No such file"),
        ("openai:gpt-40", 1, "strataflow chat: E_MODEL: model "),
        ("openai:gpt-4o", 1, "strataflow chat: E_MODEL_ACCESS: no key for openai: give api_key, or set OPENAI_API_KEY"),
    ],
)
def test_what_is_wrong_with_the_model_is_told_before_anything_is_opened(
    tmp_path: Path, model: str | None, code: int, told: str
) -> None:
    done = chat(chat_command(tmp_path, model=model), "Hello")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(told), done.stderr
    assert not (tmp_path / "agent").exists()


def test_a_missing_extra_and_a_broken_script_are_told_before_anything_is_opened(tmp_path: Path) -> None:
    (tmp_path / "httpx.py").write_text("raise ImportError('not here')\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENAI_API_KEY": "a-key-of-nobody"}
    done = chat(chat_command(tmp_path, model="openai:gpt-4o"), "Hello", env=environment)
    assert done.returncode == 1
    assert (
        done.stderr
        == "strataflow chat: E_MODEL_EXTRA: asking models needs httpx: pip install httpx, or strataflow[models]\n"
    )
    done = chat(chat_command(tmp_path, model=script(tmp_path, {"block": []})), "Hello")
    assert done.returncode == 1
    assert done.stderr.startswith("strataflow chat: E_AGENT_SCRIPT: turn 1 of the script")
    assert not (tmp_path / "agent").exists()


def test_a_store_that_can_not_be_used_is_exit_code_three(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("no folder")
    done = chat(chat_command(tmp_path, model=script(tmp_path, says("Never."))), "Hello")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("strataflow chat: E_DISK: ")


def test_the_model_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATAFLOW_MODEL", script(tmp_path, says("Hello.")))
    done = chat(chat_command(tmp_path), "Hello")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")


@pytest.mark.parametrize("wire", WIRE_NAMES)
async def test_a_served_model_is_asked_with_the_key_and_the_files_of_the_project(
    tmp_path: Path, wire: WireName, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = "openai" if wire == "openai-completions" else "anthropic"
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "a-key-of-nobody")
    project = tmp_path / "project"
    (project / ".pi" / "prompts").mkdir(parents=True)
    (project / "AGENTS.md").write_text("Always say moin.")
    (project / ".pi" / "prompts" / "greet.md").write_text("Greet $1 warmly.")
    patch = Called("c1", "patch_state", ('{"session": {"working": ', '{"who": "Ada"}}}'))
    plays = answers(patch), answers(Said("text", ("Moin, ", "Ada.")))
    async with model_server(*plays) as server:
        command = chat_command(tmp_path, "--base-url", server.base_url(wire), model=f"{provider}:m-1")
        run = partial(chat, command, "/greet Ada", "/memory working")
        done = await trio.to_thread.run_sync(run)
    assert (done.returncode, done.stdout) == (0, 'Moin, Ada.\n{\n  "who": "Ada"\n}\n'), done.stderr
    first, second = server.exchanges
    sent = json.dumps(first.body)
    assert "Greet Ada warmly." in sent
    assert "Always say moin." in sent
    assert "no tools but those of your memory" in sent
    assert "a-key-of-nobody" in " ".join(first.headers.values())
    assert "a-key-of-nobody" not in done.stdout + done.stderr + sent
    assert "Patch accepted in session scope." in json.dumps(second.body)


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_and_leaves_a_conversation_that_goes_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    async with model_server(is_silent) as server:
        command = chat_command(tmp_path, "--base-url", server.base_url("openai-completions"), model="local:m-1")
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        async with process.stdin, process.stdout:
            await process.stdin.send_all(b"Hello\n")
            await server.wait_asked()
            process.send_signal(number)
            with trio.fail_after(30):
                assert await process.wait() == code
    assert [message["role"] for message in messages(tmp_path)] == ["user", "assistant"]
    assert messages(tmp_path)[-1]["stopReason"] == "aborted"
    doctor = [sys.executable, "-m", "strataflow", "doctor", "--agent-dir", str(tmp_path / "agent")]
    assert (await trio.run_process(doctor, capture_stdout=True, check=False)).returncode == 0


async def test_a_model_that_refuses_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    plays = refuses(400, "invalid_request_error", "no such model"), answers(Said("text", ("Here.",)))
    async with model_server(*plays) as server:
        command = chat_command(tmp_path, "--base-url", server.base_url("openai-completions"), model="local:m-1")
        done = await trio.to_thread.run_sync(partial(chat, command, "One", "Two"))
    assert (done.returncode, done.stdout) == (1, "Here.\n")
    assert "no such model" in done.stderr


def test_a_long_conversation_is_summed_up_when_it_is_asked_for(tmp_path: Path) -> None:
    long = says("word " * 30_000)
    model = script(tmp_path, long, long, *[says("They said many words.")] * 2, says("Yes."))
    done = chat(chat_command(tmp_path, model=model), "Talk", "More", "/compact the number of words", "Still there?")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Yes.\n")
    assert "compacting the session (manual)" in done.stderr
    assert "They said many words." in messages(tmp_path)[0]["summary"]


def test_skills_and_what_is_wrong_with_files_are_told(tmp_path: Path) -> None:
    skills = tmp_path / "agent" / "skills"
    (skills / "brew").mkdir(parents=True)
    (skills / "brew" / "SKILL.md").write_text("---\nname: brew\ndescription: Brews tea.\n---\nBoil the water first.\n")
    (skills / "bad").mkdir()
    (skills / "bad" / "SKILL.md").write_text("---\nname: bad\n---\nNothing.\n")
    done = chat(chat_command(tmp_path, model=script(tmp_path, says("Boiling."))), "/help", "/skill:brew now")
    assert (done.returncode, done.stdout.endswith("Boiling.\n")) == (0, True)
    assert "/skill:brew\n" in done.stdout
    assert f"{skills}/bad/SKILL.md: " in done.stderr
    assert "Boil the water first." in json.dumps(messages(tmp_path)[0])


async def test_a_reader_that_leaves_ends_the_chat(tmp_path: Path) -> None:
    command = chat_command(tmp_path, model=script(tmp_path, *[says("One.")] * 3))
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin:
        async with process.stdout:
            await process.stdin.send_all(b"Hello\n")
            assert await process.stdout.receive_some() == b"One."
        await process.stdin.send_all(b"Hello\n/help\n")
        with trio.fail_after(30):
            assert await process.wait() == 1
