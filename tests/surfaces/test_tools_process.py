"""Goal: every rule of the tool protocol (H1 to H5). Method: a real process, requests on its input, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.tool_process import held_turn, tool_process

A = {"cwd": {"working": {"a": 1}}}
pytestmark = pytest.mark.slow


def run_tools(agent_dir: Path, *options: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """A tool host that is given all its input at once."""
    command = [
        sys.executable,
        "-m",
        "strataflow",
        "tools",
        "--agent-dir",
        str(agent_dir),
        "--cwd",
        "/project",
        *options,
    ]
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False, **more)


async def test_each_line_gets_one_answer_with_its_id_and_the_host_goes_on(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        for id_ in (0, -1.5, "", "é\u2028", None, True, [1, {"a": []}], {"b": None}):
            answer = await host.ask("patch_state", A, id=id_)
            assert answer["id"] == id_
            assert answer["ok"] is True
        for line in (b"", b"not json", b'{"id": 1}', b"\xff"):
            await host.send_line(line)
            answer = await host.answer()
            assert (answer["id"], answer["ok"], answer["error"]["code"]) == (None, False, "E_REQUEST")
        await host.send_line(b'{"id": 5, "call": "patch_state", "arguments": {"cwd": {"working": {"a": 1, "a": 2}}}}')
        answer = await host.answer()
        assert (answer["id"], answer["error"]["code"]) == (5, "E_JSON")
        assert answer["error"]["data"] == {"pointer": "/cwd/working", "reason": "duplicate-key"}
        answer = await host.ask("read_state", {"path": "effective"}, id=6)
        assert answer == {"id": 6, "ok": True, "result": {"value": {"working": {"a": 1}}}}
        await host.end_input()
        assert await host.finish() == (0, [])


async def test_results_have_the_members_of_the_table_of_calls(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        patch = {**A, "session": {"working": {"gone": None}}}
        answer = (await host.ask("patch_state", patch))["result"]
        assert answer["text"].startswith("\n")
        del answer["text"]
        assert answer == {
            "changed": True,
            "scopes": ["cwd", "session"],
            "step": 1,
            "revision": "g0c1s0",
            "missing_deletions": [{"path": "/session/working/gone", "unavailable_path": "/session/working"}],
            "cascaded": [],
            "state_updates": {"projection": None, "effective": [{"path": ["working", "gone"], "deleted": True}]},
        }
        answer = (await host.ask("accept_response", {"text": "Done."}))["result"]
        assert answer == {"changed": True, "step": 2, "revision": "g0c1s1"}
        answer = (await host.ask("read_state", {"path": "effective", "projection": "keys"}))["result"]
        assert list(answer) == ["meta", "keys"]
        answer = (await host.ask("status"))["result"]
        expected = {"mode": "active", "revision": "g0c1s1", "step": 2, "history_depth": 2, "durability": "process"}
        assert expected.items() <= answer.items()
        assert answer["sizes"] == {"global": {}, "cwd": {"working": 7}, "session": {"response": 7}}
        assert answer["journal_bytes"] > 0
        assert (answer["waiting"], answer["lock_holder"]) == (0, None)
        assert (await host.ask("set_mode", {"mode": "off"}))["result"] == {"mode": "off"}
        assert (await host.ask("patch_state", A))["error"]["code"] == "E_OFF"
        assert (await host.ask("read_state", {"path": "cwd"}))["error"]["code"] == "E_OFF"


async def test_a_run_is_driven_by_calls_of_the_protocol(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        messages = [{"role": "user", "content": "go", "timestamp": 1}]
        assert (await host.ask("begin_run", {"prompt": "go"}))["result"] == {}
        first = (await host.ask("context", {"messages": messages}))["result"]
        assert first[1:] == messages
        assert '"specification":"go"' in first[0]["content"][0]["text"]
        calls = [{"id": 1, "name": "patch_state"}, {"id": "b", "name": "bash"}]
        blocked = (await host.ask("preflight", {"calls": calls}))["result"]
        assert [(call["id"], call["block"]) for call in blocked] == [(1, False), ("b", True)]
        assert blocked[1]["reason"]
        receipt = (await host.ask("patch_state", A))["result"]
        assert "state_updates" not in receipt
        assert (await host.ask("context", {"messages": messages}))["result"] == first
        assert (await host.ask("accept_response", {"text": "done"}))["result"]["changed"]
        later = (await host.ask("context", {"messages": messages}))["result"]
        assert '"specification"' not in later[0]["content"][0]["text"]
        assert (await host.ask("fork", {"session": "child"}))["result"] == {"session": "child"}
        assert (await host.ask("read_state", {"path": "response"}, session="child"))["result"] == {"value": "done"}
        for call, wrong in (("begin_run", {}), ("context", {"messages": 1}), ("preflight", {"calls": [1]})):
            assert (await host.ask(call, wrong))["error"]["code"] == "E_SHAPE"


async def test_a_host_in_any_language_tells_of_reads_and_skills(tmp_path: Path) -> None:
    source, skill = tmp_path / "source.py", tmp_path / "SKILL.md"
    source.write_text("print(1)")
    skill.write_text("# a skill")
    async with tool_process(tmp_path / "store") as host:
        card = {"artifacts": {str(source): {"description": "prints"}}}
        await host.ask("patch_state", {"cwd": card})
        given = {"skills": [{"path": str(skill), "provenance": "user"}]}
        assert (await host.ask("registered_skills", given))["result"] == {"skills": {str(skill): "global"}}
        await host.ask("begin_run", {"prompt": "go"})
        await host.ask("context", {"messages": [{"role": "user", "content": "go", "timestamp": 1}]})
        listed = (await host.ask("invalidations", {}))["result"]["invalidations"]
        assert listed == [{"path": str(source), "scope": "cwd", "reason": "invalid-metadata"}]
        for path, call_id in ((source, "1"), (source, "1"), (skill, "2")):
            answer = await host.ask("note_read", {"path": str(path), "call_id": call_id})
            assert answer["result"] == {"note": None}
        note = (await host.ask("note_read", {"path": str(skill), "call_id": "2"}))["result"]["note"]
        assert f'global.artifacts["{skill}"]' in note
        assert (await host.ask("patch_state", A))["error"]["code"] == "E_COMPILE_MISSING"
        assert (await host.ask("patch_state", {"cwd": card}))["result"]["changed"]
        assert (await host.ask("invalidations", {}))["result"] == {"invalidations": []}
        for call, wrong in (
            ("note_read", {"path": "/a"}),
            ("registered_skills", {"skills": {}}),
            ("invalidations", []),
        ):
            assert (await host.ask(call, wrong))["error"]["code"] == "E_SHAPE"


async def test_unknown_calls_are_refused_by_name(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        for call in ("nothing", ""):
            answer = await host.ask(call, {}, id=call)
            assert (answer["id"], answer["error"]["code"]) == (call, "E_REQUEST")
            assert answer["error"]["data"] == {"call": call}
        for arguments in ({}, {"id": 1, "more": 2}, []):
            assert (await host.ask("cancel", arguments, id=1))["error"]["code"] == "E_REQUEST"


async def test_errors_are_one_short_line_and_bad_places_are_refused_with_the_id(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        answer = await host.ask("patch_state", {"cwd": {"\n" + "x" * 10_000: {}}}, id=1)
        assert answer["error"]["code"] == "E_PLANE"
        assert len(answer["error"]["message"]) <= 220
        assert "\n" not in answer["error"]["message"]
        for place in ({"session": "a/b"}, {"session": ""}, {"cwd": "relative"}, {"cwd": ""}):
            answer = await host.ask("status", id=2, **place)
            assert (answer["id"], answer["error"]["code"]) == (2, "E_UNSUPPORTED")
        assert (await host.ask("patch_state", None, id=3))["error"]["code"] == "E_NO_SCOPE"
        for arguments, code in (([], "E_SHAPE"), (7, "E_SHAPE"), ({"final": {}}, "E_FIELD")):
            assert (await host.ask("patch_state", arguments))["error"]["code"] == code


async def test_requests_of_one_session_are_carried_out_and_answered_in_order(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        for number in range(200):
            await host.send("patch_state", {"session": {"working": {"n": number}}}, id=number)
            await host.send("read_state", {"path": "session.working.n"}, id=f"read {number}")
            await host.send_line(b'{"id": "bad %d", "call": "patch_state", "arguments": {"a": 1, "a": 1}}' % number)
        for number in range(200):
            assert (await host.answer())["id"] == number
            assert await host.answer() == {"id": f"read {number}", "ok": True, "result": {"value": number}}
            assert (await host.answer())["id"] == f"bad {number}"


async def test_sessions_run_side_by_side_and_spellings_of_a_directory_are_one(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("patch_state", A, cwd="/other/./x/", session="s"))["ok"]
        assert (await host.ask("read_state", {"path": "cwd"}, cwd="/other/x", session="s"))["result"]["value"]
        assert (await host.ask("status"))["ok"]
        with held_turn(tmp_path):
            await host.send("patch_state", {"cwd": {"working": {"a": 2}}}, id="waits", session="s", cwd="/other/x")
            await host.send("read_state", {"path": "cwd.working.a"}, id="behind", session="s", cwd="/other/x")
            assert (await host.ask("read_state", {"path": "cwd"}, id="free"))["id"] == "free"
        assert (await host.answer())["id"] == "waits"
        assert await host.answer() == {"id": "behind", "ok": True, "result": {"value": 2}}


async def test_cancel_withdraws_what_waits_and_nothing_of_it_is_stored(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("status"))["ok"]
        with held_turn(tmp_path):
            for number, call in enumerate(("patch_state", "accept_response", "set_mode", "patch_state")):
                arguments = {"patch_state": A, "accept_response": {"text": "x"}, "set_mode": {"mode": "passive"}}[call]
                await host.send(call, arguments, id=number)
            for number in (3, 0, 1):  # behind others, then those that are next
                await host.send("cancel", {"id": number}, id=f"cancel {number}")
                answers = {str(answer["id"]): answer for answer in (await host.answer(), await host.answer())}
                assert answers[f"cancel {number}"]["result"] == {"withdrawn": True}
                assert answers[str(number)]["error"]["code"] == "E_ABORTED"
            assert (await host.ask("cancel", {"id": 0}))["result"] == {"withdrawn": False}
            assert (await host.ask("cancel", {"id": "never"}))["result"] == {"withdrawn": False}
        assert await host.answer() == {"id": 2, "ok": True, "result": {"mode": "passive"}}
        status = (await host.ask("status"))["result"]
        assert (status["step"], status["revision"]) == (0, "g0c0s0")
        assert (await host.ask("cancel", {"id": 2}))["result"] == {"withdrawn": False}
        assert (await host.ask("patch_state", A))["result"]["step"] == 1


async def test_ids_are_told_apart_by_type_when_a_request_is_withdrawn(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("status"))["ok"]
        with held_turn(tmp_path):
            await host.send("patch_state", A, id=1)
            for other in (True, "1", [1], None):
                assert (await host.ask("cancel", {"id": other}))["result"] == {"withdrawn": False}
            await host.send("cancel", {"id": 1}, id="c")
            answers = [await host.answer(), await host.answer()]
            assert {"id": "c", "ok": True, "result": {"withdrawn": True}} in answers


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_withdraws_what_waits_and_ends_the_process(tmp_path: Path, number: int, code: int) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("patch_state", A))["ok"]
        with held_turn(tmp_path):
            for waiting in range(3):
                await host.send("patch_state", {"cwd": {"working": {"a": 2}}}, id=waiting)
            await host.send("read_state", {"path": "cwd"}, id="other", session="other")
            await host.ask("cancel", {"id": "sync"})  # everything before it was read
            began = trio.current_time()
            host.process.send_signal(number)
            ended, answers = await host.finish()
            assert trio.current_time() - began < 5.0
        assert ended == code
        assert not (tmp_path / "state-flow" / ".state-flow-publication.lock").exists()
        assert {answer["id"] for answer in answers} == {0, 1, 2, "other"}
        assert {answer["error"]["code"] for answer in answers} == {"E_ABORTED"}
    async with tool_process(tmp_path) as host:
        assert (await host.ask("read_state", {"path": "cwd.working.a"}))["result"] == {"value": 1}


async def test_a_signal_ends_a_host_whose_client_does_not_read(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("patch_state", {"cwd": {"working": {"big": "x" * 300_000}}}))["ok"]
        for number in range(5):
            await host.send("read_state", {"path": "cwd"}, id=number)
        began = trio.current_time()
        host.process.send_signal(signal.SIGTERM)
        with trio.fail_after(20):
            assert await host.process.wait() == 143
        assert trio.current_time() - began < 5.0


async def test_a_signal_ends_a_host_that_waits_for_pi_to_let_go(tmp_path: Path) -> None:
    store = tmp_path / "state-flow"
    store.mkdir()
    (store / ".state-flow-publication.lock").write_text(f"{os.getpid()}\n")
    async with tool_process(tmp_path) as host:
        await host.send("status", id=1)
        assert (await host.ask("cancel", {"id": 2}, id="sync"))["id"] == "sync"
        host.process.send_signal(signal.SIGTERM)
        code, answers = await host.finish()
        assert code == 143
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, "E_ABORTED")]
    assert (store / ".state-flow-publication.lock").exists()


async def test_a_client_that_stops_reading_for_good_ends_the_host(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("patch_state", A))["ok"]
        assert host.process.stdout is not None
        await host.process.stdout.aclose()
        await host.send("patch_state", {"cwd": {"working": {"a": 2}}})
        with trio.fail_after(20):
            assert await host.process.wait() == 1
    async with tool_process(tmp_path) as host:
        assert (await host.ask("read_state", {"path": "cwd.working.a"}))["result"] == {"value": 2}


def test_input_from_a_file_or_nowhere_is_answered_to_its_end(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number, "call": "patch_state", "arguments": A}) for number in range(50)]
    file = tmp_path / "requests"
    file.write_text("\n".join(lines))  # the last line has no end
    with file.open("rb") as stdin:
        done = run_tools(tmp_path / "agent", stdin=stdin)
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list(range(50))
    done = run_tools(tmp_path / "agent", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_store_that_cannot_be_used_answers_and_ends_with_three(tmp_path: Path) -> None:
    store = tmp_path / "state-flow"
    store.mkdir()
    (store / "config.json").write_text('{"mode": "loud"}')
    done = run_tools(tmp_path, input=b'{"id": 1, "call": "status", "arguments": {}}\n', stderr=subprocess.PIPE)
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    assert (answer["id"], answer["error"]["code"]) == (1, "E_CONFIG")
    assert b"E_CONFIG" in done.stderr
    assert b"Traceback" not in done.stderr


def test_modes_come_from_the_option_then_the_settings_then_the_command(tmp_path: Path) -> None:
    def mode(agent: str, *options: str) -> str:
        request = b'{"id": 1, "call": "status", "arguments": {}}\n'
        done = run_tools(tmp_path / agent, *options, input=request)
        found: str = json.loads(done.stdout)["result"]["mode"]
        return found

    assert mode("a") == "active"
    assert mode("a", "--mode", "passive") == "passive"
    assert mode("a") == "active"  # the command's default holds for existing sessions too
    store = tmp_path / "b" / "state-flow"
    store.mkdir(parents=True)
    (store / "config.json").write_text('{"mode": "passive"}')
    assert mode("b") == "passive"
    assert mode("b", "--mode", "active") == "active"
    assert mode("b") == "active"  # what is configured is for new sessions


def test_the_history_limit_comes_from_the_option_then_the_settings(tmp_path: Path) -> None:
    store = tmp_path / "state-flow"
    store.mkdir()
    (store / "config.json").write_text('{"historyLimit": 3}')
    request = b'{"id": 1, "call": "status", "arguments": {}}\n'
    for options, limit in (((), 3), (("--history-limit", "100"), 100)):
        done = run_tools(tmp_path, *options, input=request)
        assert json.loads(done.stdout)["result"]["history_limit"] == limit
    assert run_tools(tmp_path, "--history-limit", "101", input=b"", stderr=subprocess.PIPE).returncode == 2
