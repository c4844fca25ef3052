"""The commands for people and scripts: what they print, and how they end (0, 1, 2, 3)."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strataflow
from kit.stores import all_bytes
from kit.tool_process import held_turn
from strataflow.runtime.surfaces.cli import main
from strataflow.runtime.surfaces.terminal import Progress, styled

PATCH: dict[str, Any] = {
    "global": {"contract": {"g": True}},
    "cwd": {"working": {"list": [1, 2, 3]}},
    "session": {"working": {"s": "x"}},
}
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command on an agent directory of this test: its exit code, standard output and standard error."""
    monkeypatch.setenv("STRATAFLOW_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments, "1.2.3")
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def store(command: Command, tmp_path: Path) -> Path:
    """A store with one transition in all three scopes."""
    (tmp_path / "patch.json").write_text(json.dumps(PATCH))
    code, out, _ = command("patch", "patch.json", "--durability", "process")
    assert code == 0
    assert "Patch accepted in global+cwd+session scopes." in out
    return tmp_path / "agent" / "state-flow"


def test_the_command_line_tells_its_version_and_its_help(command: Command) -> None:
    assert command("--version") == (0, "strataflow 1.2.3\n", "")
    for name in ("demo", "tools", "read", "patch", "log", "status", "doctor", "checkpoint", "unlock"):
        code, out, _ = command(name, "--help")
        assert code == 0
        assert f"strataflow {name}" in out
        assert name in command("--help")[1]


def test_wrong_usage_ends_with_two(command: Command, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    for arguments in (
        (),
        ("nothing",),
        ("read",),
        ("read", "effective", "--projection", "all"),
        ("read", "effective", "--history-limit", "101"),
        ("log", "--limit", "0"),
        ("patch", "no-such-file.json"),
        ("patch", "agent"),
        ("tools", "--mode", "loud"),
        ("read", "effective", "--session", "a/b"),
        ("status", "--session", " a"),
        ("status", "--store", ""),
        ("doctor", "--agent-dir", ""),
        ("demo", "--patches", "0"),
        ("demo", "--agent-dir", str(tmp_path)),
    ):
        code, out, err = command(*arguments)
        assert (code, out) == (2, ""), arguments
        assert err
        assert "Traceback" not in err


def test_a_document_that_is_no_patch_begins_no_session(command: Command, tmp_path: Path) -> None:
    for text, error in (
        ("[]", "E_SHAPE"),
        ('{"other": {}}', "E_FIELD"),
        ('{"cwd": {}}', "E_SCOPE_EMPTY"),
        ('{"cwd": {"plan": {"a": 1}}}', "E_PLANE"),
    ):
        (tmp_path / "patch.json").write_text(text)
        code, out, err = command("patch", "patch.json")
        assert (code, out) == (1, "")
        assert err.startswith(f"strataflow patch: {error}: ")
    assert not (tmp_path / "agent").exists()


def test_a_patch_comes_from_a_file_or_from_standard_input(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"cwd": {"working": {"list": {"[0]": 9}}}}')))
    code, out, _ = command("patch", "-", "--json")
    assert code == 0
    answer = json.loads(out)
    assert (answer["changed"], answer["step"], answer["revision"]) == (True, 2, "g1c2s1")
    assert command("read", "cwd.working.list", "--json")[1] == '{"value":[9,2,3]}\n'


@pytest.mark.parametrize(
    "text, code",
    [
        ("{", "E_JSON"),
        ("", "E_JSON"),
        ('{"cwd": {"working": {"a": 1, "a": 2}}}', "E_JSON"),
        ('{"cwd": {"working": {"a": NaN}}}', "E_JSON"),
        ('{"cwd": {"working": {"a": 1}}} x', "E_JSON"),
        ('{"cwd": {"notes": {}}}', "E_PLANE"),
        ('{"final": {}}', "E_FIELD"),
        ("[]", "E_SHAPE"),
        ('{"cwd": {"working": {"list": {"[7]": 1}}}}', "E_INDEX"),
    ],
)
def test_a_refused_patch_ends_with_one_and_stores_nothing(command: Command, store: Path, text: str, code: str) -> None:
    Path("refused.json").write_text(text)
    ended, out, err = command("patch", "refused.json")
    assert (ended, out) == (1, "")
    assert err.startswith(f"strataflow patch: {code}: ")
    assert len(err.splitlines()) == 1
    assert json.loads(command("status", "--json")[1])["step"] == 1


def test_reading_shows_values_keys_patches_and_several_paths(command: Command, store: Path) -> None:
    assert json.loads(command("read", "effective")[1]) == {
        "contract": {"g": True},
        "working": {"list": [1, 2, 3], "s": "x"},
    }
    assert command("read", "cwd.working.list[0:2]", "session.working.s", "--json")[1] == '{"value":[[1,2],"x"]}\n'
    assert command("read", "cwd.working", "--projection", "keys", "--json")[1] == (
        '{"meta":{"type":"object","size":1},"keys":{"list":"array"}}\n'
    )
    assert command("read", "global", "--projection", "patch", "--json")[1] == '{"patch":{"contract":{"g":true}}}\n'
    assert command("read", "effective[1]", "--json")[1] == '{"value":{}}\n'
    for path, code in (("nothing", "E_PATH"), ("cwd.working.none", "E_MISSING"), ("cwd[8]", "E_HISTORY_RANGE")):
        ended, out, err = command("read", path)
        assert (ended, out) == (1, "")
        assert f": {code}: " in err


def test_what_does_not_exist_reads_as_empty_and_is_not_made(command: Command, tmp_path: Path) -> None:
    assert command("read", "effective", "--json") == (0, '{"value":{}}\n', "")
    assert command("log") == (0, "", "")
    assert command("status")[0] == 0
    assert command("doctor")[0] == 0
    assert command("checkpoint")[0] == 0
    assert command("unlock")[0] == 0
    assert command("read", "effective", "--session", "nobody", "--cwd", "elsewhere")[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_the_log_tells_sequence_time_session_scopes_and_records(command: Command, store: Path) -> None:
    (line,) = command("log", "--json")[1].splitlines()
    entry = json.loads(line)
    assert entry["scopes"] == ["global", "cwd", "session"]
    assert entry["patches"] == PATCH
    assert (entry["session"], entry["cwd"]) == ("main", os.getcwd())
    assert entry["seq"] >= 1
    assert entry["time_ms"] > 1_600_000_000_000
    out = command("log", "--cwd", ".", "--session", "main")[1]
    assert f"#{entry['seq']}  " in out
    assert '  cwd {"working":{"list":[1,2,3]}}' in out
    assert command("log", "--session", "other")[1] == ""
    assert command("log", "--cwd", "/other")[1] == ""


def test_the_log_of_a_path_tells_who_touched_it_as_one_session_sees_it(
    command: Command, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text('{"cwd": {"working": {"list": []}}, "session": {"working": {"s": "secret"}}}')
    assert command("patch", "other.json", "--session", "other", "--durability", "process")[0] == 0
    lines = command("log", "working.list", "--json")[1].splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(entry["session"], entry["scopes"]) for entry in entries] == [
        ("main", ["global", "cwd", "session"]),
        ("other", ["cwd"]),
    ]
    assert "secret" not in command("log", "effective")[1]
    assert "secret" in command("log", "session.working.s", "--session", "other")[1]
    assert command("log", "working.list", "--limit", "1")[1].count("#") == 1
    assert command("log", "working.list", "--cwd", "/elsewhere")[1] == ""
    for path, code in (("nothing", "E_PATH"), ("cwd[1].working", "E_READ_SHAPE")):
        ended, out, err = command("log", path)
        assert (ended, out) == (1, "")
        assert f": {code}: " in err


def test_status_tells_mode_revisions_sizes_and_memory(command: Command, store: Path) -> None:
    status = json.loads(command("status", "--json")[1])
    assert (status["mode"], status["step"], status["revision"], status["depth"]) == ("active", 1, "g1c1s1", 1)
    assert status["scopes"]["cwd"]["bytes"] == {"working": 16}
    out = command("status")[1]
    assert "Scope revisions: g1c1s1" in out
    assert "- global: contract 10 B" in out


def test_readers_take_no_lock_and_change_no_file(command: Command, store: Path) -> None:
    before = all_bytes(store)
    with held_turn(store.parent):
        for arguments in (("read", "effective"), ("log",), ("status",), ("doctor",)):
            assert command(*arguments)[0] == 0
    assert all_bytes(store) == before


def test_a_damaged_session_is_named_and_ends_with_three(command: Command, store: Path) -> None:
    (file,) = store.glob("--*/main/checkpoint.json")
    file.write_text("{")
    code, out, _ = command("status")
    assert code == 3
    assert "main/checkpoint.json" in out
    code, out, _ = command("doctor", "--json")
    assert code == 3
    assert not json.loads(out)["clean"]
    assert command("read", "session")[0] == 3
    assert command("read", "cwd")[0] == 0


def test_settings_that_cannot_be_used_end_with_three_everywhere(command: Command, store: Path) -> None:
    (store / "config.json").write_text('{"mode": "loud"}')
    for arguments in (("read", "effective"), ("status",), ("patch", "patch.json"), ("checkpoint",), ("doctor",)):
        assert command(*arguments)[0] == 3, arguments


def test_settings_decide_the_limit_of_readers_and_the_mode_of_patches(command: Command, tmp_path: Path) -> None:
    store = tmp_path / "agent" / "state-flow"
    store.mkdir(parents=True)
    (store / "config.json").write_text('{"historyLimit": 0, "mode": "off"}')
    Path("patch.json").write_text(json.dumps(PATCH))
    code, _, err = command("patch", "patch.json")
    assert code == 1
    assert "E_OFF" in err
    assert command("patch", "patch.json", "--mode", "passive")[0] == 0
    assert "E_HISTORY_RANGE" in command("read", "effective[1]")[2]
    # A greater limit does not bring back what was not kept.
    assert "E_HISTORY_ORIGIN" in command("read", "effective[1]", "--history-limit", "7")[2]


def test_checkpoint_writes_what_a_killed_process_left_in_the_journal(command: Command, store: Path) -> None:
    code = (
        "import os, trio, strataflow\n"
        "async def work():\n"
        "    async with strataflow.open_runtime() as runtime:\n"
        "        session = await runtime.open_session(os.getcwd(), 'main', 'active')\n"
        "        await session.patch_state(cwd={'working': {'late': 1}})\n"
        "        os.kill(os.getpid(), 9)\n"
        "trio.run(work)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert command("read", "cwd.working.late", "--json")[1] == '{"value":1}\n'
    (tail,) = store.glob("--*/patches.jsonl")
    assert b"late" not in tail.read_bytes()
    code_, out, _ = command("checkpoint", "--json")
    assert code_ == 0
    report = json.loads(out)
    assert any(scope.startswith("--") for scope in report["scopes"])
    assert b"late" in tail.read_bytes()
    assert json.loads(command("checkpoint", "--json")[1])["files"] == 0


def test_unlock_removes_a_dead_strangers_lock_and_refuses_a_living_ones(command: Command, store: Path) -> None:
    lock = store / ".state-flow-publication.lock"
    lock.write_text(f"{os.getpid()}\n")
    code, out, err = command("unlock")
    assert (code, out) == (1, "")
    assert "E_LOCK" in err
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    lock.write_text(f"{child.pid}\n")
    code, out, _ = command("unlock", "--json")
    assert code == 0
    assert json.loads(out)["removed"] is True
    assert not lock.exists()


def test_doctor_knows_every_file_that_our_own_programs_make(command: Command, store: Path) -> None:
    code, out, _ = command("doctor", "--json")
    assert code == 0
    assert {finding["severity"] for finding in json.loads(out)["findings"]} == {"ok"}


def test_doctor_rebuilds_a_damaged_journal_on_request_only(command: Command, store: Path) -> None:
    journal = store / ".strataflow" / "journal.db"
    journal.write_bytes(b"not a database" * 1_000)
    for arguments in (("patch", "patch.json"), ("read", "effective"), ("doctor",)):
        code, out, err = command(*arguments)
        assert code == 3
        assert "doctor --rebuild" in out + err
    assert command("doctor", "--rebuild")[0] == 0
    assert command("doctor")[0] == 0
    assert command("read", "cwd.working.list", "--json")[1] == '{"value":[1,2,3]}\n'


@pytest.mark.slow
def test_a_command_that_waits_says_so_and_ends_by_a_signal(command: Command, store: Path) -> None:
    arguments = [sys.executable, "-m", "strataflow", "patch", "patch.json"]
    with held_turn(store.parent):
        with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert b"waiting for the store" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert b"Traceback" not in process.stderr.read()
    assert json.loads(command("status", "--json")[1])["step"] == 1


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_a_command_quietly(command: Command, store: Path) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    arguments = [sys.executable, "-m", "strataflow", "status"]
    done = subprocess.run(arguments, stdout=writable, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writable)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
def test_the_script_and_the_module_tell_the_version_at_once() -> None:
    code = "import sys, strataflow.__main__ as m; sys.argv[1:] = ['--version']; m.main(); print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True, text=True)
    assert done.stdout.split() == ["strataflow", strataflow.__version__, "False"]
    done = subprocess.run(
        [sys.executable, "-m", "strataflow", "--version"], capture_output=True, timeout=60, check=True, text=True
    )
    assert done.stdout == f"strataflow {strataflow.__version__}\n"


def test_colour_and_moving_bars_are_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert styled("text", "red", io.StringIO()) == "text"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TERM", "xterm")
        patched.delenv("NO_COLOR", raising=False)
        assert styled("text", "red", Terminal()) == "\x1b[31mtext\x1b[0m"
        patched.setenv("NO_COLOR", "1")
        assert styled("text", "red", Terminal()) == "text"
    progress = Progress("work", 10)
    progress.show(5)
    assert capsys.readouterr().err == ""  # short work shows nothing
    progress._started_s -= 5
    progress.show(6, "note")
    assert capsys.readouterr().err == "work 6/10  note\n"
