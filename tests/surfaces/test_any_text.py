"""Whatever stands in files and names can be said: one odd session keeps nobody from seeing the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kit.session_trees import message_line, session_file


def strataflow(*arguments: str) -> tuple[int, bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = [sys.executable, "-m", "strataflow", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.stderr == b""
    return done.returncode, done.stdout


def test_halves_of_characters_and_names_that_are_no_text_are_said(tmp_path: Path) -> None:
    half = '{"type":"session","version":3,"id":"\\ud83d","cwd":"/"}'
    session_file(tmp_path / "half.jsonl", message_line("\ud83d", None, "x\ud83d"), header=half)
    session_file(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")), message_line("a", "gone", "y"))
    code, said = strataflow("sessions", "list", "--session-dir", str(tmp_path), "--json")
    found = {info["id"]: info for info in map(json.loads, said.splitlines())}
    assert (code, sorted(found)) == (0, ["s", "\ud83d"])
    assert (found["\ud83d"]["first_message"], os.fsencode(found["s"]["path"])[-8:]) == ("x\ud83d", b"/\xff.jsonl")
    code, said = strataflow("sessions", "tree", str(tmp_path / "half.jsonl"))
    assert (code, said) == (0, b"* \\ud83d user x\\ud83d\n")
    code, said = strataflow("sessions", "check", "--session-dir", str(tmp_path))
    assert code == 3
    assert b"/\xff.jsonl: line 2: the parent" in said


def test_a_tree_shows_entries_in_cycles_and_without_their_message(tmp_path: Path) -> None:
    odd = '{"type":"message","id":"odd","parentId":"d"}'
    lines = message_line("a", "b"), message_line("b", "a"), message_line("c", "b"), message_line("d", "d"), odd
    path = session_file(tmp_path / "s.jsonl", *lines)
    code, said = strataflow("sessions", "tree", str(path))
    assert code == 0
    assert [line.strip("|* ") for line in said.decode().splitlines()] == [
        "d user x",
        "odd message",
        "a user x",
        "b user x",
        "c user x",
    ]
