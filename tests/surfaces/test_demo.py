"""The demo: that it proves what it says (planted faults are found), and that it runs with real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strataflow.runtime.surfaces import demo_command
from strataflow.runtime.surfaces.demo_check import (
    Claim,
    Verdict,
    count_parsed,
    judge,
    read_claims,
    read_state,
)
from strataflow.runtime.surfaces.demo_plan import patch, places, token

X, Y = ("global", "working", "x"), ("s", "working", "y")


def claim(mark: str, seq: int | None, *where: tuple[str, ...], session: str = "s", number: int = 0) -> Claim:
    return Claim(mark, session, number or (seq or 99), where or (X,), seq)


def state(**values: str) -> dict[str, Any]:
    return {"global": {"working": {k: v for k, v in values.items() if k == "x"}}, "s": {"working": values}}


def test_the_last_acknowledged_patch_of_each_place_must_stand() -> None:
    claims = [claim("a", 1, X, Y), claim("b", 2, X), claim("c", 3, Y)]
    assert judge(claims, state(x="b", y="c"), {}) == Verdict(3, 2, 0, 0, ())
    assert judge(claims, state(x="b", y="a"), {}).faults != ()
    assert judge(claims, state(x="a", y="c"), {}).faults != ()
    assert judge(claims, state(y="c"), {}).faults == ("global.working.x: the acknowledged 'b' is gone",)
    assert judge(claims, {}, {}).faults != ()


def test_a_value_that_nobody_wrote_there_is_a_fault() -> None:
    claims = [claim("a", 1, X), claim("b", 2, Y)]
    assert judge(claims, state(x="b", y="b"), {}).faults != ()
    assert judge(claims, state(x="stranger", y="b"), {}).faults != ()
    assert judge(claims, {"global": {"working": {"x": {"deep": 1}}}, "s": {"working": {"y": "b"}}}, {}).faults != ()


def test_an_unanswered_patch_may_stand_or_not_unless_the_journal_says_it_came_before() -> None:
    claims = [claim("a", 5, X), claim("lost", None, X)]
    assert judge(claims, state(x="a"), {}) == Verdict(1, 1, 1, 0, ())
    assert judge(claims, state(x="lost"), {}) == Verdict(1, 0, 1, 1, ())
    later = {5: {"global": {"working": {"x": "a"}}}, 6: {"global": {"working": {"x": "lost"}}}}
    assert judge(claims, state(x="lost"), later).faults == ()
    before = {4: {"global": {"working": {"x": "lost"}}}, 5: {"global": {"working": {"x": "a"}}}}
    assert judge(claims, state(x="lost"), before).faults != ()


def test_a_row_that_is_not_what_the_client_was_told_is_a_fault() -> None:
    claims = [claim("a", 1, X), claim("b", 2, X)]
    rows = {1: {"global": {"working": {"x": "a"}}}, 2: {"global": {"working": {"x": "b"}}}}
    assert judge(claims, state(x="b"), rows).faults == ()
    assert judge(claims, state(x="b"), {1: rows[2], 2: rows[1]}).faults != ()
    assert judge([claim("a", 1, X), claim("b", 1, X)], state(x="b"), {}).faults != ()


def test_patches_of_a_session_out_of_its_order_are_a_fault() -> None:
    claims = [claim("a", 2, X, number=1), claim("b", 1, X, number=2)]
    assert judge(claims, state(x="a"), {}).faults != ()


def test_state_is_put_together_from_the_canonical_files_alone(tmp_path: Path) -> None:
    assert read_state(tmp_path) == {}
    (tmp_path / "checkpoint.json").write_text('{"working": {"a": 1, "b": {"c": 1}, "d": 0}}')
    (tmp_path / "patches.jsonl").write_text('{"working": {"b": {"c": null, "e": 2}}}\n\n{"working": {"d": {"f": 3}}}')
    assert read_state(tmp_path) == {"working": {"a": 1, "b": {"e": 2}, "d": {"f": 3}}}
    assert count_parsed(tmp_path) == 2
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(ValueError, match=r"meta\.json"):
        count_parsed(tmp_path)


def test_notes_of_a_killed_writer_end_where_the_last_line_was_whole(tmp_path: Path) -> None:
    scopes = patch(1, 2, 3, 0)
    mark = token(1, 2, 3, 0)
    send = json.dumps({"event": "send", "session": "w1-s2", "number": 3, "token": mark, "patch": scopes})
    ack = json.dumps({"event": "ack", "session": "w1-s2", "number": 3, "token": mark, "seq": 8})
    file = tmp_path / "notes"
    for text, seq in ((f"{send}\n{ack}\n", 8), (f"{send}\n{ack}", None), (f"{send}\n{ack[:9]}", None)):
        file.write_text(text)
        (found,) = read_claims([file])
        assert (found.token, found.seq) == (mark, seq)
        assert set(found.places) == set(places("w1-s2", scopes))
        assert ("w1-s2", "working", "progress") in found.places


@pytest.mark.slow
def test_the_demo_kills_a_process_and_finds_everything(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    command = [sys.executable, "-m", "strataflow", "demo", "--json", "--agent-dir", str(agent)]
    command += ["--processes", "2", "--sessions", "2", "--patches", "20", "--durability", "process"]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert report["acknowledged"] == 80
    assert report["faults"] == []
    assert report["killed"]["pid"] != report["killed"]["replacement_pid"]
    assert report["doctor_clean"] is True
    assert report["files"] == 3 + 3 + 4 * 5
    backups = report["backups"]
    assert backups["faults"] == []
    assert backups["files"] == report["files"]
    assert backups["commits"] >= 1
    assert report["effective"]["working"]["progress"].startswith("w0-s0 patch 19")
    assert Path(report["store"]).is_dir()
    # Not even a real store passes once a value in it is another one.
    (folder,) = (agent / "state-flow").glob("--*")
    states = {"global": read_state(agent / "state-flow"), "cwd": read_state(folder)}
    states |= {path.name: read_state(path) for path in folder.iterdir() if path.is_dir()}
    claims = read_claims(sorted((agent / "demo-notes").iterdir()))
    assert judge(claims, states, {}).faults == ()
    states["cwd"]["working"]["last"] = next(claim.token for claim in claims if claim.seq)
    assert len(judge(claims, states, {}).faults) == 1


@pytest.mark.slow
def test_the_demo_shows_people_what_it_did_and_can_leave_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "strataflow", "demo", "--agent-dir", str(tmp_path / "agent"), "--discard"]
    command += ["--processes", "1", "--sessions", "2", "--patches", "5", "--durability", "process"]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert "10 patches acknowledged" in done.stdout
    assert "the doctor finds nothing wrong" in done.stdout
    assert "a clone of it is the store" in done.stdout
    assert "got SIGKILL" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert not (tmp_path / "agent").exists()


@pytest.mark.parametrize(
    "started, paths, shown",
    [
        (".venv/bin/strataflow", "", ".venv/bin/strataflow"),
        (".venv/bin/strataflow", "bin", "strataflow"),
        ("src/strataflow/__main__.py", "", "strataflow"),
    ],
)
def test_the_demo_ends_with_a_command_that_can_be_typed_as_it_stands(
    started: str, paths: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "strataflow").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / paths if paths else tmp_path))
    monkeypatch.setattr(sys, "argv", [started, "demo"])
    assert demo_command._program() == shown
